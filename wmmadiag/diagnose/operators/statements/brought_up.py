"""What a loop keeps from round to round, brought up to date."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST = 3
"""New values that are tried for one place."""


@operator
def brought_up(program: Program) -> Iterator[Draft]:
    """`x = y;` or `x[i] = y;` after what reads it last in a loop, for an `x` from before the loop that nothing changes
    once it is declared, with a `y` of its type that the round makes: what is made of `x` first."""
    for body in program.bodies:
        if body.fixed or body.unit.macro:
            continue
        changed = set(_changed(body))
        for declared in body.statements:
            for variable in declared.declares if declared.kind == "declaration" else ():
                words = {"const", "constexpr"} & set(variable.type.split())
                if variable.constant or words or variable.pointers or variable.name in changed or variable.shared:
                    continue
                for loop in declared.block[declared.index + 1 :]:
                    if loop.kind == "loop":
                        yield from _in(program, loop, variable.name)


def _in(program: Program, loop: Statement, name: str) -> Iterator[Draft]:
    """The drafts for one variable in one loop: after the last statement that reads each element of it as it is named
    there, in the block where it is read."""
    last: dict[tuple[int, str], tuple[Statement, Expression]] = {}
    for one in loop.under():
        for part in one.own_parts():
            if part.type.arithmetic and part.kind in ("name", "subscript") and root_of(part) == name and one.braced:
                last[id(one.block), part.text] = one, part
    for place, read in last.values():
        for value in _values(program, loop, place, read):
            yield inserted_after(place, f"{read.text} = {value};", f"{read.text} = {value} in each round", "statement")


def _values(program: Program, loop: Statement, place: Statement, read: Expression) -> list[str]:
    """What the round has made by then that may be the new value: variables of the type that are made of the old one,
    then the others, the last first."""
    scope = program.names_at(place.unit, place.end)
    made: list[str] = []  # of the old value
    others: list[str] = []
    for one in loop.under():
        if one.start > place.start:
            break
        for variable, value in one.initial_values():
            if not variable.dimensions and variable.name in scope and program.reader.type_of(variable).same(read.type):
                of_old = any(part.text == read.text for part in value.under())
                (made if of_old else others).append(variable.name)
    return list(dict.fromkeys([*made, *reversed(others)]))[:_MOST]


def _changed(body: Body) -> Iterator[str]:
    """The variables that a body assigns to, takes the address of, or gives a function as a whole array."""
    for statement in body.statements:
        for part in statement.own_parts():
            given = part.parent is not None and part.parent.kind == "call" and not part.type.arithmetic
            in_assembly = part.parent is not None and part.parent.kind == "assembly"
            if part.assigned or given or in_assembly:
                yield root_of(part)


def root_of(one: Expression) -> str:
    """The variable that an expression is an element of."""
    while one.kind in ("subscript", "member") or (one.kind == "unary" and one.operator in ("&", "*")):
        one = one.operands[0]
    return one.text
