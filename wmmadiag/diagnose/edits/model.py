"""A change to a source as data, applied to a copy or shown as a diff."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Replace the source between two offsets by `text`; start == end inserts."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A candidate mend: one thought, in one place (a few changes where one alone makes no sense).

    Attributes:
        kind: name of the generator.
        hypothesis: the fault that it would mend, by id.
        line: 1-based line of the code that it is about.
        summary: what it does, one clause: "pass LDK as the leading dimension".
        changes: do not overlap.
        rank: 0 to 1; lower is more plausible.
        cause: what is wrong as it stands, where the change mends nothing else, one sentence; "" where it may.
    """

    kind: str
    hypothesis: str
    line: int
    summary: str
    changes: tuple[Change, ...]
    rank: float
    cause: str = ""


def apply(text: str, edit: Edit) -> str:
    """The source with the edit made.

    Raises:
        ValueError: changes overlap or lie outside the text.
    """
    pieces: list[str] = []
    position = 0
    for change in sorted(edit.changes, key=lambda c: (c.start, c.end)):
        if not position <= change.start <= change.end <= len(text):
            raise ValueError(f"the changes of {edit.kind!r} at line {edit.line} overlap or lie outside the source")
        pieces += [text[position : change.start], change.text]
        position = change.end
    return "".join([*pieces, text[position:]])


def diff(path: str, text: str, edit: Edit) -> str:
    """The edit as a unified diff with three lines of context, "" if it changes nothing."""
    before, after = _lines(text), _lines(apply(text, edit))
    lines = []
    for line in difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=3):
        lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, as patch(1) has it."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
