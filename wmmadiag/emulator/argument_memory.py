"""Where the arrays of a launch lie on the device, and what of them nothing has written yet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.memory_layout import ARGUMENT_BASE, TABLE_BASE, align_up
from wmmadiag.launch import Launch
from wmmadiag.launch.overlaps import together

_GAP = 1 << 20
"""Unmapped bytes between arrays, so that running past one is seen."""
_ALIGN = 512


def place_arrays(launch: Launch, regions: list[tuple[int, NDArray[np.uint8], bool]]) -> dict[int, int]:
    """Device address of each array argument by its index; appends their memory to `regions`.

    Arrays that overlap in host memory, such as views of one buffer, overlap in the same way on the device.
    """
    arrays = {index: one for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
    placed: dict[int, int] = {}
    address = ARGUMENT_BASE + launch.displaced
    for group in together(arrays, launch.name):
        placed |= {index: address + offset for index, offset in group.offsets.items()}
        regions.append((address, group.data, group.writeable))
        address = align_up(address + group.data.nbytes + _GAP, _ALIGN) + launch.displaced
    return placed


def pointer_tables(launch: Launch, placed: Mapping[int, int]) -> dict[int, tuple[int, NDArray[np.uint8]]]:
    """Device address and bytes of each table of pointers, by the index of the array that they point into.

    Args:
        placed: the device address of each array.
    """
    found: dict[int, tuple[int, NDArray[np.uint8]]] = {}
    address = TABLE_BASE
    for index, (count, apart) in launch.tables.items():
        table = (placed[index] + apart * np.arange(count, dtype=np.uint64)).astype(np.uint64).view(np.uint8)
        found[index] = address, table
        address = align_up(address + table.nbytes + _GAP, _ALIGN)
    return found


def unwritten(launch: Launch, extents: list[MemoryExtent]) -> list[tuple[int, int]]:
    """(device address, bytes) of what nothing has written yet in array arguments."""
    arrays = [index for index, argument in enumerate(launch.arguments) if isinstance(argument, np.ndarray)]
    placed = dict(zip(arrays, extents, strict=False))  # the extents of arguments come first, in their order
    memory = [(one.address + one.fresh[0], one.fresh[1]) for one in launch.memory if one.data.size and one.fresh[1]]
    return [(placed[i].start + part.start, len(part)) for i, part in launch.fresh if i in placed] + memory
