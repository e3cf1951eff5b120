"""A name for a number."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import in_own_array, names_for, sizes_for
from wmmadiag.diagnose.operators.composed import coordinates
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST, _MOST_PLACES, _MOST_GIVEN = 2, 8, 12


@operator
def name_for_size(program: Program) -> Iterator[Draft]:
    """A size that has a name, for an expression of sizes."""
    for one in program.expressions:
        if one.kind != "binary" or one.varying is not False or one.fixed or one.assigned or not one.type.whole:
            continue
        for atom in names_for(program, one, _MOST):
            yield replaced(one, Text(atom.text, precedence.POSTFIX))


@operator
def name_for_number(program: Program) -> Iterator[Draft]:
    """A size that has a name, for a number; the counter of a loop around it, or a coordinate, for a fixed index; any
    name for a number that a function of the program is given."""
    for one in program.expressions:
        if one.kind != "literal":
            continue
        if one.parent is not None and one.parent.kind == "call" and one.parent.operator in program.functions:
            yield from (
                replaced(one, Text(atom.text, precedence.POSTFIX)) for atom in names_for(program, one, _MOST_GIVEN)
            )
        for atom in sizes_for(program, one):
            yield replaced(one, Text(atom.text, precedence.POSTFIX))
        if one.role == "index" and one.parent is not None and one.parent.kind == "subscript" and not one.fixed:
            for loop in one.statement.loops:
                for variable in loop.declares:
                    yield replaced(one, Text(variable.name))
            if not in_own_array(one):
                yield from (replaced(one, Text(atom.text)) for atom in coordinates(program, one, _MOST_PLACES))
