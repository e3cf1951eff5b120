"""Where a probe's kernels run: one architecture on one backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from wmmadiag import backends
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Argument, Launch, LoadedKernel
from wmmadiag.subject import shipped

if TYPE_CHECKING:
    from wmmadiag.compile.model import Compilation
    from wmmadiag.ptx.ir import Module

_SECONDS = 20.0
"""For one launch."""

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
"""Array type of an element type, for buffers of the kernels; tf32 is kept as float."""


@dataclass
class Platform:
    """Compiles and launches probe kernels."""

    arch: str  # target, "sm_90"
    backend: str = "emulator"  # "emulator", "gpu" or "both"
    # as for `wmmadiag.compile_cuda`
    use_cache: bool = True
    _compiled: dict[tuple[str, tuple[tuple[str, str], ...]], Compilation] = field(default_factory=dict)
    _modules: dict[str, Module] = field(default_factory=dict)
    _kernels: dict[tuple[str, str, tuple[tuple[str, str], ...]], LoadedKernel] = field(default_factory=dict)

    @cached_property
    def loader(self) -> backends.Loader:
        """Loads kernels of this backend."""
        # One warp's work: more threads only cost their start.
        return backends.backend(self.backend, backends.RunLimits(threads=1, seconds=_SECONDS))

    def compiled(self, source: str, macros: Mapping[str, str] | None = None) -> Compilation:
        """Compile a file of `probes/`.

        Raises:
            CompileError: the compiler refuses it.
            ConfigurationError: the compiler does not know the architecture, or is missing.
        """
        from wmmadiag.compile.driver import compile_source
        from wmmadiag.compile.options import CompileOptions

        key = source, tuple((macros or {}).items())
        if key not in self._compiled:
            options = CompileOptions(arch=self.arch, macros=dict(macros or {}))
            self._compiled[key] = compile_source(shipped.probes() / source, options, use_cache=self.use_cache)
        return self._compiled[key]

    def _loaded(self, ptx: str, entry: str) -> LoadedKernel:
        if self.backend != "emulator":
            return self.loader(ptx, entry, arch=self.arch)
        # A module of thirty kernels is parsed once, not once for each.
        from wmmadiag.emulator import Budget, EmulatedKernel, EmulatorOptions, lower
        from wmmadiag.ptx import parse

        if ptx not in self._modules:
            self._modules[ptx] = parse(ptx)
        options = EmulatorOptions(threads=1, budget=Budget(seconds=_SECONDS))
        return EmulatedKernel(lower(self._modules[ptx], entry, self.arch), options)

    def run(
        self,
        source: str,
        entry: str,
        arguments: Sequence[Argument],
        *,
        block: int = 32,
        shared: int = 0,
        macros: Mapping[str, str] | None = None,
    ) -> str:
        """Launch one block; arrays are changed in place.

        Returns:
            "", or the kind of fault that ended the launch ("misaligned", …).

        Raises: as `compiled`, and what the backend cannot run.
        """
        key = source, entry, tuple((macros or {}).items())
        try:
            if key not in self._kernels:
                self._kernels[key] = self._loaded(self.compiled(source, macros).ptx, entry)
            self._kernels[key].launch(Launch((1, 1, 1), (block, 1, 1), tuple(arguments), shared))
        except KernelFault as fault:
            return fault.kind
        return ""
