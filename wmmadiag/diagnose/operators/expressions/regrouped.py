"""Parentheses that end elsewhere: what belongs to which factor, index or argument."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_KINDS = frozenset({"integer", "float", "half"})


@operator
def regrouped(program: Program) -> Iterator[Draft]:
    """`a * b + c` for `a * (b + c)`, and back; a term of one index, argument or factor added to another one."""
    for one in program.expressions:
        if one.kind == "binary" and one.operator in ("*", "/") and one.type.kind in _KINDS:
            yield from _opened(one)
        if one.kind == "binary" and one.operator in ("+", "-") and _whole_sum(one):
            yield from _closed(one)
        if one.kind == "subscript" and one.operands[0].kind == "subscript":
            yield from _moved([one.operands[0].operands[-1], one.operands[-1]])
        if one.kind == "call":
            yield from _moved(one.operands)


def _opened(one: Expression) -> Iterator[Draft]:
    """`a * b + c` and `a * c + b` for `a * (b + c)`, the sum any factor; of a quotient's sum, what is divided."""
    for held in _factors(one):
        inner = sums.uncast(held)
        if inner.kind != "binary" or inner.operator not in ("+", "-"):
            continue
        left, right = inner.operands
        for kept, alone in ((left, right), (right, left)):
            made = _with(one, held, text_of(kept))
            parts = (made, text_of(alone)) if alone is right else (text_of(alone), made)
            yield replaced(one, binary(parts[0], inner.operator, parts[1]))


def _factors(one: Expression) -> list[Expression]:
    """The factors of a product of several, with what is divided in it; what it is divided by aside."""
    if one.kind != "binary" or one.operator not in ("*", "/"):
        return [one]
    first, second = one.operands
    return [*_factors(first), *([second] if one.operator == "*" else [])]


def _with(one: Expression, factor: Expression, new: Text) -> Text:
    """A product with another text for one factor."""
    if one is factor:
        return new
    if one.kind != "binary" or one.operator not in ("*", "/"):
        return text_of(one)
    first, second = one.operands
    return binary(_with(first, factor, new), one.operator, _with(second, factor, new))


def _closed(one: Expression) -> Iterator[Draft]:
    """`(a + c) * b` for `a * b + c`; of real numbers, with a difference likewise."""
    held = sums.terms(one)
    for product, term in itertools.permutations(held, 2):
        if len(product.factors) < 2 or product.negative or term.expression.type.address:
            continue
        if term.negative and term.expression.type.whole:
            continue
        if not _movable(term.expression, len(held)) or product.expression.type.address:
            continue
        rest = [part for part in held if part is not term]
        for factor in product.factors:
            into = sums.uncast(factor)
            if factor is product.pitch or (into.type.whole and into.varying is False):
                continue
            sign = "-" if term.negative else "+"
            added = binary(text_of(into), sign, text_of(term.expression))
            texts = [
                (_within(product, factor, into, added) if part is product else text_of(part.expression))
                for part in rest
            ]
            made = texts[0]
            for part, text in zip(rest[1:], texts[1:], strict=True):
                made = binary(made, "-" if part.negative else "+", text)
            done = "taken from" if term.negative else "added to"
            yield replaced(one, made, f"{term.expression.text} {done} {into.text}")


def _within(product: sums.Summand, factor: Expression, into: Expression, added: Text) -> Text:
    """A product with another text for what stands in one factor, in the cast that is around it."""
    made = added
    if into is not factor:
        source = factor.unit.source
        before, after = source.slice(factor.start, into.whole[0]), source.slice(into.whole[1], factor.end)
        made = Text(f"{before}({added.text}){after}")
    texts = [made if part is factor else text_of(part) for part in product.factors]
    return functools.reduce(lambda one, other: binary(one, "*", other), texts)


def _moved(places: Sequence[Expression]) -> Iterator[Draft]:
    """A term of one of several whole numbers added to another one."""
    whole = [one for one in places if one.type.whole and not one.fixed and one.kind not in ("list", "assignment")]
    for one, other in itertools.permutations(whole, 2):
        held = sums.terms(one)
        if len(held) < 2 or (other.varying is False and other.kind != "literal"):
            continue
        for term in held[1:]:
            rest = [part for part in held if part is not term]
            made = text_of(rest[0].expression)
            for part in rest[1:]:
                made = binary(made, "-" if part.negative else "+", text_of(part.expression))
            added = text_of(term.expression)
            if other.text != "0":
                added = binary(text_of(other), "-" if term.negative else "+", added)
            note = f"{term.expression.text} added to {other.text}"
            if not rest[0].negative and not (term.negative and other.text == "0"):
                yield several([(one, made), (other, added)], note)


def _movable(term: Expression, terms: int) -> bool:
    """Whether a term may belong to a factor beside it: what else is added stays an address of its own."""
    return not term.type.whole or (terms > 2 and term.varying is False)


def _whole_sum(one: Expression) -> bool:
    around = one.parent
    nested = around is not None and around.kind == "binary" and around.operator in ("+", "-")
    return not nested and (one.type.kind in _KINDS or one.type.address)
