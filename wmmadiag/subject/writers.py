"""Which warp stored each element of an output: a case run once more, watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.binding import BoundArgument, BoundCase

WARPS = 32
"""Most warps of a block."""

Writers: TypeAlias = "NDArray[np.int64]"
"""One number per element: block * `WARPS` + warp of the last write, -1 for none."""


def last_writers(
    bound: BoundCase, kernel: EmulatedKernel, names: Sequence[str], *, warp_order: Sequence[int] = ()
) -> dict[str, Writers]:
    """Who wrote each element of the storage of some arguments last, by argument name.

    Args:
        bound: the case with fresh arrays, which this run fills.
        kernel: what ran; its options are kept but for the checks.
        warp_order: in which the warps of a block get their turns.

    Returns:
        Empty when the run fails (this time: out of budget).
    """
    options = replace(kernel.options, checks=("writers",), check_table=(), threads=1, observer=None)
    watched = EmulatedKernel(kernel.kernel, replace(options, warp_order=tuple(warp_order)))
    starts = {extent.name: extent.start for extent in watched.extents(bound.launch)}
    try:
        watched.launch(bound.launch)
    except WmmadiagError:
        return {}
    runs = np.array([one for raw in watched.raw_findings for one in raw["values"]], np.int64).reshape(-1, 3)
    return {
        one.spec.name: _writers(one, starts[one.spec.name], runs)
        for one in bound.arguments
        if one.spec.name in names and one.spec.name in starts and one.storage is not None
    }


def _writers(argument: BoundArgument, start: int, runs: NDArray[np.int64]) -> Writers:
    """Who wrote the first byte of each element of an argument's storage.

    Args:
        runs: (n, 3): first address, bytes, writer, as `native/checks/writers.cpp` gives them.
    """
    assert argument.storage is not None
    size, width = argument.storage.size, argument.storage.itemsize
    writers = np.full(size, -1, np.int64)
    inside = runs[(runs[:, 0] < start + size * width) & (runs[:, 0] + runs[:, 1] > start)]
    first = np.maximum(-(-(inside[:, 0] - start) // width), 0)
    last = np.minimum(-(-(inside[:, 0] + inside[:, 1] - start) // width), size)
    for begin, end, who in zip(first.tolist(), last.tolist(), inside[:, 2].tolist(), strict=True):
        writers[begin:end] = who
    return writers
