"""Sets of elements as people write them: "rows 16 to 31 of sS[64][72]"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.extents import ExtentPart

_MOST_ELEMENTS = 1 << 22
_MOST_LISTED = 4


def runs(values: Iterable[int]) -> list[list[int]]:
    """(first, last) of each stretch of consecutive numbers, of ascending ones."""
    found: list[list[int]] = []
    for value in values:
        if found and value == found[-1][1] + 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return found


def numbers(found: Iterable[int]) -> str:
    """Ascending numbers: "7", "16 to 31", "0 to 3 and 8 to 11", "0, 2, … 30"; bounds alone where there are many."""
    values = [int(value) for value in found]
    if not values:
        return "none"
    steps = {b - a for a, b in pairwise(values)}
    if len(values) > 3 and len(steps) == 1 and steps != {1}:
        return f"{values[0]}, {values[1]}, … {values[-1]}"
    words = [str(a) if a == b else f"{a} to {b}" for a, b in runs(values)]
    if len(words) > _MOST_LISTED:
        return f"{', '.join(words[:2])}, … {words[-1]}"
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def mask_of(part: ExtentPart, stretches: Sequence[tuple[int, int]]) -> NDArray[np.bool_] | None:
    """Which elements of an array without gaps the byte ranges [begin, end) touch, offsets from its start.

    Returns: bool of the array's shape; None for arrays that are too large, or whose element size is not known.
    """
    count = math.prod(part.shape)
    if part.item == 0 or not 0 < count <= _MOST_ELEMENTS:
        return None
    flat = np.zeros(count, np.bool_)
    for begin, end in stretches:
        flat[max(begin, 0) // part.item : max(-(-end // part.item), 0)] = True
    return flat.reshape(part.shape or (1,))


def elements(part: ExtentPart, mask: NDArray[np.bool_], comma: bool = False) -> str:
    """The chosen elements in words: whole rows, columns or boxes of them by index; else how many, and between which."""
    name = part.indexed(part.shape, comma)
    count = int(np.count_nonzero(mask))
    if count == 0:
        return f"none of {name}"
    if count == mask.size:
        return f"all of {name}" if count > 1 else part.name
    chosen = [
        np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        for axis in range(mask.ndim)
    ]
    if math.prod(len(one) for one in chosen) != count:
        first, last = (part.indexed(map(int, one), comma) for one in np.argwhere(mask)[[0, -1]])
        return f"{count:,} of {mask.size:,} elements of {name}, between {first} and {last}"
    if mask.ndim > 2:
        index = ["*" if len(one) == mask.shape[axis] > 1 else numbers(one) for axis, one in enumerate(chosen)]
        return f"{part.indexed(index, comma)} of {name}"
    words = [
        f"{_axis(axis, mask.ndim, len(one))} {numbers(one)}"
        for axis, one in enumerate(chosen)
        if len(one) < mask.shape[axis]
    ]
    return f"{', '.join(words)} of {name}"


def _axis(axis: int, rank: int, count: int) -> str:
    plural = "s" if count > 1 else ""
    if rank == 1:
        return f"element{plural}"
    if axis == rank - 1:
        return f"column{plural}"
    return f"row{plural}"
