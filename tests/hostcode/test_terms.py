"""Numbers of host code as terms: what C++ computes, what a card says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import combined, number, symbol
from wmmadiag.ops.expressions import evaluate

N, B = symbol("n"), symbol("b")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (combined("/", combined("+", N, number(63)), number(64)), "ceil_div(n, 64)"),
        (combined("/", combined("-", combined("+", N, B), number(1)), B), "ceil_div(n, b)"),
        (combined("/", combined("+", N, combined("-", B, number(1))), B), "ceil_div(n, b)"),
        (combined("/", combined("+", N, number(62)), number(64)), "(n + 62) // 64"),
        (combined("/", combined("-", N, number(1)), number(64)), "(n - 1) // 64"),
        (combined("/", combined("*", combined("*", N, B), number(4)), number(4)), "n * b"),
        (combined("/", combined("*", N, B), B), "n"),
        (combined("/", number(1.0), combined("sqrt", combined("float", N))), "1 / sqrt(n)"),
        (combined("/", combined("float", N), number(2)), "n / 2"),
        (combined("if", combined("<", N, B), N, B), "n if n < b else b"),
        (combined("+", combined("*", N, number(0)), number(3)), "3"),
    ],
)
def test_idioms_of_host_code_have_one_form(term, text):
    assert terms.text(term) == text


def test_a_quotient_that_is_rounded_up_by_a_test_is_a_ceil_div():
    rest = combined("%", N, number(128))
    quotient = combined("/", N, number(128))
    up = combined("if", combined("!=", rest, number(0)), combined("+", quotient, number(1)), quotient)
    assert terms.text(up) == "ceil_div(n, 128)"
    down = combined("if", combined("==", rest, number(0)), combined("+", quotient, number(1)), quotient)
    assert "ceil_div" not in terms.text(down)


def test_what_no_card_can_say_is_refused():
    with pytest.raises(terms.NotWritten):
        terms.text(terms.Term("pointer", (N,)))
    with pytest.raises(terms.NotWritten):
        terms.parsed("n[0]")


def terms_of(*operators):
    return st.recursive(
        st.one_of(st.integers(0, 70).map(number), st.sampled_from([N, B])),
        lambda inner: st.builds(combined, st.sampled_from(operators), inner, inner),
        max_leaves=8,
    )


@given(
    term=terms_of("+", "-", "*", "/", "%", "min", "max", "ceil_div", "<", "=="),
    n=st.integers(1, 300),
    b=st.integers(1, 64),
)
def test_a_card_computes_what_the_term_is(term, n, b):
    values = {"n": n, "b": b}
    expected = terms.value(term, values)
    if expected is None or _divides_something_negative(term, values):
        return  # by zero; and C++ rounds quotients of negative numbers the other way
    assert evaluate(terms.text(term), values.__getitem__) == expected
    assert terms.value(terms.parsed(terms.text(term)), values) == expected


def _divides_something_negative(term, values):
    if term.op in ("//", "%", "ceil_div"):
        parts = [terms.value(one, values) for one in term.args]
        if None in parts or min(parts) < 0:
            return True
    return any(_divides_something_negative(one, values) for one in term.args if isinstance(one, terms.Term))


@given(term=terms_of("+", "-", "*", "min", "max", "<"))
def test_equal_terms_are_found_equal_however_they_are_written(term):
    assert terms.same(combined("+", term, N), combined("+", N, term))
    assert not terms.same(combined("+", term, N), combined("+", combined("+", term, N), number(1)))


def test_a_quotient_is_not_taken_for_zero_nor_for_what_is_made_of_it():
    quotient = combined("/", N, B)
    assert not terms.same(quotient, number(0)) and not terms.same(combined("/", B, N), number(0))
    assert not terms.same(quotient, combined("/", combined("+", quotient, number(63)), number(64)))
    rest = combined("/", B, combined("*", N, terms.symbol("X")))
    assert not terms.same(rest, number(0)) and terms.same(rest, combined("/", combined("/", B, N), terms.symbol("X")))
