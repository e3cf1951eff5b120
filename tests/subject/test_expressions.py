from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.expressions import ExpressionError, SymbolScope, evaluate, names_in
from wmmadiag.place import Place

SYMBOLS = {"S": 100, "D": 64, "x": 1.5}


def value(text):
    return evaluate(text, SYMBOLS.__getitem__)


@pytest.mark.parametrize(("text", "expected"), [
    ("S", 100), ("S // 64", 1), ("ceil_div(S, 64)", 2), ("S*D/64", 100), ("S/64", Fraction(25, 16)), ("-S % 64", 28),
    ("1/sqrt(D)", 0.125), ("rsqrt(D)", 0.125), ("max(S, D, 7)", 100), ("1 if S > D else 2", 1), ("S > 3 and D < 4", 0),
    ("not S", 0), ("D << 2", 256), ("align(S, 64)", 128), ("2**10", 1024), ("0x10 | 1", 17), ("log2(D)", 6),
    ("ceil(S/64)", 2), ("int(x*2)", 3), ("10 < S < 200", 1), ("pi", math.pi), (" S ", 100), ("S/D*D", 100),
    ("S/D*D + 0.5", 100.5),
])  # fmt: skip
def test_evaluates(text, expected):
    result = value(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(("text", "message"), [
    ("Q", "'Q' is not defined"), ("S/0", "division by zero"), ("ceil_div(S, 0)", "division by zero"),
    ("__import__('os')", "only these functions"), ("S.real", "Attribute is not allowed"),
    ("[1]", "List is not allowed"),
    ("9**999999999", "too large"), ("1 << 100000", "out of range"), ("'a'*9", "not a number"),
    ("S +", "not an arithmetic"),
    ("", "not an arithmetic"), ("x << 1", "needs integers"), ("(-8)**0.5", "domain"), ("lambda: 1", "not allowed"),
    ("sqrt(-1)", "domain"), ("max()", "at least 1|expected"), ("1+" * 400 + "1", "too complicated"),
    ("(" * 400 + "1" + ")" * 400, "not an arithmetic"),
    ("S" * 2000, "longer than"), ("exp(10000)", "too large"), ("min(S, key=1)", "only these functions"),
    ("True if S is D else 1", "compare"), ("S @ D", "not allowed"), ("f'{S}'", "not allowed"),
    ("\0", "not an arithmetic"),
])  # fmt: skip
def test_refuses(text, message):
    with pytest.raises(ExpressionError, match=message):
        value(text)


def test_scope_resolves_in_order_and_names_cycles():
    scope = SymbolScope({"S": 8, "a": "b + 1", "b": "a"}, {"S": 9, "T": "2*S"})
    assert scope.lookup("T") == 16
    with pytest.raises(ExpressionError, match="a → b → a depend on each other"):
        scope.lookup("a")


def test_errors_carry_place_expression_and_symbols():
    scope = SymbolScope({"S": 100})
    with pytest.raises(ConfigurationError) as caught:
        scope.integer("S/64", place=Place("kernel.toml", 7), what="grid.x")
    assert str(caught.value).startswith('kernel.toml:7: grid.x = "S/64" is 1.5625, not an integer')
    with pytest.raises(ConfigurationError, match="at least 1"):
        scope.integer("S - 100", place=Place("k", 1), what="grid.x", minimum=1)
    with pytest.raises(ConfigurationError, match="symbols here: S"):
        scope.number("T", place=Place("k", 1), what="grid.x")
    assert scope.integer("exp(0)", place=Place("k", 1), what="x") == 1


def test_names_in():
    assert names_in("ceil_div(S, BM) * (B if c else H)") == {"S", "BM", "B", "H", "c"}
    assert names_in("(") == frozenset()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="SDx0123456789+-*/%()<>=!&|^~., absqrtmin_ifels\n", max_size=60))
def test_never_anything_but_its_own_error(text):
    try:
        result = value(text)
    except ExpressionError:
        return
    assert isinstance(result, int | float | Fraction)


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4))
def test_ceil_div_is_exact(a, b):
    assert evaluate(f"ceil_div({a}, {b})", SYMBOLS.__getitem__) == math.ceil(Fraction(a, b))
