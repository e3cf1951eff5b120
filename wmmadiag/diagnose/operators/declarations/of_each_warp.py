"""An array that all warps of a block share, one for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Set

from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_WARPS = (2, 4, 8)
"""Of a block, as many as there may be: the fewest that are right are how many there are."""
_LANES = {"/": "32", ">>": "5"}


@operator
def of_each_warp(program: Program) -> Iterator[Draft]:
    """`s[4][64]` and `s[warp]` for `s[64]` and `s`, in shared memory, with the number of a warp in scope."""
    warps = numbers_of_warps(program)
    for statement in program.statements:
        if statement.kind != "declaration" or statement.unit.macro or not warps:
            continue
        for variable in statement.declares:
            sized = variable.dimensions and all(size is not None for size in variable.dimensions)
            if variable.shared and sized and "extern" not in variable.words:
                yield from _apart(program, statement, variable, warps)


def _apart(program: Program, declared: Statement, variable: Variable, warps: set[str]) -> Iterator[Draft]:
    uses = [one for one in program.expressions if one.kind == "name" and one.text == variable.name]
    for warp in sorted(warps):
        scopes = (program.names_at(one.unit, one.start) for one in uses)
        if not uses or not all(warp in names and names.get(variable.name) is not None for names in scopes):
            continue
        name = declared.unit.source.data.index(variable.name.encode(), variable.declarator.start_byte)
        at = name + len(variable.name.encode())
        each = [one.unit.edit(one.end, one.end, f"[{warp}]") for one in uses]
        for count in _WARPS:
            edits = (*each, declared.unit.edit(at, at, f"[{count}]"))
            yield Draft(edits, "static", "storage", f"{variable.name}[{warp}] of {count} in place of {variable.name}")


def numbers_of_warps(program: Program) -> set[str]:
    """The names of whole numbers that are declared as those of warps."""
    warps: set[str] = set()
    for statement in program.statements:
        warps |= set(_numbers(statement, warps))
    return warps


def _numbers(statement: Statement, known: Set[str]) -> Iterator[str]:
    """The whole numbers that a statement declares as those of warps: a thread's over 32, not one of these over another.

    Args:
        known: those that were declared before.
    """
    for variable in statement.declares if statement.kind == "declaration" else ():
        if variable.value is not None:
            start = variable.value.start_byte
            if any(one.whole[0] == start and _of_warp(one) and not one.names & known for one in statement.expressions):
                yield variable.name


def _of_warp(one: Expression) -> bool:
    if one.kind != "binary" or one.operator not in _LANES or one.operands[0].varying is False:
        return False
    by = one.operands[1]
    return by.text == _LANES[one.operator] or (one.operator == "/" and by.kind == "name" and by.varying is False)
