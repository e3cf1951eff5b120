"""What is done to a value where it is used, done where it is made, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.operators.making import Draft, Text, binary, called, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_REAL = frozenset({"float", "half"})
_ARITHMETIC = frozenset({"+", "-", "*", "/"})
_MOST_USES = 4


@dataclass(frozen=True, slots=True)
class _Step:
    """A call or an operation, and which of its operands it is done to."""

    whole: Expression
    held: Expression

    def of(self, text: Text) -> Text:
        """The same done to something else."""
        if self.whole.kind == "call":
            return called(self.whole, self.held, text)
        parts = [text if part is self.held else text_of(part) for part in self.whole.operands]
        return binary(parts[0], self.whole.operator, parts[1])

    def may_stand(self, program: Program, at: Expression) -> bool:
        """Whether all else that it names can be named somewhere else."""
        others = [part for part in self.whole.operands if part is not self.held]
        return all(pools(program).visible(part, at) for part in others)


@operator
def applied_elsewhere(program: Program) -> Iterator[Draft]:
    """`float v = f(x); … v` for `float v = x; … f(v)`, and back, for calls and operations on reals: what happens to `v`
    in between is then done before or after."""
    for body in program.bodies:
        made: dict[str, Expression] = {}
        uses: dict[str, list[Expression]] = {}
        for statement in body.statements:
            for variable, value in statement.initial_values():
                if value.type.kind in _REAL and not value.fixed:
                    made[variable.name] = value
            for part in statement.own_parts():
                if part.kind == "name" and part.text in made and not part.assigned and not part.fixed:
                    uses.setdefault(part.text, []).append(part)
        for name, value in made.items():
            for use in uses.get(name, ())[:_MOST_USES]:
                yield from _sooner(program, value, use)
                yield from _later(program, value, use)


def _sooner(program: Program, value: Expression, use: Expression) -> Iterator[Draft]:
    for step in _around(use):
        if step.may_stand(program, value):
            pairs = [(value, step.of(text_of(value))), (step.whole, text_of(step.held))]
            yield several(pairs, f"{_named(step)} where {use.text} is made, not where it is used")


def _later(program: Program, value: Expression, use: Expression) -> Iterator[Draft]:
    places = [use, *(step.whole for step in _around(use))]
    for inner in _within(value):
        for place in places:
            if inner.may_stand(program, place):
                pairs = [(value, text_of(inner.held)), (place, inner.of(text_of(place)))]
                yield several(pairs, f"{_named(inner)} where {use.text} is used, not where it is made")


def _named(step: _Step) -> str:
    return step.of(Text("…")).text


def _around(use: Expression) -> Iterator[_Step]:
    """What is done to a variable's value where it is used, the innermost first."""
    held, whole = use, use.parent
    while whole is not None:
        if _keeps(whole, held):
            yield _Step(whole, held)
        elif whole.kind not in ("call", "cast", "binary"):
            return
        held, whole = whole, whole.parent


def _within(value: Expression) -> Iterator[_Step]:
    """What is done last where a variable's value is made."""
    yield from (_Step(value, held) for held in value.operands if held.kind != "literal" and _keeps(value, held))


def _keeps(whole: Expression, held: Expression) -> bool:
    """Whether it makes a real number of another one of the same type."""
    real = whole.type.kind in _REAL and held.type.kind == whole.type.kind
    called = whole.kind == "call" and whole.receiver is None and not whole.fixed
    return real and (called or (whole.kind == "binary" and whole.operator in _ARITHMETIC))
