"""Statements put into a source, moved to where they are needed.

What clears an accumulator mends a kernel anywhere between its last use and its next one, in a loop across its end, too.
Of all these places the one to name is the last: before the statement that needs it, outside the loops that it need not
be in. What steps on has its place by how often it is run, and stays where it was found.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.diagnose.names import ORDERS
from wmmadiag.diagnose.operators.making import inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.ranking import line_of
from wmmadiag.diagnose.search import Bench, Ledger, Tried

_MOST = 4
"""Changes that are moved."""
_PLACES = 96
"""Where one is tried."""
_STEPS = re.compile(r"^\s*(?:\+\+|--)|(?:\+\+|--)\s*;|(?:[-+*/%&|^]|<<|>>)=(?!=)|^\s*(\w+)\s*=\s*\1\b")
"""What makes a new value of an old one."""

Loops: TypeAlias = tuple[int, ...]
"""Where the loops around a place begin, the innermost last."""


def slid(bench: Bench, entry: str | tuple[str, ...], right: Sequence[Tried], ledger: Ledger) -> list[Tried]:
    """Changes that make the bench's case right, insertions among them moved to where they are needed.

    Args:
        entry: the kernel as the card names it, or several.
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


def _moved(bench: Bench, entry: str | tuple[str, ...], one: Tried, ledger: Ledger) -> Tried:
    change = one.ranked.change
    places = list(itertools.islice(_later(bench.texts, entry, change), _PLACES))
    outcomes = bench.try_batch([there for there, _ in places])
    ledger.note(outcomes)
    found = [number for number, outcome in enumerate(outcomes) if outcome.verdict == "right"]
    if not found:
        return replace(one, also=())
    sources = {file: parse(text, file) for file, text in bench.texts.items()}
    lines = dict.fromkeys([one.ranked.line, *(line_of(places[number][0], sources) for number in sorted(found))])
    if _STEPS.search(change.edits[0].text):
        return replace(one, also=tuple(line for line in lines if line != one.ranked.line))
    last = _last([loops for _, loops in places], found)
    there = places[last][0]
    ranked = replace(one.ranked, change=there, line=line_of(there, sources))
    return Tried(ranked, outcomes[last], tuple(line for line in lines if line != ranked.line))


def _last(loops: Sequence[Loops], found: Sequence[int]) -> int:
    """The last of the places that are right, in the loop that is farthest out, before one that is not: there it is
    needed. What stands behind that one is of the loop's next round, or of another use.

    Args:
        loops: around each place, in the order of `_later`.
        found: the places that are right.
    """
    first = min(found, key=lambda number: (len(loops[number]), number))
    ring = [number for number, around in enumerate(loops) if number >= first and around == loops[first]]
    return list(itertools.takewhile(set(found).__contains__, ring))[-1]


def _later(texts: Texts, entry: str | tuple[str, ...], change: Change) -> Iterator[tuple[Change, Loops]]:
    """The same statement before each one that follows in its function, then before those of the next round of the
    loops that it is in, with where the loops begin that are around it there."""
    edit = change.edits[0]
    for body in program(texts, entry).bodies:
        root = body.root
        if root is None or body.unit.macro or body.unit.file != edit.file:
            continue
        base = body.unit.base
        if not root.start + base <= edit.start <= root.end + base:
            continue
        for statement in _in_turn(body.statements, edit.start - base):
            draft = inserted_before(statement, edit.text.strip(), change.note, change.role)
            there = Change(change.operator, draft.edits, "insertion", change.role, _note(change))
            yield there, tuple(loop.start for loop in statement.loops)


def _in_turn(statements: Sequence[Statement], start: int) -> list[Statement]:
    """Statements that another one may stand before: from a byte on, then those that loops around it come back to."""
    some = sorted((one for one in statements if one.braced and one.kind != "block"), key=lambda one: one.start)
    back = [one for one in some if one.start < start and any(loop.start < start < loop.end for loop in one.loops)]
    return [*(one for one in some if one.start >= start), *back]


def _note(change: Change) -> str:
    """What is done, without where it was tried first."""
    return f"`{' '.join(change.edits[0].text.split())}` put before this line"
