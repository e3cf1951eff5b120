"""Sets of elements in words."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.checks.ranges import elements, mask_of, numbers
from wmmadiag.emulator.extents import ExtentPart


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([7], "7"),
        ([3, 4], "3 to 4"),
        (range(16, 32), "16 to 31"),
        ([0, 1, 4, 5], "0 to 1 and 4 to 5"),
        ([0, 2, 4, 6, 8], "0, 2, … 8"),
        ([1, 5, 6, 9, 20, 22, 31], "1, 5 to 6, … 31"),
    ],
)
def test_numbers(found: list[int], expected: str) -> None:
    assert numbers(found) == expected


def _part(*shape: int) -> ExtentPart:
    return ExtentPart("s", 0, 2, shape, tuple(2 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))))


@pytest.mark.parametrize(
    ("shape", "chosen", "expected"),
    [
        ((64, 72), np.s_[16:32], "rows 16 to 31 of s[64][72]"),
        ((64, 72), np.s_[:, 64:], "columns 64 to 71 of s[64][72]"),
        ((64, 72), np.s_[3, 64:66], "row 3, columns 64 to 65 of s[64][72]"),
        ((64, 72), np.s_[:], "all of s[64][72]"),
        ((64,), np.s_[::2], "elements 0, 2, … 62 of s[64]"),
        ((64,), np.s_[5], "element 5 of s[64]"),
        ((2, 64, 72), np.s_[1, 16:32], "s[1][16 to 31][*] of s[2][64][72]"),
        ((1, 8, 64), np.s_[:, 3], "s[0][3][*] of s[1][8][64]"),
    ],
)
def test_elements(shape: tuple[int, ...], chosen: object, expected: str) -> None:
    mask = np.zeros(shape, np.bool_)
    mask[chosen] = True  # type: ignore[index]
    assert elements(_part(*shape), mask) == expected


def test_what_is_no_box() -> None:
    mask = np.eye(4, dtype=np.bool_)
    assert elements(_part(4, 4), mask, comma=True) == "4 of 16 elements of s[4,4], between s[0,0] and s[3,3]"


def test_masks_of_bytes() -> None:
    part = _part(4, 8)
    mask = mask_of(part, [(16, 32), (63, 64)])
    assert mask is not None
    assert np.flatnonzero(mask).tolist() == [*range(8, 16), 31]
    assert mask_of(ExtentPart("x", 0, 0, (), ()), [(0, 4)]) is None
    assert (
        part.indexed(part.shape, False),
        part.indexed(part.shape, True),
        ExtentPart("x", 0, 4, (), ()).indexed((), True),
    ) == (
        "s[4][8]",
        "s[4,8]",
        "x",
    )
