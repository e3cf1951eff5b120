"""Which differences between two orders are taken for the rounding of sums."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.checks.reversals import _changed, _told

DOUBLE, FLOAT = np.dtype(np.float64), np.dtype(np.float32)


def words(*numbers: object) -> np.ndarray:
    return np.concatenate([np.atleast_1d(np.asarray(one)).view(np.uint8) for one in numbers])


@pytest.mark.parametrize(
    ("one", "other", "numbers", "changed"),
    [
        (words(0.1 + 0.2, np.int64(5)), words(0.3, np.int64(5)), (DOUBLE,), 0),
        (words(0.1 + 0.2), words(0.3), (), 1),  # a kernel that computes in no such type
        (words(np.float32(1)), words(np.float32(1.0001)), (FLOAT,), 0),
        (words(1.0), words(1.001), (DOUBLE,), 6),
        (words(np.int64(1000), np.int32([4, 5])), words(np.int64(1001), np.int32([4, 6])), (FLOAT, DOUBLE), 2),
        (words(np.uint8([1, 2, 3])), words(np.uint8([1, 2, 4])), (FLOAT, DOUBLE), 1),
    ],
)
def test_memory_without_a_type(one: np.ndarray, other: np.ndarray, numbers: tuple[np.dtype, ...], changed: int) -> None:
    assert len(_changed(one, other, False, numbers)) == changed
    assert len(_changed(one, other, True, numbers)) == np.count_nonzero(one != other)


def test_what_changes_is_told_in_elements_and_of_memory_without_a_type_in_bytes():
    one, other = np.zeros((2, 3), np.float32), np.float32([[0, 0, 0], [0, 5, 6]])
    changed = np.flatnonzero(one.reshape(-1) != other.reshape(-1))
    assert _told(one, other, changed, "C") == "2 of 6 elements of C change, C[1,1] is 5.0 instead of 0.0"
    told = _told(np.uint8([1, 2, 3]), np.uint8([1, 2, 4]), np.array([2]), "dO")
    assert told == "1 of 3 bytes of dO change, byte 2 is 4 instead of 3"
