"""Arrays that overlap in host memory, such as views of one buffer: they overlap in the same way on a device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import ConfigurationError


@dataclass(slots=True)
class SharedMemory:
    """Host memory that arrays cover together."""

    start: int  # its address
    data: NDArray[np.uint8]
    writeable: bool = False  # whether any of them is
    offsets: dict[int, int] = field(default_factory=dict)  # where each begins in it, by its index


def together(arrays: Mapping[int, NDArray[Any]], name: Callable[[int], str]) -> list[SharedMemory]:
    """The memory of arrays, by their indices; in the order of the first ones.

    Raises:
        ConfigurationError: an array is not C-contiguous, or holds no numbers; `name` calls it by its index.
    """
    found: list[SharedMemory] = []
    for index, data in sorted(
        ((index, _flat(one, name(index))) for index, one in arrays.items()),
        key=lambda item: (item[1].ctypes.data, item[0]),
    ):
        begin = data.ctypes.data
        if not found or begin >= found[-1].start + found[-1].data.nbytes:
            found.append(SharedMemory(begin, data))
        last = found[-1]
        size = max(last.data.nbytes, begin + data.nbytes - last.start)
        if size > last.data.nbytes:  # the arrays keep it alive
            last.data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(last.start))
        last.writeable |= arrays[index].flags.writeable
        last.offsets[index] = begin - last.start
    return sorted(found, key=lambda one: min(one.offsets))


def _flat(array: NDArray[Any], name: str) -> NDArray[np.uint8]:
    if not array.flags.c_contiguous:
        raise ConfigurationError(
            f"{name} is no C-contiguous array", hint="pass np.ascontiguousarray(…), or the padded storage itself"
        )
    if array.dtype.hasobject:
        raise ConfigurationError(f"{name} holds Python objects", hint="pass an array of numbers")
    return array.reshape(-1).view(np.uint8)
