"""A statement elsewhere, or several that do alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.making import Draft, before_pragmas, indent
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import Shapes, shape, shapes

_MOVABLE = frozenset({"expression", "if", "loop", "jump", "return"})
_FARTHEST = 2
_LONGEST_RUN = 4
"""Statements that are moved together."""


@dataclass(frozen=True, slots=True)
class _MovedPiece:
    """Statements that follow each other in a block, moved as they stand."""

    first: Statement
    last: Statement

    @property
    def block(self) -> list[Statement]:
        return self.first.block

    @property
    def all(self) -> Sequence[Statement]:
        return self.block[self.first.index : self.last.index + 1]

    def text_at(self, blanks: str) -> str:
        """Its source, with lines that begin as its first one does beginning with these blanks."""
        text = self.first.unit.source.slice(self.first.start, self.last.end)
        return text.replace(f"\n{indent(self.first)}", f"\n{blanks}")


@operator
def moved(program: Program) -> Iterator[Draft]:
    """A statement, or several beside each other that do alike, out of the loop or branch around them, into the one
    beside them, or past their neighbours; an assignment as early in its block as can be, or to its end."""
    known = shapes(program)
    for one in program.statements:
        if one.kind not in _MOVABLE or not one.braced or one.parent is None:
            continue
        alone = _MovedPiece(one, one)
        yield from _out(alone)
        yield from _into(alone)
        for distance in range(1, (_FARTHEST if one.kind == "expression" else 1) + 1):
            if one.index + distance < len(one.block):
                yield from _past(alone, _MovedPiece(*[one.block[one.index + distance]] * 2))
        if one.role in ("accumulation", "assignment"):
            yield from _far(alone)
        run = _run(one, known)
        if run is not None:
            yield from _out(run)
            yield from _into(run)
            if run.last.index + 1 < len(run.block):
                then = run.block[run.last.index + 1]
                yield from _past(run, _run(then, known) or _MovedPiece(then, then))


def _run(first: Statement, known: Shapes) -> _MovedPiece | None:
    """The statements of one shape that begin with this one; None where it is alone, or in their midst."""
    own = shape(known.tokens(first))
    if not own or first.kind != "expression" or not first.braced:
        return None
    alike = [_alike(first, own, other, known) for other in first.block]
    if first.index and alike[first.index - 1]:
        return None
    last = first.index
    while last + 1 < len(alike) and alike[last + 1]:
        last += 1
    return _MovedPiece(first, first.block[last]) if first.index < last < first.index + _LONGEST_RUN else None


def _alike(first: Statement, own: Sequence[str], other: Statement, known: Shapes) -> bool:
    return other.kind == "expression" and other.order is None and shape(known.tokens(other)) == own and (
        first.role == other.role
    )  # fmt: skip


def _past(one: _MovedPiece, later: _MovedPiece) -> Iterator[Draft]:
    """One behind a later one of its block, or that before it."""
    if one.first.kind != "jump" and not _declares(one.block[one.last.index + 1 : later.last.index + 1], one):
        yield _move(one, later.last.end, f"\n{indent(one.first)}{one.text_at(indent(one.first))}", "later")
    if later.first.kind in _MOVABLE and not _declares(one.block[one.first.index : later.first.index], later):
        yield _move(later, one.first.start, f"{later.text_at(indent(one.first))}\n{indent(one.first)}", "sooner")


def _far(one: _MovedPiece) -> Iterator[Draft]:
    """Behind what declares the names of an assignment, and behind all else, where neither is near."""
    block, at = one.block, one.first.index
    names = {part.text for whole in one.first.whole_expressions() for part in whole.under() if part.kind == "name"}
    made = [other.index for other in block[:at] if any(variable.name in names for variable in other.declares)]
    first = block[max(made, default=-1) + 1]
    if at - first.index > _FARTHEST:
        yield _move(one, before_pragmas(first), f"{one.text_at(indent(first))}\n{indent(first)}", "as early as can be")
    last = block[-1]
    if last.index - at > _FARTHEST and last.kind not in ("jump", "return"):
        yield _move(one, last.end, f"\n{indent(last)}{one.text_at(indent(last))}", "to the end")


def _out(one: _MovedPiece) -> Iterator[Draft]:
    block = one.first.parent
    if block is None or block.kind != "block" or block.parent is None or block.parent.kind not in ("loop", "if"):
        return
    around = block.parent
    if not around.braced:
        return
    text = one.text_at(indent(around))
    yield _move(one, before_pragmas(around), f"{text}\n{indent(around)}", "before the loop or branch around it")
    yield _move(one, around.end, f"\n{indent(around)}{text}", "after the loop or branch around it")


def _into(one: _MovedPiece) -> Iterator[Draft]:
    for at in (one.first.index - 1, one.last.index + 1):
        if not 0 <= at < len(one.block):
            continue
        beside = one.block[at]
        held = beside.children[0] if beside.kind in ("loop", "if") and beside.children else None
        if held is None or held.kind != "block" or not held.children:
            continue
        first, last = held.children[0], held.children[-1]
        where, text = "the loop or branch beside it", one.text_at(indent(first))
        yield _move(one, last.end, f"\n{indent(last)}{text}", f"to the end of {where}")
        yield _move(one, first.start, f"{text}\n{indent(first)}", f"to the beginning of {where}")


def _move(one: _MovedPiece, to: int, text: str, note: str) -> Draft:
    unit = one.first.unit
    edits: tuple[TextEdit, ...] = (unit.edit(one.first.start, one.last.end, ""), unit.edit(to, to, text))
    what = " ".join(each.text for each in one.all)
    return Draft(edits, "static" if one.first.fixed else "statement", one.first.role, f"{what[:60]}: {note}")


def _declares(passed: Sequence[Statement], one: _MovedPiece) -> bool:
    """Whether statements would come before what declares their names."""
    names = {variable.name for other in passed for variable in other.declares}
    return bool(names) and any(
        part.kind == "name" and part.text in names
        for each in one.all for part in each.all_parts()
    )  # fmt: skip
