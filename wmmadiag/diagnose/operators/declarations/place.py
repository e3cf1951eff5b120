"""Declarations elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wmmadiag.diagnose.operators.making import Draft, indent
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def declared_elsewhere(program: Program) -> Iterator[Draft]:
    """A declaration, with what is done to it at once, into the loop after it, or out of the loop around it; several
    beside each other into the loop that alone uses them."""
    for one in program.statements:
        if one.kind != "declaration" or not one.braced or one.unit.macro or one.parent is None:
            continue
        last = one
        following = one.block[one.index + 1 : one.index + 2]
        for later in following:
            if later.kind == "expression" and _begins(one, later):
                last = later
        yield from _into(one, last)
        if (end := _run(one)) is not one:
            yield from _into(one, end)
        around = one.parent.parent
        if one.index == 0 and around is not None and around.kind == "loop" and around.braced:
            text = one.unit.source.slice(one.start, last.end)
            yield _move(one, last, around.start, f"{text}\n{indent(around)}", "before the loop")


def _run(one: Statement) -> Statement:
    """The last of the declarations from one on that may be moved into the same loop."""
    last, loop = one, _loop_of(one, one)
    for later in one.block[one.index + 1 :] if loop is not None else ():
        if later.kind != "declaration" or _loop_of(later, later) is not loop:
            break
        last = later
    return last


def _loop_of(one: Statement, last: Statement) -> Statement | None:
    """The loop that alone uses what is declared from one statement to another, where that may change and the loop's
    head does not hang on it."""
    some = one.block[one.index : last.index + 1]
    variables = [variable for each in some for variable in each.declares]
    own = {variable.declarator.start_byte for variable in variables}
    using = [later for later in one.block[last.index + 1 :] if _named(later) & own]
    if len(using) != 1 or using[0].kind != "loop" or not using[0].children:
        return None
    loop, held = using[0], using[0].children[0]
    fixed = any(each.shared or each.constant or "const" in each.type.split() for each in variables)
    return None if fixed or _in_expressions(loop.expressions) & own or held.kind != "block" else loop


def _into(one: Statement, last: Statement) -> Iterator[Draft]:
    loop = _loop_of(one, last)
    if loop is not None:
        # After the declarations that the loop begins with.
        first = next((inner for inner in loop.children[0].children if inner.kind != "declaration"), None)
        text = one.unit.source.slice(one.start, last.end)
        if first is not None:
            yield _move(one, last, first.start, f"{text}\n{indent(first)}", "into the loop")


def _move(one: Statement, last: Statement, to: int, text: str, note: str) -> Draft:
    edits = (one.unit.edit(one.start, last.end, ""), one.unit.edit(to, to, text))
    return Draft(edits, "static", "declaration", f"{one.text[:60]}: {note}")


def _begins(one: Statement, later: Statement) -> bool:
    """Whether a statement sets or fills what was declared."""
    whole = later.expressions[0] if later.expressions else None
    if whole is None or not whole.operands:
        return False
    sets = whole.kind == "call" or (whole.kind == "assignment" and whole.operator == "=")
    return sets and whole.operands[0].text in {each.name for each in one.declares}


def _named(one: Statement) -> set[int]:
    """Where the variables are declared that a statement names."""
    return _in_expressions(one.whole_expressions())


def _in_expressions(some: Iterable[Expression]) -> set[int]:
    names = [part for whole in some for part in whole.under() if part.kind == "name"]
    found = (part.unit.scopes.at(part.start).get(part.text) for part in names)
    return {variable.declarator.start_byte for variable in found if variable is not None}
