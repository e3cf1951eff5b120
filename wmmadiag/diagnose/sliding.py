"""Statements put into a source, moved to where they are needed.

What clears an accumulator mends a kernel anywhere between its last use and its next one. Of all these places the one to
name is the last: before the statement that needs it, outside the loops that it need not be in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.diagnose.names import ORDERS
from wmmadiag.diagnose.operators.making import inserted_before
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.ranking import line_of
from wmmadiag.diagnose.search import Bench, Ledger, Tried

_MOST = 4
"""Changes that are moved."""
_PLACES = 96
"""Where one is tried."""


def slid(bench: Bench, entry: str, right: Sequence[Tried], ledger: Ledger) -> list[Tried]:
    """Changes that make the bench's case right, insertions among them moved to where they are needed.

    Args:
        entry: the kernel as the card names it.
    """
    # What leaves a round skips what stands behind it: its place is its meaning.
    some = [one for one in right if movable(one.ranked.change) and one.ranked.change.role != "branch"]
    moved = {id(one) for one in some[:_MOST]}
    return [_moved(bench, entry, one, ledger) if id(one) in moved else one for one in right]


def movable(change: Change) -> bool:
    """Whether it is one statement put somewhere, and none that orders others: where those stand is their meaning."""
    return (
        change.kind == "insertion"
        and change.role not in ORDERS
        and len(change.edits) == 1
        and change.edits[0].start == change.edits[0].end
    )


def _moved(bench: Bench, entry: str, one: Tried, ledger: Ledger) -> Tried:
    change = one.ranked.change
    places = list(_later(bench.texts, entry, change))[:_PLACES]
    outcomes = bench.try_batch([there for there, _ in places])
    ledger.note(outcomes)
    found = [
        (depth, number) for number, ((_, depth), outcome) in enumerate(zip(places, outcomes, strict=True))
        if outcome.verdict == "right"
    ]  # fmt: skip
    if not found:
        return replace(one, also=())
    outermost = min(depth for depth, _ in found)
    last = max(number for depth, number in found if depth == outermost)
    there = places[last][0]
    sources = {file: parse(text, file) for file, text in bench.texts.items()}
    lines = [one.ranked.line, *(line_of(places[number][0], sources) for _, number in found)]
    ranked = replace(one.ranked, change=there, line=line_of(there, sources))
    return Tried(ranked, outcomes[last], tuple(line for line in dict.fromkeys(lines) if line != ranked.line))


def _later(texts: Texts, entry: str, change: Change) -> Iterator[tuple[Change, int]]:
    """The same statement before each one that follows in its function, with how many loops are around it there."""
    edit = change.edits[0]
    for body in program(texts, entry).bodies:
        root = body.root
        if root is None or body.unit.macro or body.unit.file != edit.file:
            continue
        base = body.unit.base
        if not root.start + base <= edit.start <= root.end + base:
            continue
        for statement in sorted(body.statements, key=lambda one: one.start):
            if statement.braced and statement.kind != "block" and statement.start + base >= edit.start:
                draft = inserted_before(statement, edit.text.strip(), change.note, change.role)
                yield (
                    Change(change.operator, draft.edits, "insertion", change.role, _note(change)),
                    len(statement.loops),
                )


def _note(change: Change) -> str:
    """What is done, without where it was tried first."""
    return f"`{' '.join(change.edits[0].text.split())}` put before this line"
