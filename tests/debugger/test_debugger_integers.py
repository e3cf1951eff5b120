"""Integer arithmetic of C++, held against the compiler's own."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wmmadiag.compile.ask.answers import Constant
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, ValueOf
from wmmadiag.csource.nodes import bare, field
from wmmadiag.csource.tree import parse
from wmmadiag.debugger.integers import (
    BOOL,
    INT,
    UNSIGNED,
    Integers,
    IntegerType,
    UnknownValue,
    binary,
    common_type,
    literal,
    unary,
)

TYPES = {
    "bool": BOOL, "signed char": IntegerType(1, True), "unsigned char": IntegerType(1, False),
    "short": IntegerType(2, True), "unsigned short": IntegerType(2, False), "int": INT, "unsigned": UNSIGNED,
    "long": IntegerType(8, True), "unsigned long": IntegerType(8, False),
}  # fmt: skip
BINARY = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", ">", "<=", ">=", "&&", "||"]
operands = st.one_of(
    st.sampled_from(["0", "1", "2", "31", "255", "2147483647", "4294967295", "0x80000000", "1u", "7ul", "010", "3LL"]),
    st.tuples(st.sampled_from(sorted(TYPES)), st.integers(-300, 300)).map(lambda one: f"({one[0]})({one[1]})"),
    st.tuples(st.sampled_from("-~+!"), st.integers(0, 70000)).map(lambda one: f"({one[0]}{one[1]})"),
)
expressions = st.recursive(
    operands,
    lambda inner: st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda one: f"({' '.join(one)})"),
    max_leaves=5,
)


def evaluated(text: str) -> Integers:
    """By `integers`, on the tree."""
    source = parse(f"auto x = {text};")

    def value(node) -> Integers:
        node = bare(node)
        parts = [one for one in node.named_children if one.type != "comment"]
        operator = field(node, "operator")
        if node.type == "number_literal":
            return literal(source.text(node), 1)
        if node.type == "cast_expression":
            return value(parts[1]).converted(TYPES[source.words(parts[0])])
        assert operator is not None, node.type
        if node.type == "unary_expression":
            return unary(operator.type, value(parts[0]))
        return binary(operator.type, value(parts[0]), value(parts[1]))

    return value(field(field(source.root.named_children[0], "declarator"), "value"))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(expressions, min_size=60, max_size=60, unique=True))
@pytest.mark.slow
def test_what_has_a_value_is_what_the_compiler_says(texts: list[str]) -> None:
    answers = ask(AskedSource("", "k.cu"), [ValueOf(one) for one in texts])
    for text in texts:
        try:
            mine = evaluated(text)
        except UnknownValue:
            continue
        told = answers[ValueOf(text)]
        if isinstance(told, Constant):  # negative shifts are refused before C++20
            assert (mine.values[0], mine.type.signed) == (int(told.value), told.kind == "int"), text
            assert (mine.type.bytes or 1) == told.size, text


@pytest.mark.parametrize("text", ["1 / 0", "2147483647 + 1", "1 << 32", "1 << -1", "-(-2147483647 - 1)", "5 % 0"])
def test_what_the_standard_does_not_say_has_no_value(text: str) -> None:
    with pytest.raises(UnknownValue):
        evaluated(text)


@pytest.mark.parametrize("text", ["1.5f", "1e3", "0x", "08", "18446744073709551616"])
def test_what_is_no_integer_has_no_value(text: str) -> None:
    with pytest.raises(UnknownValue):
        literal(text, 1)


def test_operands_meet_in_one_type() -> None:
    assert common_type(BOOL, IntegerType(2, False)) == INT
    assert common_type(INT, UNSIGNED) == common_type(UNSIGNED, INT) == UNSIGNED
    assert common_type(UNSIGNED, IntegerType(8, True)) == IntegerType(8, True)
