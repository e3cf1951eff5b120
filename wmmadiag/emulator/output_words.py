"""Which argument elements a run's checks watch, and who wrote each: decoded words of native/checks/outputs.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.launch import Launch

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Writers:
    """Who wrote each element of an argument last, by its words; all methods keep their shape."""

    words: Words

    @property
    def written(self) -> NDArray[np.bool_]:
        """Whether anyone did."""
        return np.asarray((self.words & np.uint64(1)) != 0, np.bool_)

    @property
    def warps(self) -> NDArray[np.uint64]:
        """Warp in the block."""
        return self.words >> np.uint64(3) & np.uint64(0x3F)

    @property
    def lines(self) -> NDArray[np.uint64]:
        """Program counter of the store."""
        return self.words >> np.uint64(9) & np.uint64(0xFFFFFF)

    @property
    def blocks(self) -> NDArray[np.uint64]:
        """Linear index of the block."""
        return self.words >> np.uint64(33)


def watched(
    launch: Launch, extents: Sequence[MemoryExtent]
) -> tuple[list[tuple[int, int, int, int]], dict[int, Words]]:
    """What the engine takes as `watched`, and the words of each argument that may be written, by its index.

    `extents`: of the array arguments first, in their order.
    """
    arrays = {index: argument for index, argument in enumerate(launch.arguments) if isinstance(argument, np.ndarray)}
    placed = dict(zip(arrays, extents, strict=False))
    table: list[tuple[int, int, int, int]] = []
    words: dict[int, Words] = {}
    known = {view.argument for view in launch.views if view.argument in arrays}
    outputs = {view.argument for view in launch.views if view.written} & known
    for index in sorted(known):
        array: NDArray[Any] = arrays[index]
        extent = placed[index]
        if array.size == 0 or array.itemsize == 0:
            continue
        if index in outputs:
            words[index] = np.zeros(array.size, np.uint64)
            table.append((extent.start, extent.size, array.itemsize, words[index].ctypes.data))
        elif not _inside_others(index, placed, set(arrays) - known | outputs):
            table.append((extent.start, extent.size, array.itemsize, 0))
    return table, words


def _inside_others(index: int, placed: dict[int, MemoryExtent], others: set[int]) -> bool:
    """Whether an argument's memory is also that of one that may be written."""
    mine = placed[index]
    return any(
        placed[other].start < mine.start + mine.size and mine.start < placed[other].start + placed[other].size
        for other in others
    )
