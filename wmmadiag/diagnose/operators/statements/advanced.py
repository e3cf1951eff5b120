"""What never changes changed in each round of a loop."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_CHANGES = ("{0} ^= 1;", "++{0};")
_BY = 4
"""What is added to it, of what a round has computed."""


@operator
def advanced(program: Program) -> Iterator[Draft]:
    """`x ^= 1;` or `++x;` in a loop, for an integer that is no constant and yet keeps its initial value."""
    for body in program.bodies:
        changed = {name for statement in body.statements for name in _changed(statement)}
        for statement in body.statements:
            if statement.kind != "declaration" or statement.unit.macro or body.fixed:
                continue
            for variable in statement.declares:
                begins = variable.value is not None and variable.value.type == "number_literal"
                if begins and _counts(program, variable) and variable.name not in changed:
                    for place in _places(statement, variable.name):
                        for text in _CHANGES:
                            made = text.format(variable.name)
                            if place.index == 0:
                                yield inserted_before(place, made, f"{made[:-1]} in each round", "statement")
                            yield inserted_after(place, made, f"{made[:-1]} in each round", "statement")


@operator
def advanced_beside(program: Program) -> Iterator[Draft]:
    """`x += y;` beside `++i;` in a loop, for an integer `x` that keeps its initial value, perhaps a member, and a `y`
    that the round has computed."""
    bodies = [body for body in program.bodies if not body.fixed]
    changed = {name for body in bodies for one in body.statements for name in _changed(one)}
    taken = {one.name for body in bodies if body.function is not None for one in body.function.parameters}
    for body in bodies:
        for statement in body.statements:
            if not statement.braced or not statement.loops or statement.unit.macro or not _advances(statement):
                continue
            kept = [
                name for name, variable in program.names_at(statement.unit, statement.start).items()
                if name not in changed | taken and _counts(program, variable)
            ]  # fmt: skip
            for name in kept:
                for other in _computed(program, statement):
                    made = f"{name} += {other};"
                    yield inserted_before(statement, made, f"{made[:-1]} in each round", "statement")
                    yield inserted_after(statement, made, f"{made[:-1]} in each round", "statement")


def _changed(statement: Statement) -> Iterator[str]:
    """The names that a statement's own expressions assign to."""
    for whole in statement.expressions:
        yield from (part.text for part in whole.under() if part.kind == "name" and part.assigned)


def _advances(statement: Statement) -> bool:
    """Whether it is `++i;`, `i += n;` or the like, of a name."""
    whole = statement.expressions[0] if statement.kind == "expression" and len(statement.expressions) == 1 else None
    if whole is None or whole.operator not in ("++", "--", "+=", "-="):
        return False
    return whole.operands[0].kind == "name" and whole.type.whole


def _counts(program: Program, variable: Variable) -> bool:
    """Whether it is an integer that may change."""
    constant = variable.constant or {"const", "constexpr"} & set(variable.type.split()) or variable.dimensions
    return not constant and program.reader.type_of(variable).whole


def _computed(program: Program, statement: Statement) -> list[str]:
    """The integers that are declared in the round that a statement stands in, the last first."""
    around = statement.loops[-1]
    found = [
        variable.name for one in around.under() if one.kind == "declaration" and one.start < statement.start
        for variable in one.declares if program.reader.type_of(variable).whole
    ]  # fmt: skip
    names = program.names_at(statement.unit, statement.start)
    return [name for name in found[::-1] if name in names][:_BY]


def _places(declared: Statement, name: str) -> Iterator[Statement]:
    """The statements of the loops after a declaration that use what it declares."""
    for later in declared.block[declared.index + 1 :]:
        if later.kind == "loop" and later.children and later.children[0].kind == "block":
            held = later.children[0]
            if any(name in whole.names for whole in held.whole_expressions()):
                yield from (one for one in held.children if one.braced)
                yield from (
                    inner
                    for one in held.children
                    if one.kind == "if" and one.children and one.children[0].kind == "block"
                    for inner in one.children[0].children
                )
