"""Tile maps as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wmmadiag.compare.observation import TILE, TileMap

LEGEND = f"{TILE}x{TILE} tiles: . right   1-8 tenths of it wrong   # nine tenths or more"
MAX_CELLS_ACROSS = 32
MAX_CELLS_DOWN = 32
MAX_MAPS = 3


def tile_map_lines(maps: Sequence[TileMap], matrices: int, axes: str) -> list[str]:
    """Maps of the matrices with wrong elements, those with the same wrong tiles drawn once.

    Args:
        maps: of the wrong matrices, in index order.
        matrices: how many there are, right ones included.
        axes: a letter for each leading axis ("BH"), or fewer.
    """
    groups: dict[tuple[tuple[bool, ...], ...], list[TileMap]] = {}
    for entry in maps:
        wrong_tiles = tuple(tuple(count > 0 for count in row) for row in entry.counts)
        groups.setdefault(wrong_tiles, []).append(entry)
    lines = []
    for members in list(groups.values())[:MAX_MAPS]:
        title = _title([member.index for member in members], axes)
        if title:
            lines.append(title)
        lines += ["  " + line for line in _summary(members) or _drawing(members[0])]
    if len(groups) > MAX_MAPS:
        hidden = sum(len(members) for members in list(groups.values())[MAX_MAPS:])
        lines.append(f"{hidden} more matrices with other maps")
    if matrices > len(maps) > 0:
        lines.append(f"the other {matrices - len(maps)} of {matrices} matrices are right")
    return lines


def _title(indices: Iterable[tuple[int, ...]], axes: str) -> str:
    names = [
        " ".join(f"{axes[i].lower() if i < len(axes) else ''}{value}" for i, value in enumerate(index))
        for index in indices
    ]
    if not names[0]:
        return ""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more with the same wrong tiles"


def _summary(members: Sequence[TileMap]) -> list[str]:
    """One line in place of a large map in which every tile is wrong."""
    first = members[0]
    tiles = len(first.counts) * len(first.counts[0])
    if tiles <= 64 or not all(count for row in first.counts for count in row):
        return []
    wrong = sum(count for member in members for row in member.counts for count in row)
    share = 100.0 * wrong / (first.rows * first.columns * len(members))
    return [f"all {tiles} tiles hold wrong elements, {share:.3g} % of the elements"]


def _drawing(entry: TileMap) -> Iterator[str]:
    down, across = len(entry.counts), len(entry.counts[0])
    step_down, step_across = -(-down // MAX_CELLS_DOWN), -(-across // MAX_CELLS_ACROSS)
    width = len(str(entry.rows))
    if step_down > 1 or step_across > 1:
        yield f"(each cell stands for {step_down}x{step_across} tiles)"
    header = " " * (width + 2) + _column_numbers(across, step_across)
    yield header.rstrip()
    for top in range(0, down, step_down):
        cells = []
        for left in range(0, across, step_across):
            wrong = total = 0
            for row in range(top, min(top + step_down, down)):
                for column in range(left, min(left + step_across, across)):
                    wrong += entry.counts[row][column]
                    total += _extent(entry.rows, row) * _extent(entry.columns, column)
            cells.append(_cell(wrong, total))
        yield f"{top * TILE:>{width}}  " + " ".join(cells)


def _column_numbers(across: int, step: int) -> str:
    """The first column of every eighth cell."""
    cells = -(-across // step)
    text = ""
    for cell in range(0, cells, 8):
        text = text.ljust(2 * cell) + str(cell * step * TILE)
    return text


def _extent(size: int, tile: int) -> int:
    return min(TILE, size - tile * TILE)


def _cell(wrong: int, total: int) -> str:
    if wrong == 0:
        return "."
    return "#" if 10 * wrong >= 9 * total else str(min(8, max(1, round(10 * wrong / total))))
