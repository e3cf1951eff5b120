"""Which block and which warps wrote each tile of an output: the failing case once more, watched."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmmadiag.compare.observation import TILE
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.results.maps import OwnedPlane, TileOwner
from wmmadiag.subject.binding import BoundArgument, BoundCase
from wmmadiag.subject.writers import WARPS, Writers, last_writers

MAX_INSTRUCTIONS = 200_000_000
"""Warp instructions of a run that is repeated for this: about ten seconds."""


def owners(bound: BoundCase, kernel: EmulatedKernel, names: Sequence[str]) -> dict[str, tuple[OwnedPlane, ...]]:
    """Owners of the tiles of the named output arguments, by name.

    Args:
        bound: the case with fresh arrays, which this run fills.
        kernel: what ran; its options are kept but for the checks.
        names: of the arguments.

    Returns:
        Empty when the run fails this time (out of budget).
    """
    writers = last_writers(bound, kernel, names)
    return {
        one.spec.name: _planes(one, writers[one.spec.name], bound.launch.grid)
        for one in bound.arguments
        if one.spec.name in writers
    }


def _planes(argument: BoundArgument, writers: Writers, grid: tuple[int, int, int]) -> tuple[OwnedPlane, ...]:
    planes = []
    for placement in argument.placements.values():
        logical = np.asarray(placement.view(writers))
        matrices = logical if logical.ndim >= 2 else logical.reshape(1, -1)
        planes += [OwnedPlane(tuple(index), _tiles(matrices[index], grid)) for index in np.ndindex(matrices.shape[:-2])]
    return tuple(planes)


def _tiles(plane: Writers, grid: tuple[int, int, int]) -> tuple[tuple[TileOwner | None, ...], ...]:
    rows, columns = plane.shape
    return tuple(
        tuple(_owner(plane[top : top + TILE, left : left + TILE], grid) for left in range(0, columns, TILE))
        for top in range(0, rows, TILE)
    )


def _owner(tile: Writers, grid: tuple[int, int, int]) -> TileOwner | None:
    who, counts = np.unique(tile[tile >= 0], return_counts=True)
    if not len(who):
        return None
    blocks = who // WARPS
    totals: dict[int, int] = {}
    for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
        totals[block] = totals.get(block, 0) + count
    main = max(totals, key=lambda one: (totals[one], -one))
    warps = tuple(int(one) for one in who[blocks == main] % WARPS)
    x, y, _ = grid
    return TileOwner((main % x, main // x % y, main // (x * y)), warps, len(totals), int(counts.sum()))
