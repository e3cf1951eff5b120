"""What never changes changed in each round of a loop."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_CHANGES = ("{0} ^= 1;", "++{0};")


@operator
def advanced(program: Program) -> Iterator[Draft]:
    """`x ^= 1;` or `++x;` in a loop, for an integer that is no constant and yet keeps its initial value."""
    for body in program.bodies:
        changed = {
            part.text
            for statement in body.statements
            for whole in statement.expressions
            for part in whole.under()
            if part.kind == "name" and part.assigned
        }
        for statement in body.statements:
            if statement.kind != "declaration" or statement.unit.macro or body.fixed:
                continue
            for variable in statement.declares:
                begins = variable.value is not None and variable.value.type == "number_literal"
                constant = variable.constant or "const" in variable.type.split() or variable.dimensions
                whole = program.reader.type_of(variable).whole
                if begins and whole and not constant and variable.name not in changed:
                    for place in _places(statement, variable.name):
                        for text in _CHANGES:
                            made = text.format(variable.name)
                            if place.index == 0:
                                yield inserted_before(place, made, f"{made[:-1]} in each round", "statement")
                            yield inserted_after(place, made, f"{made[:-1]} in each round", "statement")


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
