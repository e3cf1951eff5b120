"""The GPUs of this machine. Looking at them makes no context, so that a fault cannot reach this process."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

from wmmadiag.errors import ConfigurationError

# Calls of the CUDA driver API: loaded when first used, each result checked.


_NO_GPU = "run on the emulator (--backend emulator), or install NVIDIA's driver"


class DriverError(Exception):
    """A driver call failed. Internal: `meanings.failure` makes errors for the user of it.

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


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU."""

    index: int  # its number, as CUDA counts
    name: str  # "NVIDIA H200"
    arch: str  # "sm_90"
    multiprocessors: int  # their number
    shared_per_block: int  # bytes of shared memory, with the opt-in
    threads: int  # per multiprocessor
    driver: str  # CUDA version of the driver, "13.0"


def devices() -> tuple[Device, ...]:
    """All GPUs, in CUDA's order.

    Raises:
        ConfigurationError: no driver, or no GPU.
    """
    driver = api()
    return tuple(_device(index) for index in range(int(call(driver.cuDeviceGetCount(), "count the GPUs"))))


def device(index: int | None = None) -> Device:
    """One GPU; None: that of the environment variable WMMADIAG_GPU, else the first.

    Raises:
        ConfigurationError: there is none of that number.
    """
    if index is None:
        text = os.environ.get("WMMADIAG_GPU", "0")
        if not text.isdecimal():
            raise ConfigurationError(f"WMMADIAG_GPU={text!r} is no number of a GPU", hint="set it to 0, 1, …")
        index = int(text)
    found = devices()
    if not 0 <= index < len(found):
        names = ", ".join(f"{one.index}: {one.name}" for one in found)
        raise ConfigurationError(f"there is no GPU {index}", hint=f"the GPUs here: {names}")
    return found[index]


def available() -> str:
    """Why no GPU can be used here, or "" if one can."""
    try:
        devices()
    except ConfigurationError as error:
        return error.message
    return ""


@functools.cache
def _device(index: int) -> Device:
    driver = api()
    handle = call(driver.cuDeviceGet(index), "open the GPU")

    def value(name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(call(driver.cuDeviceGetAttribute(attribute, handle), "ask the GPU"))

    name = call(driver.cuDeviceGetName(256, handle), "ask the GPU").split(b"\0")[0].decode()
    version = int(call(driver.cuDriverGetVersion(), "ask the driver"))
    return Device(
        index=index,
        name=name,
        arch=f"sm_{value('COMPUTE_CAPABILITY_MAJOR')}{value('COMPUTE_CAPABILITY_MINOR')}",
        multiprocessors=value("MULTIPROCESSOR_COUNT"),
        shared_per_block=value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        threads=value("MAX_THREADS_PER_MULTIPROCESSOR"),
        driver=f"{version // 1000}.{version % 1000 // 10}",
    )
