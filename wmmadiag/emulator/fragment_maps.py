"""Fragment maps in the engine's form: the position of each register's elements in a dense matrix, line after line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments import FragmentMap

MapRow = tuple[int, int, int, int, int, int, NDArray[np.uint8]]
"""(lines, width, registers, elements per register, element bits, register bytes, int16 index as bytes)."""

_GROUP = 8


def even_first(columns: int) -> tuple[int, ...]:
    """A column order that puts the even columns of each eight before the odd ones.

    A lane holds two neighbouring 32-bit accumulators in two registers; in this order the same register of four lanes
    is four words in a row, so that moving between lanes and matrix is a few wide copies.
    """
    return tuple(group + (c % 2) * (_GROUP // 2) + c // 2 for group in range(0, columns, _GROUP) for c in range(_GROUP))


@dataclass(slots=True)
class MapTable:
    """The distinct maps of one program."""

    rows: list[MapRow] = field(default_factory=list)
    _keys: dict[tuple[int, bool, int, tuple[int, ...]], int] = field(default_factory=dict)
    _kept: list[FragmentMap] = field(default_factory=list)

    def add(self, fragment: FragmentMap, *, by_columns: bool, used: int = 0, order: Sequence[int] = ()) -> int:
        """Index of the map, adding it if it is new.

        Args:
            fragment: the lane map.
            by_columns: lines are the matrix's columns (B) instead of its rows.
            used: registers to take, from the first; 0: all.
            order: position of each column, empty for the natural order.
        """
        key = (id(fragment), by_columns, used, tuple(order))
        if key not in self._keys:
            self._keys[key] = len(self.rows)
            self._kept.append(fragment)  # keeps its id from being reused
            self.rows.append(_row(fragment, by_columns, used or fragment.registers, order))
        return self._keys[key]


def _row(fragment: FragmentMap, by_columns: bool, registers: int, order: Sequence[int]) -> MapRow:
    row, col = fragment.row.astype(np.int64), fragment.col.astype(np.int64)
    if order:
        col = np.asarray(order)[col]
    lines, width = fragment.shape if not by_columns else fragment.shape[::-1]
    line, position = (col, row) if by_columns else (row, col)
    index = (fragment.tile * lines + line) * width + position  # [lane, element]
    index = index[:, : registers * fragment.per_register].T  # [register × element, lane]
    data = np.ascontiguousarray(index.astype(np.int16)).reshape(-1).view(np.uint8)
    return (
        lines * fragment.tiles, width, registers, fragment.per_register, fragment.element_bits,
        fragment.register_bits // 8, data,
    )  # fmt: skip
