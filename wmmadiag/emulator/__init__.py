"""Run compiled PTX on the CPU, bit for bit: no GPU, no driver."""

from __future__ import annotations

from functools import lru_cache

from wmmadiag.compile.origin import origin_of, ptx_name
from wmmadiag.emulator.kernel import Budget, EmulatedKernel, EmulatorOptions
from wmmadiag.emulator.lower import LoweredKernel, lower
from wmmadiag.errors import ConfigurationError
from wmmadiag.ptx import parse

__all__ = ["Budget", "EmulatedKernel", "EmulatorOptions", "LoweredKernel", "load", "lower"]


def load(
    ptx: str, entry: str = "", *, arch: str = "", options: EmulatorOptions | None = None, name: str = ""
) -> EmulatedKernel:
    """Make a kernel ready to run.

    Args:
        ptx: the text of a PTX module.
        entry: mangled name of the kernel; may be empty when there is only one.
        arch: architecture whose tensor cores to emulate, such as "sm_89"; empty: the module's target.
        options: how to run it.
        name: what to call the PTX in messages; empty: the file that it was read from, or "<ptx>".

    Raises:
        PtxSyntaxError: the PTX is malformed.
        UnsupportedError: the kernel reaches something that is not emulated.
        ConfigurationError: no such kernel, or PTX for a newer architecture than `arch`.
    """
    kernel = _lowered(ptx, entry, arch, name or ptx_name(ptx))
    return EmulatedKernel(kernel, options or EmulatorOptions(), origin_of(ptx))


@lru_cache(maxsize=4)
def _lowered(ptx: str, entry: str, arch: str, name: str) -> LoweredKernel:
    """A kernel as the engine takes it, which nothing changes: a source that is read in several ways is lowered once."""
    module = parse(ptx, name=name, entry=entry)
    if not entry:
        if len(module.entries) != 1:
            raise ConfigurationError(
                f"{name} holds {len(module.entries)} kernels", hint=f"choose one: {', '.join(module.entries)}"
            )
        entry = module.entries[0]
    return lower(module, entry, arch or module.target)
