"""Expressions at every value of a symbol at once: the same as one by one, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.ops.whole_numbers import each_whole

COUNT = 9
SYMBOLS = {"n": 7, "m": -3, "h": 0.5}

LEAVES = st.sampled_from(["i", "n", "m", "0", "1", "2", "13", "4611686018427387903"])
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda op, a, b: f"({a} {op} {b})",
            st.sampled_from(["+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!="]),
            inner,
            inner,
        ),
        st.builds(lambda a: f"(-{a})", inner),
        st.builds(lambda a, b, c: f"({a} if {b} else {c})", inner, inner, inner),
        st.builds(lambda name, a, b: f"{name}({a}, {b})", st.sampled_from(["min", "max"]), inner, inner),
    ),
    max_leaves=8,
)


def lookup(at: int):
    return {**SYMBOLS, "i": at}.__getitem__


@settings(max_examples=300, deadline=None)
@given(TERMS, st.sampled_from(["", " / 3", " / n", " / (i + 1)"]))
def test_the_same_as_one_by_one(term: str, below: str) -> None:
    found = each_whole(term + below, "i", COUNT, SYMBOLS.__getitem__)
    if found is not None:
        expected = [
            float(evaluate(term + below, lookup(at))) if below else evaluate(term, lookup(at)) for at in range(COUNT)
        ]
        assert found.tolist() == expected


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("(i * 37 % 101 - 50) / 64", [-50 / 64, -13 / 64]),
        ("(1 << i) | 1", [1, 3]),
        ("n - 13 * i", [7, -6]),
        ("5", [5, 5]),
    ],
)
def test_what_is_of_integers_is_done_at_once(text: str, first: list[float]) -> None:
    found = each_whole(text, "i", COUNT, SYMBOLS.__getitem__)
    assert found is not None and found.shape == (COUNT,) and found[:2].tolist() == first


@pytest.mark.parametrize(
    "text",
    [
        "i * h",
        "i // (i - 2)",
        "1 << (i - 1)",
        "i ** 2",
        "sqrt(i)",
        "nobody + i",
        "i * 4611686018427387903",
        "i / 2 + 1",
    ],
)
def test_what_is_not_is_left(text: str) -> None:
    assert each_whole(text, "i", COUNT, SYMBOLS.__getitem__) is None


def test_nonsense_is_refused() -> None:
    with pytest.raises(ExpressionError):
        each_whole("i +", "i", COUNT, SYMBOLS.__getitem__)


def test_no_element_has_no_value() -> None:
    found = each_whole("i % 3", "i", 0, SYMBOLS.__getitem__)
    assert found is not None and found.dtype == np.int64 and found.size == 0
