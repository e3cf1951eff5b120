"""What was loaded into registers and never read, stored as its neighbour is."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST_ELEMENTS = 8


@operator
def left_in_registers(program: Program) -> Iterator[Draft]:
    """`p[r + 32] = x[1];` after `p[r] = x[0];`, where a loop that counts `h` to 2 fills `x[h]` from row `r + h * 32`,
    and nothing reads `x[1]`."""
    for body in program.bodies:
        for fill in body.statements:
            target = _filled(fill)
            if target is None or fill.unit.macro:
                continue
            loop, name = fill.loops[-1], target.operands[0].text
            read = _read(body, name)
            steps = _steps(loop, target.operands[1].text)
            missing = [number for number in range(_rounds(loop)) if number not in read]
            for number, one in read.items():
                if one.statement.kind == "expression" and one.statement.braced and _stored(one):
                    yield from (draft for other in missing for draft in _drafts(one, name, other - number, steps))


def _drafts(one: Expression, name: str, further: int, steps: dict[str, tuple[int, str]]) -> Iterator[Draft]:
    """The statement that an element is stored in, with another element, and each coordinate that goes with it moved."""
    held, source = one.statement, one.unit.source
    element = f"{name}[{int(one.operands[1].text) + further}]"
    for place in held.expressions[0].operands[0].under():
        if place.kind == "name" and place.text in steps:
            count, factor = steps[place.text]
            size = f"{further * count} * {factor}" if factor else str(further * count)
            copy = (
                f"{source.slice(held.start, place.start)}({place.text} + {size})"
                f"{source.slice(place.end, one.start)}{element}{source.slice(one.end, held.end)}"
            )
            yield inserted_after(held, copy, f"{element} stored as {one.text} is", "statement")


def _filled(one: Statement) -> Expression | None:
    """The element of a thread's own array that a statement sets, with a loop's counter for its index."""
    whole = one.expressions[0] if one.kind == "expression" and one.expressions and one.loops else None
    target = whole.operands[0] if whole is not None and whole.kind == "assignment" and whole.operator == "=" else None
    if target is None or target.kind != "subscript" or len(target.operands) != 2 or target.operands[0].kind != "name":
        return None
    counters = {variable.name for variable in one.loops[-1].declares}
    variable = one.unit.scopes.at(target.start).get(target.operands[0].text)
    own = variable is not None and variable.kind == "local" and not variable.shared and len(variable.dimensions) == 1
    return target if own and target.operands[1].text in counters else None


def _rounds(loop: Statement) -> int:
    """How many rounds a loop has; 0 where no number says it."""
    held = loop.condition
    if held is None or held.operator != "<" or not held.operands[1].text.isdecimal():
        return 0
    return min(int(held.operands[1].text), _MOST_ELEMENTS)


def _read(body: Body, name: str) -> dict[int, Expression]:
    """The elements of an array that are read, each once, by their numbers; none where it is not told which."""
    found: dict[int, Expression] = {}
    for one in (part for held in body.statements for part in held.own_parts()):
        if one.kind != "name" or one.text != name:
            continue
        around = one.parent
        if around is None or around.kind != "subscript" or one.number != 0:
            return {}
        if around.assigned and around.parent is not None and around.parent.kind == "assignment":
            continue
        if around.assigned or not around.operands[1].text.isdecimal():
            return {}
        found.setdefault(int(around.operands[1].text), around)
    return found


def _stored(one: Expression) -> bool:
    """Whether it is, or is part of, what a statement that is an assignment stores."""
    whole = one.statement.expressions[0]
    return whole.kind == "assignment" and whole.operands[1].start <= one.start and one.end <= whole.operands[1].end


def _steps(loop: Statement, counter: str) -> dict[str, tuple[int, str]]:
    """By how much a round moves each name that a loop adds its counter to: a number, and what it is times."""
    found: dict[str, tuple[int, str]] = {}
    for one in (part for part in loop.all_parts() if part.operator == "+"):
        held = sums.terms(one) if sums.top(one) else []
        moved = next((term for term in held if counter in {factor.text for factor in term.factors}), None)
        whole = moved is not None and len(moved.factors) <= 2 and all(factor.atom for factor in moved.factors)
        if moved is None or not whole or moved.negative:
            continue
        size = next((factor.text for factor in moved.factors if factor.text != counter), "1")
        step = (int(size), "") if size.isdecimal() else (1, size)
        for term in held:
            if term is not moved and term.expression.kind == "name" and term.expression.varying is not False:
                found.setdefault(term.expression.text, step)
    return found
