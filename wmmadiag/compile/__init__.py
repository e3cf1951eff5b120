"""CUDA source to PTX and cubin, with no GPU and no driver: NVRTC, headers, host code, resources, cache.

Importing this package loads nothing: its modules come with the first use of a name, CUDA with the first compilation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmmadiag.compile.ask.signatures import KernelParameter, KernelSignature, signature
    from wmmadiag.compile.driver import compile_source, compile_text
    from wmmadiag.compile.model import Compilation, CompileNote, Entry, PtxasError, Resources
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.compile.resource_report import resources

__all__ = [
    "Compilation",
    "CompileNote",
    "CompileOptions",
    "Entry",
    "KernelParameter",
    "KernelSignature",
    "PtxasError",
    "Resources",
    "compile_source",
    "compile_text",
    "resources",
    "signature",
]

_MODULES = {
    "ask.signatures": ("KernelParameter", "KernelSignature", "signature"),
    "driver": ("compile_source", "compile_text"),
    "model": ("Compilation", "CompileNote", "Entry", "PtxasError", "Resources"),
    "options": ("CompileOptions",),
    "resource_report": ("resources",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
