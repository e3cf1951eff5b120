"""Stores by element: what lies outside an output's tensors, and what of them nobody wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from wmmadiag.checks.registry import Context
from wmmadiag.emulator.extents import ExtentPart
from wmmadiag.emulator.output_words import Words, Writers
from wmmadiag.launch import ArgumentView


@dataclass(frozen=True, slots=True)
class Output:
    """An argument that may be written, with who wrote its elements."""

    # index, name: of the argument
    index: int
    name: str
    # start, item: device address, and bytes of an element
    start: int
    item: int
    words: Words  # of all its storage, uint64 (n,)
    views: tuple[ArgumentView, ...]  # the tensors in it

    def of(self, view: ArgumentView) -> Writers:
        """The writers of one tensor, in its shape."""
        return Writers(_strided(self.words, view))

    def outside(self) -> NDArray[np.int64]:
        """Positions in the storage that were written and that no tensor of it covers, ascending, int64 (n,)."""
        covered = np.zeros(self.words.size, np.bool_)
        for view in self.views:
            _strided(covered, view)[...] = True
        return np.flatnonzero(Writers(self.words).written & ~covered)

    def part(self, view: ArgumentView) -> ExtentPart:
        """A tensor for words about it."""
        strides = tuple(stride * self.item for stride in view.strides)
        return ExtentPart(view.name, view.offset * self.item, self.item, view.shape, strides)


def _strided(flat: NDArray[Any], view: ArgumentView) -> NDArray[Any]:
    size = flat.dtype.itemsize
    return as_strided(flat[view.offset :], view.shape, tuple(stride * size for stride in view.strides))


def outputs(context: Context) -> Iterator[Output]:
    """The arguments that may be written, with who wrote them."""
    for index, words in context.written.items():
        name = context.launch.names[index] if index < len(context.launch.names) else f"argument {index}"
        extent = next(one for one in context.extents if one.space == "global" and one.name == name)
        views = tuple(view for view in context.launch.views if view.argument == index)
        yield Output(index, name, extent.start, extent.size // words.size, words, views)


def neighbours(output: Output, position: int) -> str:
    """Where a storage position that no tensor covers lies: "after O[0,0,3,63]", or before the first element."""
    best: tuple[int, str] | None = None
    for view in output.views:
        part = output.part(view)
        for before in range(position - 1, max(position - 4096, -1), -1):
            index = part.index(before * output.item)
            if index is not None:
                if best is None or before > best[0]:
                    best = before, f"{position - before} after {view.name}[{','.join(map(str, index))}]"
                break
    return best[1] if best is not None else f"element {position:,} of its storage"


def by_line(output: Output, positions: NDArray[np.int64]) -> Sequence[tuple[int, NDArray[np.int64]]]:
    """(program counter of the store, its positions) of written positions."""
    if not positions.size:
        return ()
    lines = Writers(output.words[positions]).lines
    return [(int(line), positions[lines == line]) for line in np.unique(lines)]
