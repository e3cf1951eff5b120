"""Integer and pointer expressions as sums of products, the form in which addresses are written."""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.diagnose.operators.making import Text, binary, text_of
from wmmadiag.diagnose.operators.model import Expression


@dataclass(frozen=True, slots=True)
class Summand:
    """One term of a sum."""

    expression: Expression  # without its sign; `factors`: of its product, in order
    factors: tuple[Expression, ...]
    negative: bool  # whether it is subtracted

    @property
    def pitch(self) -> Expression | None:
        """The factor that is the same for all threads, where one other varies."""
        if len(self.factors) < 2:
            return None
        same = [one for one in self.factors if one.varying is False]
        if not same:  # in a function that is called with either
            same = [one for one in self.factors[1:] if one.varying is None and one.kind in ("name", "member")]
        return same[-1] if same and len(same) < len(self.factors) else None


@dataclass(frozen=True, slots=True)
class NestedStep:
    """One step of a nested sum `inner * pitch + rest`."""

    pitch: Expression
    rest: tuple[Expression, ...]


def top(one: Expression) -> bool:
    """Whether an expression is a whole sum: no part of a larger one."""
    around = one.parent
    if one.type.kind != "integer" and not one.type.address:
        return False
    return not (around is not None and around.kind == "binary" and around.operator in ("+", "-"))


def terms(one: Expression) -> list[Summand]:
    """The terms of a sum; one term for anything else."""
    found: list[Summand] = []
    _terms(one, False, found)
    return found


def _terms(one: Expression, negative: bool, found: list[Summand]) -> None:
    if one.kind == "binary" and one.operator in ("+", "-"):
        _terms(one.operands[0], negative, found)
        _terms(one.operands[1], negative != (one.operator == "-"), found)
    else:
        found.append(Summand(one, tuple(factors(one)), negative))


def factors(one: Expression) -> list[Expression]:
    """The factors of a product; one for anything else."""
    if one.kind == "binary" and one.operator == "*":
        return [*factors(one.operands[0]), *factors(one.operands[1])]
    return [one]


def uncast(one: Expression) -> Expression:
    """An expression without the casts between integers around it."""
    while one.kind == "cast" and one.operands and one.type.whole:
        one = one.operands[0]
    return one


def levels(one: Expression) -> tuple[Expression, list[NestedStep]] | None:
    """A nested sum `((first * p1 + r1) * p2 + r2) …` from inside out; None where it is none of two levels."""
    found: list[NestedStep] = []
    at = one
    while True:
        held = terms(at)
        nested = held[0]
        if nested.negative or len(nested.factors) != 2 or any(part.negative for part in held):
            break
        inner, pitch = uncast(nested.factors[0]), nested.factors[1]
        rest = tuple(part.expression for part in held[1:])
        found.append(NestedStep(pitch, rest))
        at = inner
        if inner.kind != "binary" or inner.operator != "+":
            break
    return (at, found[::-1]) if len(found) > 1 else None


def nested(first: Expression, steps: list[NestedStep]) -> Text:
    """The text of a nested sum, from its levels."""
    made = text_of(first)
    for step in steps:
        made = binary(made, "*", text_of(step.pitch))
        for part in step.rest:
            made = binary(made, "+", text_of(part))
    return made
