"""The place of the largest element, against its definition."""

from __future__ import annotations

import numpy as np

import wmmadiag


def test_it_is_the_place_of_the_largest_or_the_smallest():
    x = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32)
    largest, smallest = (wmmadiag.reference("argmax", x=x, which=one) for one in ("largest", "smallest"))
    assert [int(one) for one in largest.value] == [max(range(30), key=row.__getitem__) for row in x]
    assert [int(one) for one in smallest.value] == [min(range(30), key=row.__getitem__) for row in x]
    assert not largest.bound.any()


def test_of_several_alike_any_is_right_and_of_the_others_none():
    x = np.array([[1, 3, 3, 0], [5, 3, 3, 0]], np.float32)
    found = wmmadiag.reference("argmax", x=x)
    assert found.value.tolist() == [1, 0]
    assert found.bound[0] >= 1
    assert found.bound[1] == 0
