"""A coordinate that counts in steps, and what lies a step ahead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import counts_loop
from wmmadiag.diagnose.operators.extents import CounterExtents, extents
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_Steps = dict[int, dict[str, Expression]]
"""By the declarator of a variable, the extents of what is added to it, by their texts."""


@operator
def in_steps(program: Program) -> Iterator[Draft]:
    """`x * n` for what a coordinate is set to at first, where a counter of `n` values is added to it, or to a sum that
    has a name and that it is a term of."""
    steps = _steps(program, extents(program))
    for statement in filter(program.may_be_changed, program.statements):
        for variable, value in statement.initial_values():
            if not value.type.whole or value.varying is False or value.fixed:
                continue
            for text, extent in steps.get(variable.declarator.id, {}).items():
                own = {part.text for part in value.under()}
                if text not in own and pools(program).visible(extent, value):
                    yield replaced(value, binary(text_of(value), "*", text_of(extent)), f"in steps of {text}")


@operator
def step_ahead(program: Program) -> Iterator[Draft]:
    """`i + s` and `i - s` for `i + 1` and `i - 1`, or for another number, in a loop that goes on by `s` each time."""
    for one in program.expressions:
        around = one.parent
        if one.kind != "literal" or around is None or around.operator not in ("+", "-") or len(around.operands) != 2:
            continue
        counter = around.operands[1 - one.number]
        for loop in one.statement.loops if counter.kind == "name" and not one.fixed else ():
            for whole in loop.expressions:
                for part in whole.under():
                    step = part.operands[1] if part.kind == "assignment" and part.operator in ("+=", "-=") else None
                    if step is not None and part.operands[0].text == counter.text and step.text != one.text:
                        yield replaced(one, text_of(step), f"{step.text}, a step of line {_line(loop)}, for {one.text}")


@operator
def next_value(program: Program) -> Iterator[Draft]:
    """`v ^ 1` for `v` in a function that does `v ^= 1`, and `(v + 1) % n` where it does `v = (v + 1) % n`."""
    updates: dict[tuple[int, str], dict[str, Expression]] = defaultdict(dict)
    for one in program.all_expressions():
        if one.kind == "assignment" and one.operands[0].kind == "name" and one.operands[0].type.whole:
            target, value = one.operands
            if one.operator != "=" or target.text in value.names:
                updates[id(one.statement.function), target.text].setdefault(one.text, one)
    for one in program.expressions:
        known = updates.get((id(one.statement.function), one.text), {}) if one.kind == "name" else {}
        if not known or one.assigned or one.fixed or counts_loop(one):
            continue
        for update in known.values():
            value = update.operands[1]
            if update.statement is not one.statement and pools(program).visible(value, one):
                line, after = _line(update.statement), _after(update)
                yield replaced(one, after, f"{after.text}, which line {line} makes of it, for {one.text}")


def _after(update: Expression) -> Text:
    """What a variable is once it was assigned to."""
    target, value = update.operands
    plain = update.operator.removesuffix("=")
    return binary(text_of(target), plain, text_of(value)) if plain else text_of(value)


def _line(one: Statement) -> int:
    return one.unit.source.place(one.node).line


def _steps(program: Program, known: CounterExtents) -> _Steps:
    found: _Steps = defaultdict(dict)
    parts: dict[int, list[int]] = {}  # of a variable that is set to a sum, the variables that are terms of it
    for one in program.all_expressions():
        if one.operator != "+" or not sums.top(one):
            continue
        names = [term.expression for term in sums.terms(one) if term.expression.kind == "name" and not term.negative]
        ids = {part.text: known.declarator(part) for part in names}
        for part in names:
            extent = known.written(part)
            for other in names:
                own = ids[other.text]
                if extent is not None and own is not None and other.text != part.text:
                    found[own].setdefault(extent.text, extent)
        for variable, value in one.statement.initial_values():
            if value is one:
                parts[variable.declarator.id] = [own for own in ids.values() if own is not None]
    for whole, terms in parts.items():
        for own in terms:
            for text, extent in found.get(whole, {}).items():
                found[own].setdefault(text, extent)
    return found
