"""Comparisons, and what joins them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import reduce

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.comparisons import (
    ORDERINGS,
    comparisons,
    coordinates_in,
    guarded_by,
    leaves,
    varying_names,
)
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OTHERS: Mapping[str, tuple[str, ...]] = {
    "<": ("<=", ">=", ">"), "<=": ("<", ">", ">="), ">": (">=", "<=", "<"), ">=": (">", "<", "<="),
    "==": ("!=",), "!=": ("==",),
}  # fmt: skip


@operator
def comparison(program: Program) -> Iterator[Draft]:
    """Strict or not, the other way round; `a < b` for `a + s <= b`, and back with the step of the loop."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in _OTHERS or len(one.operands) != 2:
            continue
        left, right = one.operands
        # A loop that goes the other way round seldom ends.
        counted = one.statement.kind == "loop" and one.statement.condition is one
        for symbol in _OTHERS[one.operator][: 1 if counted else None]:
            yield replaced(one, binary(text_of(left), symbol, text_of(right)), f"{symbol} for {one.operator}")
        if one.operator == "<=" and left.kind == "binary" and left.operator == "+":
            yield replaced(one, binary(text_of(left.operands[0]), "<", text_of(right)))
        step = _step(one)
        if one.operator == "<" and step is not None and not (left.kind == "binary" and sums.top(left)):
            yield replaced(one, binary(binary(text_of(left), "+", text_of(step)), "<=", text_of(right)))


@operator
def comparisons_together(program: Program) -> Iterator[Draft]:
    """All comparisons of one kind in a condition made strict, or no longer; the bounds of two of them exchanged."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("&&", "||") or _is_joined(one.parent):
            continue
        held = [part for part in one.under() if part.kind == "binary" and part.operator in _OTHERS]
        for symbol in dict.fromkeys(part.operator for part in held):
            alike = [part for part in held if part.operator == symbol]
            if len(alike) > 1:
                other = _OTHERS[symbol][0]
                pairs = [(part, binary(text_of(part.operands[0]), other, text_of(part.operands[1]))) for part in alike]
                yield several(pairs, f"{other} for every {symbol}")
        for first, second in itertools.combinations(held, 2):
            bounds = first.operands[1], second.operands[1]
            if bounds[0].text != bounds[1].text and bounds[0].type.takes(bounds[1].type):
                exchanged = [(bounds[0], text_of(bounds[1])), (bounds[1], text_of(bounds[0]))]
                yield several(exchanged, f"{bounds[0].text} and {bounds[1].text} exchanged")


def _is_joined(around: Expression | None) -> bool:
    return around is not None and around.operator in ("&&", "||")


def _step(condition: Expression) -> Expression | None:
    """What a loop adds to its counter in each round."""
    loop = condition.statement
    if loop.kind != "loop" or loop.condition is not condition:
        return None
    last = loop.expressions[-1]
    return last.operands[1] if last.kind == "assignment" and last.operator == "+=" else None


_WORDS = {"&&": "and", "||": "or"}
_COMPARED = ORDERINGS | {"==", "!="}


@operator
def conjunct(program: Program) -> Iterator[Draft]:
    """`c && d` for a condition `c`, where `d` stands elsewhere, holds a coordinate of what is guarded to a bound, or
    compares as its neighbours do; `c || d` of what leaves."""
    known = comparisons(program)
    for one in program.expressions:
        if not _whole_condition(one):
            continue
        guarded = guarded_by(one)
        names = frozenset(name for part in guarded for name in varying_names(part)) | varying_names(one)
        for other in known.donors(one, names):
            yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
            yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")
        if len(least := _not_negative(one)) > 1:
            new = reduce(lambda first, then: binary(first, "&&", then), least, text_of(one))
            yield replaced(one, new, f"and {' and '.join(part.text for part in least)}")
        for symbol, other in _as_beside(one):
            yield replaced(one, binary(text_of(one), symbol, other), f"{_WORDS[symbol]} {other.text}")
        if leaves(one.statement):
            for other in known.built(one, coordinates_in(guarded), ">="):
                yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")
            continue
        for other in known.built(one, coordinates_in(guarded)):
            if other.text not in one.text:
                yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
                if other.operator in (">", "&&"):
                    yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")


def _not_negative(one: Expression) -> list[Text]:
    """`x >= 0` of each name that a condition holds to a bound alone."""
    held = [part.operands[0] for part in _joined(one, "&&") if part.operator in ("<", "<=") and len(part.operands) == 2]
    names = {part.text: part for part in held if part.kind == "name" and part.type.whole}
    return [binary(text_of(part), ">=", Text("0")) for text, part in names.items() if f"{text} >= 0" not in one.text]


def _as_beside(one: Expression) -> Iterator[tuple[str, Text]]:
    """A comparison that one of the others of a condition has with a number, for what another one compares."""
    if one.kind != "binary" or one.operator not in _WORDS:
        return
    held = [part for part in _joined(one, one.operator) if part.operator in _COMPARED and len(part.operands) == 2]
    there = {part.text for part in held}
    for part in held:
        for other in held:
            first, second = part.operands
            if second.kind == "literal" and other.operands[0].type.takes(first.type):
                made = binary(text_of(other.operands[0]), part.operator, text_of(second))
                if made.text not in there:
                    there.add(made.text)
                    yield one.operator, made


def _joined(one: Expression, symbol: str) -> list[Expression]:
    if one.kind == "binary" and one.operator == symbol:
        return [part for held in one.operands for part in _joined(held, symbol)]
    return [one]


def _whole_condition(one: Expression) -> bool:
    if one.role != "condition" or one.type.kind not in ("bool", "integer") or one.fixed:
        return False
    around = one.parent
    return around is None or (around.kind == "conditional" and one.number == 0)


_OTHER = {"true": "false", "false": "true"}


@operator
def connective(program: Program) -> Iterator[Draft]:
    """`||` for `&&` and back; one side alone."""
    for one in program.expressions:
        if one.kind == "binary" and one.operator in ("&&", "||"):
            left, right = one.operands
            symbol = "||" if one.operator == "&&" else "&&"
            yield replaced(one, binary(text_of(left), symbol, text_of(right)), f"{symbol} for {one.operator}")
            for kept, dropped in ((left, right), (right, left)):
                yield replaced(one, text_of(kept), f"without {dropped.text}")


@operator
def negation(program: Program) -> Iterator[Draft]:
    """A condition that is no comparison, negated, or no longer; `false` for `true`, and back."""
    for one in program.expressions:
        if one.kind == "name" and one.text in _OTHER:
            yield replaced(one, Text(_OTHER[one.text]))
            continue
        if one.role != "condition" or one.kind not in ("name", "member", "call", "unary") or one.type.kind == "unknown":
            continue
        if one.kind == "unary" and one.operator == "!":
            yield replaced(one, text_of(one.operands[0]), f"without the ! of {one.text}")
        elif one.kind != "unary" and (one.parent is None or one.parent.type.kind == "bool"):
            text = wrapped(text_of(one), precedence.UNARY)
            yield replaced(one, Text(f"!{text}", precedence.UNARY), f"not {one.text}")
