"""Where the arrays of a launch lie on the device, and what of them nothing has written yet."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.memory_layout import ARGUMENT_BASE, align_up
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import Launch

_GAP = 1 << 20
"""Unmapped bytes between arrays, so that running past one is seen."""
_ALIGN = 512


def place_arrays(launch: Launch, regions: list[tuple[int, NDArray[np.uint8], bool]]) -> dict[int, int]:
    """Device address of each array argument by its index; appends their memory to `regions`.

    Arrays that overlap in host memory, such as views of one buffer, overlap in the same way on the device.
    """
    arrays = [
        (_flat(argument, launch.name(index)), index)
        for index, argument in enumerate(launch.arguments)
        if isinstance(argument, np.ndarray)
    ]
    groups: list[list[tuple[NDArray[np.uint8], int]]] = []
    end = -1
    for data, index in sorted(arrays, key=lambda item: (item[0].ctypes.data, item[1])):
        start = data.ctypes.data
        if not groups or start >= end:
            groups.append([])
        groups[-1].append((data, index))
        end = max(end, start + data.nbytes)
    placed: dict[int, int] = {}
    address = ARGUMENT_BASE + launch.displaced
    for group in sorted(groups, key=lambda group: min(index for _, index in group)):
        start = group[0][0].ctypes.data
        size = max(data.ctypes.data + data.nbytes for data, _ in group) - start
        whole = group[0][0] if group[0][0].nbytes == size else _memory_at(start, size)
        for data, index in group:
            placed[index] = address + data.ctypes.data - start
        regions.append((address, whole, any(launch.arguments[index].flags.writeable for _, index in group)))  # type: ignore[union-attr]
        address = align_up(address + size + _GAP, _ALIGN) + launch.displaced
    return placed


def unwritten(launch: Launch, extents: list[MemoryExtent]) -> list[tuple[int, int]]:
    """(device address, bytes) of what nothing has written yet in array arguments."""
    arrays = [index for index, argument in enumerate(launch.arguments) if isinstance(argument, np.ndarray)]
    placed = dict(zip(arrays, extents, strict=False))  # the extents of arguments come first, in their order
    memory = [(one.address + one.fresh[0], one.fresh[1]) for one in launch.memory if one.data.size and one.fresh[1]]
    return [(placed[i].start + part.start, len(part)) for i, part in launch.fresh if i in placed] + memory


def _memory_at(start: int, size: int) -> NDArray[np.uint8]:
    """The host memory that several overlapping arrays cover together; they keep it alive."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))


def _flat(array: NDArray[Any], name: str) -> NDArray[np.uint8]:
    if not array.flags.c_contiguous:
        raise ConfigurationError(
            f"{name} is no C-contiguous array", hint="pass np.ascontiguousarray(…), or the padded storage itself"
        )
    if array.dtype.hasobject:
        raise ConfigurationError(f"{name} holds Python objects", hint="pass an array of numbers")
    return array.reshape(-1).view(np.uint8)
