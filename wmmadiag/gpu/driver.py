"""Calls of the CUDA driver API: loaded when first used, each result checked."""

from __future__ import annotations

import functools
from typing import Any

from wmmadiag.errors import ConfigurationError

_NO_GPU = "run on the emulator (--backend emulator), or install NVIDIA's driver"


class DriverError(Exception):
    """A driver call failed. Internal: `faults` makes errors for the user of it.

    Attributes:
        code: CUresult.
        doing: what was tried, "launch", "copy to the GPU".
    """

    def __init__(self, code: int, doing: str) -> None:
        super().__init__(f"{doing}: CUDA error {code}")
        self.code = code
        self.doing = doing


@functools.cache
def api() -> Any:
    """`cuda.bindings.driver`, initialised.

    Raises:
        ConfigurationError: cuda-bindings, the driver or a GPU is missing.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ConfigurationError(
            "cuda-bindings is not installed", detail=str(error), hint="pip install 'cuda-bindings>=13,<14'"
        ) from None
    try:
        (status,) = driver.cuInit(0)
    except Exception as error:  # the bindings raise RuntimeError where there is no libcuda
        raise ConfigurationError("no NVIDIA driver is installed here", detail=str(error), hint=_NO_GPU) from None
    if int(status) != 0:
        raise ConfigurationError(f"there is no GPU that can be used: {status.name}", hint=_NO_GPU)
    return driver


def call(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a driver call.

    Raises:
        DriverError: it failed.
    """
    status, *values = result
    if int(status) != 0:
        raise DriverError(int(status), doing)
    return values[0] if len(values) == 1 else values
