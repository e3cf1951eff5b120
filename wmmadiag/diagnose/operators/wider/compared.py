"""Guards that are put together: two coordinates held against each other, or one against any size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.comparisons import leaves
from wmmadiag.diagnose.operators.composed import bounds
from wmmadiag.diagnose.operators.conditions.guard import fresh
from wmmadiag.diagnose.operators.making import Draft, Text, binary, inserted_after, inserted_before, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import fallbacks

_MOST_NAMES, _MOST_COUNTED = 5, 4
_VALUES = frozenset({"float", "half", "byte"})


@operator
def value_compared(program: Program) -> Iterator[Draft]:
    """`i <= j ? x : 0` for a value `x`, with two whole numbers that its statement names, or one and a size."""
    for one in program.expressions:
        if one.type.kind not in _VALUES or one.fixed or not fresh(one):
            continue
        noughts = fallbacks(program, one)
        for condition in _conditions(program, one, _names(program, one, one.statement.expressions)):
            for nought in noughts:
                text = f"{condition.text} ? {one.text} : {nought}"
                yield replaced(one, Text(text, precedence.CONDITIONAL), f"{nought} where not {condition.text}")


@operator
def left_early(program: Program) -> Iterator[Draft]:
    """`if (i >= n) break;` and the same with `continue` after the declaration of a coordinate in a loop, and where a
    loop begins, for its counter and for a sum of it that stands in it."""
    for statement in program.statements:
        value = statement.expressions[-1] if statement.expressions else None
        if statement.kind == "loop":
            first = _first(statement)
            for text, at in _counted(statement) if first is not None else ():
                for condition, way in _ways(program, text, at):
                    assert first is not None
                    yield inserted_before(first, f"if ({condition}) {way};", f"{way} where {condition}", "branch")
        elif statement.kind == "declaration" and statement.loops and statement.braced and value is not None:
            names = [one.name for one in statement.declares if program.reader.type_of(one).whole and not one.dimensions]
            for condition, way in (found for name in names for found in _ways(program, name, value)):
                yield inserted_after(statement, f"if ({condition}) {way};", f"{way} where {condition}", "branch")


def _ways(program: Program, name: str, at: Expression) -> Iterator[tuple[str, str]]:
    for bound in bounds(program, at):
        for way in ("break", "continue"):
            yield f"{name} >= {bound.text}", way


def _first(loop: Statement) -> Statement | None:
    """The first statement of a loop's block."""
    held = loop.children[-1] if loop.children else None
    held = held.children[0] if held is not None and held.kind == "block" and held.children else None
    return held if held is not None and held.braced else None


def _counted(loop: Statement) -> Iterator[tuple[str, Expression]]:
    """The counter of a loop and sums of it that stand in it, each with where it stands there."""
    counters = {variable.name for variable in loop.declares}
    found: dict[str, Expression] = {}
    for whole in loop.whole_expressions():
        for one in whole.under():
            if one.type.whole and not one.assigned and counters & one.names and (one.kind == "name" or _plain_sum(one)):
                found.setdefault(one.text, one)
    yield from list(found.items())[:_MOST_COUNTED]


def _plain_sum(one: Expression) -> bool:
    return one.kind == "binary" and one.operator == "+" and all(part.atom for part in one.operands)


@operator
def divisible(program: Program) -> Iterator[Draft]:
    """`c && x % n == 0` for a condition `c` on an `x` that the function divides by `n`; `c || x % n != 0` of what
    leaves."""
    divided = [one for one in program.all_expressions() if one.operator in ("/", "/=") and one.type.whole]
    for one in program.expressions:
        if one.role != "condition" or one.parent is not None or one.fixed:
            continue
        symbol, compared = ("||", "!=") if leaves(one.statement) else ("&&", "==")
        for part in divided:
            number, by = part.operands
            if by.varying is True or not number.names & one.names or not pools(program).visible(part, one):
                continue
            rest = binary(text_of(number), "%", text_of(by))
            whole = binary(rest, compared, Text("0"))
            yield replaced(one, binary(text_of(one), symbol, whole), f"{symbol} {whole.text}")


def _conditions(program: Program, one: Expression, names: list[str]) -> Iterator[Text]:
    for symbol in ("<", "<="):
        for first, second in itertools.permutations(names, 2):
            yield Text(f"{first} {symbol} {second}", precedence.BINARY[symbol], symbol)
        for bound in bounds(program, one) if symbol == "<" else ():
            for name in names:
                yield Text(f"{name} {symbol} {bound.text}", precedence.BINARY[symbol], symbol)


def _names(program: Program, at: Expression, wholes: list[Expression]) -> list[str]:
    """The whole numbers in some expressions that differ between threads and are visible where one stands."""
    found = dict.fromkeys(
        part.text
        for whole in wholes
        for part in whole.under()
        if part.kind == "name" and part.type.whole and part.varying is not False and pools(program).visible(part, at)
    )
    return list(found)[:_MOST_NAMES]
