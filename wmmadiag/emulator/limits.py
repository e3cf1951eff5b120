"""What each architecture allows a block.

Source: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.errors import UnsupportedError
from wmmadiag.numerics.architecture import architecture


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one architecture."""

    shared_per_block: int  # largest static + dynamic shared memory of a block, with the opt-in, bytes
    reserved_shared: int  # bytes at the start of shared memory that the system keeps for itself
    threads_per_block: int = 1024  # largest block
    local_per_thread: int = 512 * 1024  # largest local memory of a thread, bytes


_KB = 1024
_SHARED_KB = {
    75: 64,
    **dict.fromkeys((80, 87), 163),
    **dict.fromkeys((86, 88, 89, 120, 121), 99),
    **dict.fromkeys((90, 100, 103, 107, 110), 227),
}
SHARED_WITHOUT_OPT_IN = 48 * _KB
"""Dynamic shared memory beyond this needs cudaFuncAttributeMaxDynamicSharedMemorySize on every architecture."""


def limits(arch: str) -> Limits:
    """The limits of an architecture such as "sm_90".

    Raises:
        UnsupportedError: unknown architecture.
    """
    number = architecture(arch).number
    if number not in _SHARED_KB:
        raise UnsupportedError(
            f"the limits of {arch} are not known", hint=f"known: {', '.join(f'sm_{n}' for n in sorted(_SHARED_KB))}"
        )
    return Limits(shared_per_block=_SHARED_KB[number] * _KB, reserved_shared=_KB if number >= 80 else 0)
