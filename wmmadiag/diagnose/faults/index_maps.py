"""Outputs whose rows, columns, tiles or elements inside tiles lie elsewhere: the map is read off the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles
from wmmadiag.diagnose.faults.problem import Lead, Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model
from wmmadiag.fragments import wmma_map

Indices: TypeAlias = NDArray[np.intp]
_LARGEST = 1 << 22  # pairs that are compared
_LOOSER = 3.0  # the bound that counts is that of the place where an element belongs


@fault_model("attention", "softmax", "qkt", "pv", "gemm", rank=45)
def rows_elsewhere(problem: Problem) -> Iterator[Candidate]:
    """Row r of the output holds row f(r)."""
    lead = _most_wrong(problem)
    seen, meant, allowed = problem.observed[lead], problem.expected[lead], problem.allowed[lead]
    found = matching(seen, meant, allowed)
    if found is not None and _changes(found):
        yield _candidate(found, "row", _rows_of)
    found = matching(seen.T, meant.T, allowed.T)
    if found is not None and _changes(found):
        yield _candidate(found, "column", _columns_of)


def matching(seen: Doubles, meant: Doubles, allowed: Doubles) -> Indices | None:
    """For every row of `seen` the row of `meant` that it equals within the bound, its own first; -1 where none does.

    None where the shapes are too large to compare all pairs. A row equal to several is no evidence and gets -1.
    """
    count = seen.shape[0]
    columns = np.unique(np.linspace(0, seen.shape[1] - 1, 24).astype(np.intp))
    if count * count * columns.size > _LARGEST or count < 2:
        return None
    # Bounds differ from row to row; the largest of a column serves all.
    reach = allowed[:, columns].max(axis=0)
    near = (np.abs(seen[:, None, columns] - meant[None, :, columns]) <= reach).all(axis=2)
    own = np.arange(count)
    result = np.where(near.sum(axis=1) == 1, near.argmax(axis=1), -1)
    return np.where(near[own, own], own, result)


def _changes(found: Indices) -> bool:
    moved = (found >= 0) & (found != np.arange(found.size))
    return bool(moved.sum() >= 2)


def _candidate(found: Indices, what: str, predict: Callable[[Indices, Rows], Doubles]) -> Candidate:
    form, full = closed_form(found)
    words = f"{what} {'r' if what == 'row' else 'c'} of the result holds {what} {form}"
    # The same map inside every 16 rows is one of fragment elements rather than of rows of the matrix.
    inside = np.arange(full.size) // 16 == full // 16
    alike = full[16:] - full[:-16] == 16
    hypothesis = "fragment-map" if full.size > 16 and inside.all() and alike.all() else "index-arithmetic"
    return Candidate(hypothesis, f"{what}s-elsewhere", words, partial(predict, full), {"map": form}, looser=_LOOSER)


def _rows_of(source: Indices, rows: Rows) -> Doubles:
    whole = rows.problem.expected[rows.lead]
    if source.size != whole.shape[0]:
        raise ValueError("made for another shape")
    wanted = source[rows.index]
    return np.where((wanted >= 0)[:, None], whole[np.maximum(wanted, 0)], np.inf)


def _columns_of(source: Indices, rows: Rows) -> Doubles:
    whole = rows.expected
    if source.size != whole.shape[1]:
        raise ValueError("made for another shape")
    return np.where((source >= 0)[None, :], whole[:, np.maximum(source, 0)], np.inf)


def closed_form(found: Indices) -> tuple[str, Indices]:
    """A map in words, and completed where the words say more than was seen (-1).

    Affine maps (modulo the extent), exchanges by xor, and by tiles; else the first pairs that differ.
    """
    count = found.size
    own = np.arange(count)
    known = found >= 0
    for name, whole in _forms(own, found[known], own[known]):
        inside = (whole >= 0) & (whole < count)
        if (whole[known] == found[known]).all():
            return name, np.where(inside, whole, -1)
    moved = np.flatnonzero(known & (found != own))
    return ", ".join(f"{r}→{found[r]}" for r in moved[:6]) + (", …" if moved.size > 6 else ""), found


def _forms(own: Indices, values: Indices, at: Indices) -> Iterator[tuple[str, Indices]]:
    count = own.size
    offset = int(values[0] - at[0])
    yield f"r{offset:+d}", own + offset
    yield f"(r{offset:+d}) mod {count}", (own + offset) % count
    bits = int(values[0] ^ at[0])
    yield f"r xor {bits}", own ^ bits
    yield f"{count - 1} - r", count - 1 - own
    for tile in (8, 16, 32, 64, 128):
        yield f"r mod {tile}", own % tile
        yield f"r div {tile}", own // tile
        yield f"r - r mod {tile}", own // tile * tile
        yield (
            f"r - r mod {tile} + {tile // 2}·(r mod 2) + (r mod {tile}) div 2",
            (own // tile * tile + own % 2 * (tile // 2) + own % tile // 2),
        )
        yield (
            f"r - r mod {tile} + 2·(r mod {tile // 2}) + (r mod {tile}) div {tile // 2}",
            (own // tile * tile + own % (tile // 2) * 2 + own % tile // (tile // 2)),
        )
        yield f"the mirrored one of its tile of {tile}", own // tile * tile + tile - 1 - own % tile
        if count % tile == 0 and count > tile:
            turned = own.reshape(-1, tile).T.reshape(-1)
            yield f"(r mod {count // tile})·{tile} + r div {count // tile}", turned
    yield "r - r mod 2", own // 2 * 2
    for factor in (2, 3, 4, 5, 7, 8):
        yield f"{factor}r", own * factor
        yield f"{factor}r mod {count}", own * factor % count
        yield f"r div {factor}", own // factor


@fault_model("attention", "softmax", "qkt", "pv", "gemm", rank=46)
def tiles_elsewhere(problem: Problem) -> Iterator[Candidate]:
    """Whole tiles of the output lie elsewhere."""
    lead = _most_wrong(problem)
    for side in (16, 32, 64):
        seen, shape = _as_tiles(problem.observed[lead], side, side)
        if seen.shape[0] < 2:
            return
        meant, _ = _as_tiles(problem.expected[lead], side, side)
        allowed, _ = _as_tiles(problem.allowed[lead], side, side)
        found = matching(seen, meant, allowed)
        if found is None or not _changes(found):
            continue
        moved = np.flatnonzero((found >= 0) & (found != np.arange(found.size)))
        pairs = ", ".join(
            f"{divmod(int(t), shape[1])}→{divmod(int(found[t]), shape[1])}" for t in moved[:4]
        )  # (row, column) of tiles
        words = f"{side}x{side} tiles of the result hold other tiles ({pairs}{', …' if moved.size > 4 else ''})"
        predict = partial(_tiles_of, found, side)
        yield Candidate("index-arithmetic", "tiles-elsewhere", words, predict, {"tile": side}, looser=_LOOSER)


def _as_tiles(matrix: Doubles, height: int, width: int) -> tuple[Doubles, tuple[int, int]]:
    """(tiles, height·width) of the whole tiles, row by row, and how many there are down and across."""
    down, across = matrix.shape[0] // height, matrix.shape[1] // width
    whole = matrix[: down * height, : across * width].reshape(down, height, across, width)
    return whole.transpose(0, 2, 1, 3).reshape(down * across, height * width), (down, across)


def _from_tiles(tiles: Doubles, matrix: Doubles, height: int, width: int) -> Doubles:
    down, across = matrix.shape[0] // height, matrix.shape[1] // width
    result = matrix.copy()
    whole = tiles.reshape(down, across, height, width).transpose(0, 2, 1, 3)
    result[: down * height, : across * width] = whole.reshape(down * height, across * width)
    return result


def _tiles_of(source: Indices, side: int, rows: Rows) -> Doubles:
    matrix = rows.problem.expected[rows.lead]
    tiles, _ = _as_tiles(matrix, side, side)
    if source.size != tiles.shape[0]:
        raise ValueError("made for another shape")
    moved = np.where((source >= 0)[:, None], tiles[np.maximum(source, 0)], np.inf)
    return _from_tiles(moved, matrix, side, side)[rows.index]


@fault_model("attention", "softmax", "qkt", "pv", "gemm", rank=47)
def elements_elsewhere(problem: Problem) -> Iterator[Candidate]:
    """The same map inside every 16x16 tile of the output: a guess about which element `frag.x[i]` is."""
    lead = _most_wrong(problem)
    seen, _ = _as_tiles(problem.observed[lead], 16, 16)
    if seen.shape[0] < 3:
        return  # one tile's values are too few to recognise a position by
    meant, _ = _as_tiles(problem.expected[lead], 16, 16)
    allowed, _ = _as_tiles(problem.allowed[lead], 16, 16)
    found = matching(seen.T, meant.T, allowed.T)
    if found is None or np.count_nonzero(found == np.arange(256)) == 256 or (found >= 0).sum() < 128:
        return
    for name, guess in fragment_guesses().items():
        known = found >= 0
        if (guess[known] == found[known]).all():
            yield Candidate(
                "fragment-map",
                "fragment-map-guessed",
                f"fragment elements are taken to lie at {name}, which they do not",
                partial(_elements_of, guess),
                {"guess": name},
                looser=_LOOSER,
            )
            return
    yield Candidate(
        "fragment-map",
        "tile-elements-elsewhere",
        "the elements of every 16x16 tile of the result are rearranged in the same way",
        partial(_elements_of, found),
        looser=_LOOSER,
    )


def _elements_of(source: Indices, rows: Rows) -> Doubles:
    matrix = rows.problem.expected[rows.lead]
    tiles, _ = _as_tiles(matrix, 16, 16)
    moved = np.where((source >= 0)[None, :], tiles[:, np.maximum(source, 0)], np.inf)
    return _from_tiles(moved, matrix, 16, 16)[rows.index]


@cache
def fragment_guesses() -> dict[str, Indices]:
    """Wrong maps of an m16n16k16 accumulator: position (row·16 + column) → which element is found there.

    A kernel that takes element i of lane l to be at guess(l, i) stores there what really is element real(l, i); one
    that fills its fragment so does the reverse.
    """
    real = wmma_map("m16n16k16", "c", "f32", "sm_80")
    lane, i = np.indices((32, 8))
    linear = lane * 8 + i
    across = i * 32 + lane
    guesses = {
        "row = (8·lane + i) / 16, column = (8·lane + i) % 16": (linear // 16, linear % 16),
        "row = (8·lane + i) % 16, column = (8·lane + i) / 16": (linear % 16, linear // 16),
        "row = (32·i + lane) / 16, column = (32·i + lane) % 16": (across // 16, across % 16),
        "row = (32·i + lane) % 16, column = (32·i + lane) / 16": (across % 16, across // 16),
        "row = lane % 16, column = 8·(lane / 16) + i": (lane % 16, lane // 16 * 8 + i),
        "row = 8·(lane / 16) + i, column = lane % 16": (lane // 16 * 8 + i, lane % 16),
        "row = lane / 4 + 8·(i / 4), column = 4·(lane % 4) + i % 4": (lane // 4 + i // 4 * 8, lane % 4 * 4 + i % 4),
        "row = lane / 4 + 8·(i % 2), column = 4·(lane % 4) + i / 2": (lane // 4 + i % 2 * 8, lane % 4 * 4 + i // 2),
        "row = lane / 4 + 8·(i / 4), column = 2·(lane % 4) + i % 2 + 8·(i / 2 % 2)": (
            lane // 4 + i // 4 * 8,
            lane % 4 * 2 + i % 2 + i // 2 % 2 * 8,
        ),
    }
    own = (real.row.astype(np.intp) * 16 + real.col).ravel()
    result = {}
    for name, (row, column) in guesses.items():
        there = (row * 16 + column).ravel()
        if np.unique(there).size == 256 and (there != own).any():
            for said, position, element in ((name, there, own), (f"{name} when they are filled", own, there)):
                result[said] = np.empty(256, np.intp)
                result[said][position] = element
    return result


def _most_wrong(problem: Problem) -> Lead:
    counts = problem.wrong.sum(axis=(2, 3))
    return max(problem.leads, key=lambda one: int(counts[one]))
