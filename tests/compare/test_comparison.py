from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.compare.comparison import compare, compare_outputs
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.evaluation import tolerance
from wmmadiag.ops.parts.rounding import Judgement
from wmmadiag.subject.card import Tolerance

F32, F16, S8 = TYPES["f32"], TYPES["f16"], TYPES["s8"]


def look(observed, expected, bound=0.5, element=F32, **options):
    observed = np.asarray(observed, np.float32 if element is F32 else np.float16 if element is F16 else np.int8)
    expected = np.asarray(expected, np.float64)
    judgement = Judgement(np.broadcast_to(np.asarray(bound, np.float64), expected.shape), options.pop("free", None))
    return compare(observed, expected, judgement, output="o", element=element, **options)


def test_counts_and_elements():
    observed = np.zeros((2, 3, 40, 20))
    observed[1, 2, 33, 17] = 2.0
    observed[1, 2, 3, 1] = -9.0
    observed[0, 0, 0, 0] = 0.4
    seen = look(observed, np.zeros_like(observed), axes="BHSD")
    assert (seen.elements, seen.wrong, seen.matrices) == (4800, 2, 6)
    assert seen.first.index == (1, 2, 3, 1)
    assert (seen.worst.index, seen.worst.observed, seen.worst.bound) == ((1, 2, 3, 1), -9.0, 0.5)
    assert seen.max_difference == 9.0
    assert seen.mean_difference == pytest.approx(11.4 / 4800)
    assert seen.max_in_bounds == 18.0
    assert seen.typical_in_bounds == 0.0
    (tile,) = seen.tiles
    assert (tile.index, tile.rows, tile.columns) == ((1, 2), 40, 20)
    assert tile.counts == ((1, 0), (0, 0), (0, 1))
    axis = {a.name: a for a in seen.axes}["S"]
    assert (axis.extent, axis.wrong, axis.ranges, axis.per_index) == (40, 2, ((3, 4), (33, 34)), 1)


@pytest.mark.parametrize(("observed", "expected", "right"), [
    (np.nan, np.nan, True), (np.nan, 0.0, False), (0.0, np.nan, False), (np.inf, np.inf, True),
    (np.inf, -np.inf, False),
    (np.inf, 1.0, False), (1.0, np.inf, False), (-np.inf, -np.inf, True), (np.nan, np.inf, False),
    (np.inf, np.nan, False),
    (0.5, 0.0, True), (0.50001, 0.0, False), (-0.0, 0.0, True),
])  # fmt: skip
def test_special_values(observed, expected, right):
    seen = look([[observed]], [[expected]])
    assert seen.passed is right
    if not right:
        kinds = (seen.nan, seen.inf)
        finite = np.isfinite(observed) and np.isfinite(expected)
        want = (0, 0) if finite else (1, 0) if np.isnan(observed) != np.isnan(expected) else (0, 1)
        assert kinds == want
        assert seen.worst is not None


def test_signed_zero_is_counted_and_not_wrong():
    seen = look([[-0.0, 0.0, -1e-9]], [[0.0, 0.0, 0.0]])
    assert (seen.wrong, seen.signed_zero) == (0, 1)


def test_overflow_that_rounding_explains():
    assert look([[np.inf]], [[65519.0]], bound=10.0, element=F16).passed
    assert not look([[-np.inf]], [[65519.0]], bound=10.0, element=F16).passed
    assert not look([[np.inf]], [[60000.0]], bound=10.0, element=F16).passed


def test_unwritten_elements_are_wrong_even_where_anything_goes():
    poison = np.array([[True, False]])
    free = np.array([[True, True]])
    seen = look([[np.nan, np.nan]], [[0.0, 0.0]], unwritten=poison, free=free)
    assert (seen.wrong, seen.unwritten, seen.nan) == (1, 1, 0)
    assert look([[np.nan]], [[np.nan]], unwritten=np.array([[True]])).unwritten == 1


def test_integers_are_exact():
    seen = look([[3, -4]], [[3.0, -5.0]], bound=0.0, element=S8)
    assert (seen.wrong, seen.max_in_bounds, seen.max_difference) == (1, None, 1.0)


def test_worst_prefers_finite_elements():
    seen = look([[np.nan, 7.0]], [[0.0, 0.0]])
    assert seen.first.index == (0, 0)
    assert seen.worst.index == (0, 1)


def test_ranks_and_shapes():
    assert look([1.0, 0.0], [0.0, 0.0]).tiles[0].counts == ((1,),)
    assert look([[[[[1.0]]]]], [[[[[0.0]]]]]).tiles[0].index == (0, 0, 0)
    with pytest.raises(ValueError, match="shapes differ"):
        look([1.0], [0.0, 0.0])


def test_tolerance():
    expected = np.array([100.0, 0.0, np.nan, np.inf])
    np.testing.assert_allclose(tolerance(expected, Tolerance(0.5, 0.01)).bound, [1.5, 0.5, 0.5, 0.5])


def test_two_outputs_may_each_be_off_by_their_bound():
    one, other = np.float32([[1.0, 2.0]]), np.float32([[1.9, 2.0]])
    bound = Judgement(np.full((1, 2), 0.5))
    assert compare_outputs(one, other, bound, bound, output="o", element=F32, against="b").passed
    tight = Judgement(np.full((1, 2), 0.3))
    seen = compare_outputs(one, other, bound, tight, output="o", element=F32, against="b")
    assert (seen.wrong, seen.against) == (1, "b")
    free = Judgement(np.full((1, 2), 0.5), np.array([[True, False]]))
    one, other = np.float32([[np.nan, 2]]), np.float32([[0, 2]])
    assert compare_outputs(one, other, free, free, output="o", element=F32, against="b").passed
