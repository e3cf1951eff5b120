"""Holes: places of a source that are filled when the program runs, so that one compilation serves thousands of changes.

Program sketching (Solar-Lezama, 2008) with the search outside: a hole is an expression for which any of its slots may
stand, or two of them under an operator. A slot is an expression that can be named there. What fills which hole is in
the number that the program reads (`schemata.SELECTOR`): five bits of operator, nine of each slot, nine of the hole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.schemata import SELECTOR, one_line

MOST_HOLES = 511
ALONE = 0
"""The number of the operator that takes one slot as it is."""
OPERATORS: Mapping[str, int] = {
    "+": 1, "-": 2, "*": 3, "/": 4, "%": 5, "<<": 6, ">>": 7, "&": 8, "|": 9, "^": 10, "min": 11,
    "<": 12, "<=": 13, "==": 14, "!=": 15,
}  # fmt: skip
"""Between two slots; the numbers of `fillings.h`."""
TIMES = 24
"""The number of the operator that takes the first slot, a real number, `factor(…)` times; see there."""
_OCTAVE, _FINER, _HALF = 16, 256, 256
AND, OR = 4, 8
"""Added to the number of a comparison: the hole's own condition, and it; or it."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A place with what may stand there; one of several that are filled alike at once, or the only one."""

    file: str
    # the bytes that it takes the place of
    start: int
    end: int
    slots: tuple[str, ...]  # the first is what stands there


Filling = tuple[int, int, int]
"""The number of an operator, and two slots by their places; of `ALONE` the second does not count."""


def factor(filling: Filling) -> float:
    """By what `TIMES` multiplies: two to the power of sixteenths, the second number in parts of 256 of these."""
    _, first, second = filling
    return float(2.0 ** ((first - _HALF + (second - _HALF) / _FINER) / _OCTAVE))


def times(exponent: float) -> Filling:
    """The filling that multiplies by two to the power of `exponent`, to a part in 4,096 of it."""
    steps = round(exponent * _OCTAVE * _FINER)
    whole = min(max(steps // _FINER, -_HALF), _HALF - 1)
    return TIMES, whole + _HALF, min(max(steps - whole * _FINER, 0), _FINER - 1) + _HALF


UNMADE = Change("", (), "expression", "", "")
"""Stands for a change whose text is not made yet: of thousands of fillings few tell anything."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Holes of one program, and what each of them is filled with.

    Attributes:
        holes: those that are filled alike at once stand together, and have as many slots.
        fillings: of each of these groups.
    """

    holes: tuple[tuple[Hole, ...], ...]
    fillings: tuple[tuple[Filling, ...], ...]

    def wanted(self, has: Mapping[int, frozenset[int]]) -> list[tuple[int, Filling]]:
        """The fillings, each with its hole, that a program has the slots for; `has`: those of each hole in it."""
        return [
            (hole, filling)
            for hole, fillings in enumerate(self.fillings)
            for filling in fillings
            if hole in has and (filling[0] == TIMES or has[hole].issuperset(filling[1:]))
        ]


@dataclass(frozen=True, slots=True)
class Filled:
    """What became of a sketch."""

    count: int  # of fillings that were run
    work: int  # warp instructions
    # hole by its place, filling, outcome: of those that tell something, see `Outcome.tells`
    told: list[tuple[int, Filling, Outcome]]


def selector(hole: int, filling: Filling) -> int:
    """What the program reads to have a hole filled; holes count from 0."""
    operation, first, second = filling
    return operation | first << 5 | second << 14 | (hole + 1) << 23


@cache
def header() -> bytes:
    """The text of `fillings.h`."""
    return Path(__file__).with_name("fillings.h").read_bytes()


@dataclass(slots=True)
class Rendered:
    """A source with holes."""

    edits: dict[str, list[ByteEdit]] = field(default_factory=dict)  # of each file: its outermost holes
    # (file, line) → the hole and the slot that stand there and nothing else
    own: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    around: list[tuple[str, int, int, int]] = field(default_factory=list)  # (file, first line, last line, hole)


def render(texts: Texts, holes: Mapping[int, tuple[Sequence[Hole], Sequence[int]]]) -> Rendered:
    """All holes in one source. Holes may lie in each other; none crosses another one.

    Args:
        holes: by their numbers, with the slots that they still have, without the first.
    """
    made = Rendered()
    every = [_Numbered(hole, number, slots) for number, (alike, slots) in holes.items() for hole in alike]
    for file in dict.fromkeys(one.hole.file for one in every):
        inside = [one for one in every if one.hole.file == file]
        inside.sort(key=lambda one: (one.hole.start, -one.hole.end, one.number))
        _Writer(texts[file], file, inside, made).all()
    return made


@dataclass(frozen=True, slots=True)
class _Numbered:
    hole: Hole
    number: int  # those that are filled alike have the same
    slots: Sequence[int]


class _Writer:
    def __init__(self, text: bytes, file: str, holes: Sequence[_Numbered], made: Rendered) -> None:
        self.text, self.file, self.holes, self.made = text, file, holes, made
        self.line = 1
        self.parts: list[bytes] = []

    def all(self) -> None:
        """Every hole of the file, outer ones before those inside them."""
        edits = self.made.edits.setdefault(self.file, [])
        position, at = 0, 0
        while at < len(self.holes):
            hole = self.holes[at].hole
            self.line += self.text.count(b"\n", position, hole.start)
            at = self._hole(at)
            edits.append(ByteEdit(hole.start, hole.end, b"".join(self.parts).decode("utf-8", "surrogateescape")))
            self.parts.clear()
            position = hole.end

    def _hole(self, at: int) -> int:
        """One hole with those inside it; the place of the next one."""
        hole, number, slots = self.holes[at].hole, self.holes[at].number, self.holes[at].slots
        first = self.line
        own = one_line(self.text[hole.start : hole.end])
        mark = len(self.made.around)
        self._write(f"((::{SELECTOR} >> 23) == {number + 1}u ? ::wmmadiag_trial::filled<decltype(({own}))>(")
        self._write("[&](int at_) -> ::wmmadiag_trial::Number { switch (at_) { default: return ")
        self._write(f"::wmmadiag_trial::number({hole.slots[0]});")
        for slot in slots:
            self._write("\n")
            self.made.own[self.file, self.line] = number, slot
            self._write(f"case {slot}: return ::wmmadiag_trial::number({hole.slots[slot]});")
        self._write("\n}}) : (")
        position, at = hole.start, at + 1
        while at < len(self.holes) and self.holes[at].hole.start < hole.end:
            inner = self.holes[at].hole
            self._write(self.text[position : inner.start].decode("utf-8", "surrogateescape"))
            position = inner.end
            at = self._hole(at)
        self._write(self.text[position : hole.end].decode("utf-8", "surrogateescape") + "))")
        self.made.around.insert(mark, (self.file, first, self.line, number))
        return at

    def _write(self, text: str) -> None:
        self.parts.append(text.encode("utf-8", "surrogateescape"))
        self.line += text.count("\n")


def blamed(errors: Sequence[Diagnostic], rendered: Rendered) -> tuple[set[tuple[int, int]], set[int]]:
    """The slots that messages name; and the holes that others are in, the innermost of each."""
    slots: set[tuple[int, int]] = set()
    holes: set[int] = set()
    for error in errors:
        place = error.place.file, error.place.line
        if place in rendered.own:
            slots.add(rendered.own[place])
            continue
        around = [hole for file, first, last, hole in rendered.around if file == place[0] and first <= place[1] <= last]
        holes |= {around[-1]} if around else set()
    return slots, holes
