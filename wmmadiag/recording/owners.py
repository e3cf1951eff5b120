"""Which block and which warps wrote each tile of an output: the failing case once more, watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.observation import TILE
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.output_words import Words, Writers
from wmmadiag.errors import WmmadiagError
from wmmadiag.results.maps import OwnedPlane, TileOwner
from wmmadiag.subject.binding import BoundArgument, BoundCase

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
    options = replace(kernel.options, checks=("outputs",), check_table=(), threads=1, observer=None)
    watched = EmulatedKernel(kernel.kernel, options)
    try:
        watched.launch(bound.launch)
    except WmmadiagError:
        return {}
    grid, words = bound.launch.grid, watched.output_words
    return {
        one.spec.name: _planes(one, words[one.index], grid)
        for one in bound.arguments
        if one.spec.name in names and one.index in words
    }


def _planes(argument: BoundArgument, words: Words, grid: tuple[int, int, int]) -> tuple[OwnedPlane, ...]:
    planes = []
    for placement in argument.placements.values():
        logical = np.asarray(placement.view(words))
        matrices = logical if logical.ndim >= 2 else logical.reshape(1, -1)
        planes += [OwnedPlane(tuple(index), _tiles(matrices[index], grid)) for index in np.ndindex(matrices.shape[:-2])]
    return tuple(planes)


def _tiles(plane: Words, grid: tuple[int, int, int]) -> tuple[tuple[TileOwner | None, ...], ...]:
    rows, columns = plane.shape
    return tuple(
        tuple(_owner(plane[top : top + TILE, left : left + TILE], grid) for left in range(0, columns, TILE))
        for top in range(0, rows, TILE)
    )


def _owner(tile: Words, grid: tuple[int, int, int]) -> TileOwner | None:
    writers = Writers(tile[Writers(tile).written])
    if not writers.words.size:
        return None
    blocks, counts = np.unique(writers.blocks, return_counts=True)
    most = int(np.argmax(counts))  # the first of those that wrote the most
    main = int(blocks[most])
    warps: NDArray[np.uint64] = np.unique(writers.warps[writers.blocks == blocks[most]])
    x, y, _ = grid
    return TileOwner((main % x, main // x % y, main // (x * y)), tuple(map(int, warps)), len(blocks), int(counts.sum()))
