"""Many changes in one source: each alternative hangs on a number that the program reads when it runs.

"Mutant schemata" (Untch, Offutt and Harrold, ISSTA 1993): one compilation serves every change in it. An expression
becomes `(selected == 17 ? new : old)`, a statement `if (selected == 17) { new } else { old }`, an insertion
`if (selected == 17) { new }`. Where edits are nested, the original around the inner one is what is selected inside.
A program of pairs reads two numbers, in the halves of the selector: any two of its changes are made together.

Each alternative stands on lines of its own, so that the compiler's message about it names the change. An alternative
takes the type of what it stands in for (`selector.h`); where it is of another kind, that line is an error.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lexical import spans
from wmmadiag.diagnose.changes import Change, TextEdit, Texts

HEADER = "wmmadiag_selector.h"
"""The name under which a program reads `selector.h` before its source."""
SELECTOR = "wmmadiag_selected"
"""The variable's name, in C++ and in PTX."""
OTHER_TYPE = "wmmadiag_trial::AnotherType"
"""What the compiler's message names where an alternative is of another type than what it stands in for."""

_SELECTED = (f"::{SELECTOR}",)
_SELECTED_OF_TWO = f"(::{SELECTOR} & 0xffffu)", f"(::{SELECTOR} >> 16)"
_LINE_END = re.compile(rb"\\?\r?\n\s*")


def selector_of(one: int, other: int) -> int:
    """What selects two changes of a program of pairs, by their numbers."""
    return one | other << 16


@cache
def header() -> bytes:
    """The text of `selector.h`."""
    return Path(__file__).with_name("selector.h").read_bytes()


@dataclass(frozen=True, slots=True)
class Lines:
    """Which changes the lines of a rendered file are about."""

    own: Mapping[int, int]  # line → number of the change whose alternative stands there, and nothing else
    # line → the original expression and the alternative that stands there, where it is one
    stands: Mapping[int, tuple[str, str]]
    # (first line, last line, numbers) of each place with alternatives, outer ones first
    around: tuple[tuple[int, int, tuple[int, ...]], ...]
    directives: frozenset[int]  # numbers of the changes in macros: a message about one is at the macro's use


@dataclass(frozen=True, slots=True)
class Schemata:
    """A source with alternatives."""

    edits: Mapping[str, tuple[ByteEdit, ...]]  # of each changed file: its outermost places with alternatives
    changes: Mapping[int, Change]  # in it, by their numbers; the numbers begin at 1
    left: tuple[Change, ...]  # changes that cross another one's edits: they need another program
    lines: Mapping[str, Lines]  # of each changed file


@dataclass(slots=True)
class _Site:
    start: int
    end: int
    form: str
    alternatives: list[tuple[int, str]] = field(default_factory=list)
    inner: list[_Site] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, bool, int]:
        return self.start, self.start != self.end, -self.end


def render(texts: Texts, changes: Sequence[Change], *, two: bool = False) -> Schemata:
    """All changes in one source.

    Args:
        changes: none of them static.
        two: the selector holds the numbers of two changes, see `selector_of`; else of one.

    Raises:
        ValueError: a static change, or an edit outside its file.
    """
    for change in changes:
        if change.kind == "static":
            raise ValueError(f"{change.note}: cannot hang on a value")
    placed, left = _placed(texts, changes)
    # Numbers in the order of the text: alternatives of one place follow each other.
    ordered = sorted(placed, key=lambda one: (one.edits[0].file, one.edits[0].start, one.edits[0].end))
    numbered = dict(enumerate(ordered, 1))
    made: dict[str, tuple[ByteEdit, ...]] = {}
    lines: dict[str, Lines] = {}
    for file in dict.fromkeys(edit.file for change in placed for edit in change.edits):
        sites: dict[tuple[int, int, str], _Site] = {}
        for number, change in numbered.items():
            for edit in change.edits:
                if edit.file == file:
                    key = (edit.start, edit.end, _form(change, edit))
                    site = sites.setdefault(key, _Site(*key))
                    site.alternatives.append((number, edit.text))
        writer = _Writer(texts[file], _SELECTED_OF_TWO if two else _SELECTED)
        made[file] = tuple(writer.outermost(_nested(list(sites.values()))))
        lines[file] = Lines(writer.own, writer.stands, tuple(sorted(writer.around)), frozenset(writer.in_directives))
    return Schemata(made, numbered, tuple(left), lines)


def _form(change: Change, edit: TextEdit) -> str:
    return "insertion" if edit.start == edit.end else change.kind


def _placed(texts: Texts, changes: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """The changes whose edits are disjoint, equal or nested, earlier ones first; and the others."""
    kept: dict[str, list[tuple[int, int, str]]] = {}
    placed, left = [], []
    for change in changes:
        wanted = []
        for edit in change.edits:
            if edit.file not in texts or not 0 <= edit.start <= edit.end <= len(texts[edit.file]):
                raise ValueError(f"{change.note}: bytes {edit.start} to {edit.end} of {edit.file} do not exist")
            wanted.append((edit.file, edit.start, edit.end, _form(change, edit)))
        if any(_crosses(kept.get(file, []), (start, end, form)) for file, start, end, form in wanted):
            left.append(change)
            continue
        placed.append(change)
        for file, *key in wanted:
            own = kept.setdefault(file, [])
            at = bisect.bisect_left(own, tuple(key))
            if at == len(own) or own[at] != tuple(key):
                own.insert(at, tuple(key))  # type: ignore[arg-type]
    return placed, left


def _crosses(others: Sequence[tuple[int, int, str]], one: tuple[int, int, str]) -> bool:
    """Whether an edit overlaps another one without one lying in the other, or is of another form in the same place."""
    start, end, form = one
    return any(
        a < start < b < end or start < a < end < b or (a == start and b == end and a != b and other != form)
        for a, b, other in others
    )


def _nested(sites: list[_Site]) -> list[_Site]:
    """The outermost sites in order, with those inside them."""
    top: list[_Site] = []
    open_ones: list[_Site] = []
    for site in sorted(sites, key=lambda one: one.order):
        while open_ones and not (site.end <= open_ones[-1].end and site.start < open_ones[-1].end):
            open_ones.pop()
        (open_ones[-1].inner if open_ones else top).append(site)
        if site.start != site.end:
            open_ones.append(site)
    return top


def directives(text: bytes) -> list[tuple[int, int]]:
    """(start, end) of the preprocessor directives of a text, in order."""
    return [(span.start, span.end) for span in spans(text) if span.kind == "directive"]


def inside(directives: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a part of the text lies in one of its directives."""
    before = bisect.bisect_left(directives, (start,))
    return before > 0 and end <= directives[before - 1][1]


class _Writer:
    """The rendered text of one file, and what its lines are about."""

    def __init__(self, text: bytes, selected: Sequence[str]) -> None:
        self.text = text
        self.selected = selected
        self.parts: list[bytes] = []
        self.line = 1
        self.own: dict[int, int] = {}
        self.stands: dict[int, tuple[str, str]] = {}
        self.around: list[tuple[int, int, tuple[int, ...]]] = []
        self.in_directives: set[int] = set()
        self._directives = directives(text)

    def outermost(self, sites: Sequence[_Site]) -> Iterator[ByteEdit]:
        """What stands in place of each of these; what lies between them stays."""
        position = 0
        for site in sites:
            self.line += self.text.count(b"\n", position, site.start)
            self._site(site)
            yield ByteEdit(site.start, site.end, b"".join(self.parts).decode("utf-8", "surrogateescape"))
            self.parts.clear()
            position = site.end

    def between(self, start: int, end: int, sites: Sequence[_Site]) -> None:
        """The original text from `start` to `end`, with these sites in it."""
        position = start
        for site in sites:
            self._write(self.text[position : site.start])
            self._site(site)
            position = site.end
        self._write(self.text[position:end])

    def _site(self, site: _Site) -> None:
        first = self.line
        directive = inside(self._directives, site.start, site.end)
        ending = b" \\\n" if directive else b"\n"
        mark = len(self.around)
        if site.form == "expression":
            self._expression(site, ending)
        else:
            self._statement(site, ending)
        numbers = tuple(number for number, _ in site.alternatives)
        self.around.insert(mark, (first, self.line, numbers))
        if directive:
            self.in_directives |= set(numbers)

    def _expression(self, site: _Site, ending: bytes) -> None:
        old = one_line(self.text[site.start : site.end])
        self._write(f"({self._any_of(site)} ? (".encode())
        for position, (number, text) in enumerate(site.alternatives):
            new = one_line(text.encode())
            types = f"decltype(({old})), decltype(({new})), {number}"
            stands = f"static_cast<::wmmadiag_trial::As<{types}>>({new})"
            last = position + 1 == len(site.alternatives)
            self._write(ending)
            self.own[self.line] = number
            self.stands[self.line] = old, new
            self._write(stands.encode() if last else f"{self._is(number)} ? {stands} :".encode())
        self._write(ending + b") : (")
        self.between(site.start, site.end, site.inner)
        self._write(b"))")

    def _statement(self, site: _Site, ending: bytes) -> None:
        self._write(f"{{ if ({self._any_of(site)}) {{".encode())
        for position, (number, text) in enumerate(site.alternatives):
            if len(site.alternatives) > 1:
                self._write(f"{' else' * (position > 0)} if ({self._is(number)}) {{".encode())
            self._write(ending)
            for line in text.encode().splitlines() or [b""]:
                self.own[self.line] = number
                self._write(line.removesuffix(b"\\") + ending)
            if len(site.alternatives) > 1:
                self._write(b"}")
        if site.form == "insertion":
            self._write(b"} }" + ending)  # what follows may be a directive, which begins a line
            return
        self._write(b"} else {" + ending)
        self.between(site.start, site.end, site.inner)
        # What ends a statement that is all of a macro stands where the macro is used.
        self._write((b";" if inside(self._directives, site.start, site.end) else b"") + ending + b"} }")

    def _is(self, number: int) -> str:
        return _one_of(f"{one} == {number}u" for one in self.selected)

    def _any_of(self, site: _Site) -> str:
        """Whether any of the place's changes is selected: one comparison per run of numbers."""
        return " || ".join(
            self._is(first) if count == 1 else _one_of(f"{one} - {first}u < {count}u" for one in self.selected)
            for first, count in _runs([number for number, _ in site.alternatives])
        )

    def _write(self, text: bytes) -> None:
        self.parts.append(text)
        self.line += text.count(b"\n")


def _one_of(tests: Iterable[str]) -> str:
    several = list(tests)
    return several[0] if len(several) == 1 else f"({' || '.join(several)})"


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield run[0], len(run)


def one_line(text: bytes) -> str:
    """Code on one line, without comments."""
    part = bytearray(text)
    for span in spans(text):
        if span.kind == "comment":
            part[span.start : span.end] = b" " * (span.end - span.start)
    return _LINE_END.sub(b" ", bytes(part)).decode("utf-8", "surrogateescape").strip()
