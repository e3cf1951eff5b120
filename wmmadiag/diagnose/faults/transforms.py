"""Rearrangements of a matrix: what its reader makes of it when it addresses it wrongly.

Each takes a (rows, columns) matrix and gives one of the same shape; NaN where the wrong address lies outside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Doubles, Value

Rearrange: TypeAlias = Callable[[Doubles], Doubles]


@dataclass(frozen=True, slots=True)
class Transform:
    """One rearrangement: `words` is a clause about "{what}"."""

    hypothesis: str
    model: str
    words: str
    apply: Rearrange
    parameters: dict[str, Value] = field(default_factory=dict)


def transforms(shape: tuple[int, ...], extents: frozenset[int]) -> Iterator[Transform]:
    """Every rearrangement that a matrix of this shape can have.

    Args:
        shape: (rows, columns).
        extents: M, N, K, S, D, …: what code could pass as a pitch by mistake.
    """
    rows, columns = shape
    if rows == columns and rows > 1:
        yield Transform("operand-layout", "transposed", "{what} is transposed", lambda m: m.T)
    for tile in (16, 8, 32, 64, 128, 256):
        if tile <= min(rows, columns) and not (tile == rows == columns):
            yield Transform(
                "operand-layout",
                "tiles-transposed",
                f"each {tile}x{tile} tile of {{what}} is transposed",
                partial(blocks_transposed, tile=tile),
                {"tile": tile},
            )
    for pitch in _pitches(rows, columns, extents):
        if pitch != columns:
            yield Transform(
                "leading-dimension",
                "pitch",
                f"{{what}} is addressed with a pitch of {pitch} instead of {columns}",
                partial(strided, row=pitch, column=1),
                {"pitch": pitch},
            )
            if rows >= 16 and columns > 16:
                yield Transform(
                    "leading-dimension",
                    "fragment-pitch",
                    f"16x16 tiles of {{what}} are addressed with a leading dimension of {pitch} instead of {columns}",
                    partial(fragments, row=pitch, column=1),
                    {"pitch": pitch},
                )
    for pitch in dict.fromkeys((rows, columns)):
        if not (pitch == rows == columns):
            yield Transform(
                "operand-layout",
                "read-by-columns",
                f"{{what}} is addressed by columns, with a leading dimension of {pitch}",
                partial(strided, row=1, column=pitch),
                {"pitch": pitch},
            )
    if rows >= 16 and columns >= 16:
        for pitch in _pitches(rows, columns, extents):
            if pitch != columns:
                yield Transform(
                    "operand-layout",
                    "fragment-by-columns",
                    f"16x16 tiles of {{what}} are addressed by columns, with a leading dimension of {pitch}",
                    partial(fragments, row=1, column=pitch),
                    {"pitch": pitch},
                )
    for tile in (16, 32, 64, 128):
        if tile < rows and tile != columns:
            yield Transform(
                "operand-layout",
                "staged-untransposed",
                f"each tile of {tile} rows of {{what}} is stored by rows, but read as if it were transposed",
                partial(staged, tile=tile),
                {"tile": tile},
            )
    for offset in (1, -1, 8, -8, 16, -16):
        if abs(offset) < rows:
            yield Transform(
                "index-arithmetic",
                "rows-shifted",
                f"{{what}} is read {offset:+d} rows off",
                partial(shifted, offset=offset, axis=0),
                {"rows": offset},
            )
        if abs(offset) < columns:
            yield Transform(
                "index-arithmetic",
                "columns-shifted",
                f"{{what}} is read {offset:+d} columns off",
                partial(shifted, offset=offset, axis=1),
                {"columns": offset},
            )
    for tile in (16, 32, 64, 128):
        for axis, extent, name in ((0, rows, "rows"), (1, columns, "columns")):
            if tile < extent:
                yield Transform(
                    "index-arithmetic",
                    f"first-{name}-repeated",
                    f"every tile of {{what}} is its first {tile} {name}",
                    partial(repeated, tile=tile, axis=axis),
                    {"tile": tile},
                )
                yield Transform(
                    "index-arithmetic",
                    f"{name}-of-next-tile",
                    f"{{what}} is read one tile of {tile} {name} further on",
                    partial(shifted, offset=tile, axis=axis),
                    {"tile": tile},
                )
                yield Transform(
                    "stale-tile",
                    f"{name}-of-previous-tile",
                    f"{{what}} is read one tile of {tile} {name} before",
                    partial(shifted, offset=-tile, axis=axis),
                    {"tile": tile},
                )
                yield Transform(
                    "index-arithmetic",
                    f"{name}-tiles-exchanged",
                    f"neighbouring tiles of {tile} {name} of {{what}} are exchanged",
                    partial(exchanged_tiles, tile=tile, axis=axis),
                    {"tile": tile},
                )
    for tile in (16, 32, 64, 128):
        for axis, extent, name in ((0, rows, "rows"), (1, columns, "columns")):
            if tile < extent:
                yield Transform(
                    "accumulator-init",
                    f"{name}-accumulated",
                    f"each tile of {tile} {name} of {{what}} is added to those before it",
                    partial(accumulated, tile=tile, axis=axis),
                    {"tile": tile},
                )
    yield from _swizzles(rows, columns)


def _swizzles(rows: int, columns: int) -> Iterator[Transform]:
    for group in (8, 4, 16):
        for mask in (7, 3, 1):
            for shift in (0, 1):
                if group * (mask + 1) > columns or rows < 2:
                    continue
                yield Transform(
                    "swizzle-mismatch",
                    "swizzled",
                    f"{{what}} has its groups of {group} columns exchanged by (row "
                    f"{f'>> {shift} ' if shift else ''}& {mask})",
                    partial(swizzled, group=group, mask=mask, shift=shift),
                    {"group": group, "mask": mask, "shift": shift},
                )


def _pitches(rows: int, columns: int, extents: frozenset[int]) -> list[int]:
    wanted = [
        rows,
        *sorted(extents),
        columns - 8,
        columns + 8,
        columns + 16,
        columns - 16,
        columns + 4,
        16,
        32,
        64,
        128,
        2 * columns,
        columns + 1,
        columns - 1,
    ]
    return [pitch for pitch in dict.fromkeys(wanted) if 0 < pitch <= 4 * max(rows, columns)]


def _take(matrix: Doubles, position: NDArray[np.signedinteger[Any]]) -> Doubles:
    flat = np.ascontiguousarray(matrix).reshape(-1)
    inside = (position >= 0) & (position < flat.size)
    return np.where(inside, flat[np.where(inside, position, 0)], np.nan)


def strided(matrix: Doubles, row: int, column: int) -> Doubles:
    """Element (i, j) read at i·row + j·column."""
    i, j = np.indices(matrix.shape)
    return _take(matrix, np.asarray(i * row + j * column))


def fragments(matrix: Doubles, row: int, column: int, side: int = 16) -> Doubles:
    """Tiles begin where they should, but inside each element (i, j) is read at i·row + j·column."""
    i, j = np.indices(matrix.shape)
    base = i // side * side * matrix.shape[1] + j // side * side
    return _take(matrix, base + i % side * row + j % side * column)


def staged(matrix: Doubles, tile: int) -> Doubles:
    """Row tiles stored (tile, columns) by rows, read as (columns, tile) by rows: element (i, j) at j·tile + i."""
    i, j = np.indices(matrix.shape)
    return _take(matrix, i // tile * tile * matrix.shape[1] + j * tile + i % tile)


def blocks_transposed(matrix: Doubles, tile: int) -> Doubles:
    """Each whole tile×tile block transposed; what does not fill one stays."""
    result = matrix.copy()
    rows, columns = (extent // tile * tile for extent in matrix.shape)
    inner = matrix[:rows, :columns].reshape(rows // tile, tile, columns // tile, tile)
    result[:rows, :columns] = inner.transpose(0, 3, 2, 1).reshape(rows, columns)
    return result


def permuted(matrix: Doubles, axis: int, index_of: Callable[[NDArray[np.intp]], NDArray[np.intp]]) -> Doubles:
    """Index i of an axis holds index_of(i); NaN where there is none."""
    extent = matrix.shape[axis]
    source = index_of(np.arange(extent))
    inside = (source >= 0) & (source < extent)
    taken = np.take(matrix, np.where(inside, source, 0), axis=axis)
    return np.where(inside[:, None] if axis == 0 else inside[None, :], taken, np.nan)


def shifted(matrix: Doubles, offset: int, axis: int) -> Doubles:
    """Index i holds index i + offset."""
    return permuted(matrix, axis, lambda i: i + offset)


def repeated(matrix: Doubles, tile: int, axis: int) -> Doubles:
    """Index i holds index i mod tile."""
    return permuted(matrix, axis, lambda i: i % tile)


def accumulated(matrix: Doubles, tile: int, axis: int) -> Doubles:
    """Each tile along an axis plus all tiles before it: an accumulator that is not cleared in between."""
    result = matrix.copy()
    whole = result if axis == 0 else result.T
    for start in range(tile, len(whole), tile):
        count = min(tile, len(whole) - start)
        whole[start : start + count] += whole[start - tile : start - tile + count]
    return result


def exchanged_tiles(matrix: Doubles, tile: int, axis: int) -> Doubles:
    """Tiles 2n and 2n + 1 exchanged."""
    return permuted(matrix, axis, lambda i: np.bitwise_xor(i, tile))


def swizzled(matrix: Doubles, group: int, mask: int, shift: int) -> Doubles:
    """Columns exchanged in groups: group g of row r holds group g xor ((r >> shift) & mask)."""
    i, j = np.indices(matrix.shape)
    source = ((j // group) ^ ((i >> shift) & mask)) * group + j % group
    inside = source < matrix.shape[1]
    return np.where(inside, np.take_along_axis(matrix, np.where(inside, source, 0), axis=1), np.nan)
