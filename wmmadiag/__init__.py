"""Differential correctness and debugging for WMMA (tensor-core) CUDA kernels, with or without a GPU.

    import numpy as np, wmmadiag

    attn = wmmadiag.kernel("my_kernel.cu", "attn")
    attn.launch((S // 64, H, B), 128, q, k, v, o, S, D**-0.5)
    seen = wmmadiag.compare_arrays(o, wmmadiag.reference("attention", q=q, k=k, v=v))

    report = wmmadiag.check("kernel.toml")
    print(wmmadiag.render(report))

Importing this imports nothing else: NumPy, the compiler and the emulator are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__documentation__ = ""
"""Where this version's pages are to be read, "https://…": "" until there is a public address (docs/releasing.md)."""

if TYPE_CHECKING:
    from wmmadiag.api import check, compile_cuda, diagnosis, kernel, open_card
    from wmmadiag.api.fragment_layouts import fragment_map
    from wmmadiag.api.judging import Reference, compare_arrays, reference
    from wmmadiag.api.launchable import Kernel
    from wmmadiag.backends import RunLimits
    from wmmadiag.campaign.api import run_campaign
    from wmmadiag.debugger.api import debug
    from wmmadiag.errors import (
        BudgetError,
        CompileError,
        ConfigurationError,
        KernelFault,
        PtxSyntaxError,
        UndecidedError,
        UnsupportedError,
        WmmadiagError,
    )
    from wmmadiag.launch import RunStats
    from wmmadiag.place import Place
    from wmmadiag.report.terminal import render

_WHERE = {
    "wmmadiag.api": ("check", "compile_cuda", "diagnosis", "kernel", "open_card"),
    "wmmadiag.backends": ("RunLimits",),
    "wmmadiag.campaign.api": ("run_campaign",),
    "wmmadiag.debugger.api": ("debug",),
    "wmmadiag.errors": (
        "BudgetError",
        "CompileError",
        "ConfigurationError",
        "KernelFault",
        "PtxSyntaxError",
        "UndecidedError",
        "UnsupportedError",
        "WmmadiagError",
    ),
    "wmmadiag.api.fragment_layouts": ("fragment_map",),
    "wmmadiag.api.judging": ("Reference", "compare_arrays", "reference"),
    "wmmadiag.launch": ("RunStats",),
    "wmmadiag.api.launchable": ("Kernel",),
    "wmmadiag.place": ("Place",),
    "wmmadiag.report.terminal": ("render",),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "BudgetError",
    "CompileError",
    "ConfigurationError",
    "Kernel",
    "KernelFault",
    "Place",
    "PtxSyntaxError",
    "Reference",
    "RunLimits",
    "RunStats",
    "UndecidedError",
    "UnsupportedError",
    "WmmadiagError",
    "__version__",
    "check",
    "compare_arrays",
    "compile_cuda",
    "debug",
    "diagnosis",
    "fragment_map",
    "kernel",
    "open_card",
    "reference",
    "render",
    "run_campaign",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'wmmadiag' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_MODULES))
