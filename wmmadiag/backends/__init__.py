"""Where a kernel can run, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import LoadedKernel

if TYPE_CHECKING:
    from wmmadiag.emulator import EmulatorOptions

Loader = Callable[..., LoadedKernel]
"""Called as `loader(ptx, entry, arch=…)`."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What one launch may use; None: the backend's own limit.

    Attributes:
        threads: host threads, 0 for as many as there are; the result does not depend on it. Not for a GPU.
        instructions: warp instructions; 0 for no limit. Not for a GPU.
        seconds: wall time; 0 for no limit.
    """

    threads: int = 0
    instructions: int | None = None
    seconds: float | None = None


def backend(name: str, limits: RunLimits | None = None, checks: Sequence[str] = ()) -> Loader:
    """The loader of a backend.

    Args:
        checks: the engine's checks to run in each launch on the emulator.

    Raises:
        ConfigurationError: there is no backend of that name, or a limit is negative.
    """
    limits = limits or RunLimits()
    wished = {"threads": limits.threads, "instructions": limits.instructions, "seconds": limits.seconds}
    for what, value in wished.items():
        if value is not None and not value >= 0:
            raise ConfigurationError(f"a run cannot have {value} {what}", hint="give 0 for no limit, or more")
    if name not in _BACKENDS:
        raise ConfigurationError(f"unknown backend '{name}'", hint="known here: " + ", ".join(_BACKENDS))
    return _BACKENDS[name](limits, tuple(checks))


def _emulator_options(limits: RunLimits, checks: tuple[str, ...]) -> EmulatorOptions:
    from wmmadiag.emulator import Budget, EmulatorOptions

    default = Budget()
    budget = Budget(
        default.instructions if limits.instructions is None else limits.instructions,
        default.seconds if limits.seconds is None else limits.seconds,
    )
    return EmulatorOptions(threads=limits.threads, budget=budget, checks=checks)


def _emulator(limits: RunLimits, checks: tuple[str, ...]) -> Loader:
    from wmmadiag.emulator import load

    options = _emulator_options(limits, checks)

    def loader(ptx: str, entry: str, *, arch: str) -> LoadedKernel:
        return load(ptx, entry, arch=arch, options=options)

    return loader


def _gpu(limits: RunLimits, checks: tuple[str, ...]) -> Loader:
    del checks  # a GPU shows no accesses
    from wmmadiag.gpu import GpuOptions, device, load

    device()  # no GPU: said once, here, and not for every case
    options = GpuOptions() if limits.seconds is None else GpuOptions(seconds=limits.seconds)

    def loader(ptx: str, entry: str, *, arch: str) -> LoadedKernel:
        return load(ptx, entry, arch=arch, options=options)

    return loader


def _both(limits: RunLimits, checks: tuple[str, ...]) -> Loader:
    from wmmadiag.backends.differential import load
    from wmmadiag.gpu import GpuOptions, device

    device()
    options = GpuOptions() if limits.seconds is None else GpuOptions(seconds=limits.seconds)

    def loader(ptx: str, entry: str, *, arch: str) -> LoadedKernel:
        return load(ptx, entry, arch=arch, options=_emulator_options(limits, checks), gpu_options=options)

    return loader


def default_arch(name: str) -> str:
    """The architecture to compile for where the user names none: "sm_90", or that of the GPU.

    Raises:
        ConfigurationError: the backend needs a GPU and there is none.
    """
    if name not in ("gpu", "both"):
        return "sm_90"
    from wmmadiag.gpu import device

    return device().arch


_BACKENDS: dict[str, Callable[[RunLimits, tuple[str, ...]], Loader]] = {
    "emulator": _emulator,
    "gpu": _gpu,
    "both": _both,
}
BACKENDS = tuple(_BACKENDS)
"""The names that there are."""
