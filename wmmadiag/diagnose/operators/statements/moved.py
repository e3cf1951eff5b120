"""A statement elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.making import Draft, indent
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

MOVABLE = frozenset({"expression", "if", "loop", "jump", "return"})
"""Kinds of statements that may stand elsewhere."""
_FARTHEST = 2


@operator
def moved(program: Program) -> Iterator[Draft]:
    """A statement out of the loop or branch around it, into the one beside it, or past its neighbours."""
    for one in program.statements:
        if one.kind not in MOVABLE or not one.braced or one.parent is None:
            continue
        yield from _out(one)
        yield from _into(one)
        for distance in range(1, (_FARTHEST if one.kind == "expression" else 1) + 1):
            if one.index + distance < len(one.block) and one.kind != "jump":
                later = one.block[one.index + distance]
                if not declares(one.block[one.index + 1 : one.index + distance + 1], one):
                    yield move_after(one, later)
                if later.kind in MOVABLE and not declares(one.block[one.index : one.index + distance], later):
                    yield move_before(later, one)


def move_after(one: Statement, later: Statement) -> Draft:
    """A statement put behind a later one of its block."""
    return _move(one, later.end, f"\n{indent(one)}{_source(one)}", "later")


def move_before(one: Statement, earlier: Statement) -> Draft:
    """A statement put before an earlier one of its block."""
    return _move(one, earlier.start, f"{_source(one)}\n{indent(earlier)}", "sooner")


def _out(one: Statement) -> Iterator[Draft]:
    block = one.parent
    if block is None or block.kind != "block" or block.parent is None or block.parent.kind not in ("loop", "if"):
        return
    around = block.parent
    if not around.braced:
        return
    yield _move(one, around.start, f"{_source(one)}\n{indent(around)}", "before the loop or branch around it")
    yield _move(one, around.end, f"\n{indent(around)}{_source(one)}", "after the loop or branch around it")


def _into(one: Statement) -> Iterator[Draft]:
    for step in (-1, 1):
        at = one.index + step
        if not 0 <= at < len(one.block):
            continue
        beside = one.block[at]
        held = beside.children[0] if beside.kind in ("loop", "if") and beside.children else None
        if held is None or held.kind != "block" or not held.children:
            continue
        first, last = held.children[0], held.children[-1]
        where = "the loop or branch beside it"
        yield _move(one, last.end, f"\n{indent(last)}{_source(one)}", f"to the end of {where}")
        yield _move(one, first.start, f"{_source(one)}\n{indent(first)}", f"to the beginning of {where}")


def _move(one: Statement, to: int, text: str, note: str) -> Draft:
    edits: tuple[TextEdit, ...] = (one.unit.edit(one.start, one.end, ""), one.unit.edit(to, to, text))
    return Draft(edits, "static" if one.unit.macro else "statement", one.role, f"{one.text[:60]}: {note}")


def declares(passed: list[Statement], one: Statement) -> bool:
    """Whether a statement would come before what declares its names."""
    names = {variable.name for other in passed for variable in other.declares}
    return bool(names) and any(
        part.kind == "name" and part.text in names for whole in one.whole_expressions() for part in whole.under()
    )


def _source(one: Statement) -> str:
    return one.unit.source.slice(one.start, one.end)
