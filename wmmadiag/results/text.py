"""Texts of users' files made safe to show: control characters become visible; places and diffs are taken apart."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# C0 and C1 controls but tab and line feed; marks that reorder text (Unicode Standard Annex 9; CVE-2021-42574); zero
# widths and line separators; lone surrogates and non-characters, which XML and UTF-8 refuse.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff]"
)
_COLOUR = re.compile("(\x1b\\[[0-9;]*m)")
_PLACE = re.compile(r"^(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?$", re.DOTALL)


def visible(text: str) -> str:
    r"""The text with what cannot be seen, or changes how the rest is seen, as \x1b or \u202e."""
    return _HIDDEN.sub(_named, text.replace("\r\n", "\n"))


def _named(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def visible_in_colour(text: str) -> str:
    """`visible`, but terminal colours stay (Select Graphic Rendition, ECMA-48 section 8.3.117)."""
    return "".join(part if _COLOUR.fullmatch(part) else visible(part) for part in _COLOUR.split(text))


def one_line(text: str) -> str:
    """`visible`, on one line."""
    return " ".join(visible(text).split())


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A place taken apart; `line` and `column` are 0 where they are not known."""

    file: str
    line: int = 0
    column: int = 0


def split_place(place: str) -> TextPlace:
    """ "file:line:column", "file:line" or "file"."""
    found = _PLACE.match(place)
    if found is None:
        return TextPlace(place)
    return TextPlace(found["file"], int(found["line"]), int(found["column"] or 0))


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a unified diff, without its first character."""

    kind: Literal["file", "hunk", "context", "removed", "added"]
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines of a file to replace: `removed` from line `first` on, by `added`."""

    file: str
    first: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def dedented(lines: Sequence[str]) -> list[str]:
    """Lines without the indentation that all have, tabs as 4 columns; for places where width is dear."""
    expanded = [line.expandtabs(4) for line in lines]
    common = min((len(line) - len(line.lstrip(" ")) for line in expanded if line.strip()), default=0)
    return [line[common:] for line in expanded]


_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def diff_lines(diff: str) -> list[DiffLine]:
    """A unified diff's lines by kind. Line counts of the hunks decide: a removed line may begin with "-- "."""
    found: list[DiffLine] = []
    old = new = 0
    for line in diff.splitlines():
        hunk = _HUNK.match(line)
        if old <= 0 and new <= 0:
            if hunk is not None:
                old, new = int(hunk[2] or 1), int(hunk[4] or 1)
            if line.strip():
                found.append(DiffLine("hunk" if hunk is not None else "file", line))
        elif line.startswith("-"):
            found.append(DiffLine("removed", line[1:]))
            old -= 1
        elif line.startswith("+"):
            found.append(DiffLine("added", line[1:]))
            new -= 1
        elif not line.startswith("\\"):  # "\ No newline at end of file"
            found.append(DiffLine("context", line[1:]))
            old, new = old - 1, new - 1
    return found


def edits(diff: str, file: str) -> list[Edit]:
    """A unified diff against one file as the smallest runs of lines to replace."""
    found: list[Edit] = []
    at = 0
    removed: list[str] = []
    added: list[str] = []

    def close() -> None:
        if removed or added:
            found.append(Edit(file, at - len(removed), tuple(removed), tuple(added)))
            removed.clear()
            added.clear()

    for line in diff_lines(diff):
        if line.kind == "hunk":
            close()
            header = _HUNK.match(line.text)
            assert header is not None
            # A hunk that removes nothing names the line before it.
            at = int(header[1]) + (header[2] == "0")
        elif line.kind == "context":
            close()
            at += 1
        elif line.kind == "removed":
            removed.append(line.text)
            at += 1
        elif line.kind == "added":
            added.append(line.text)
    close()
    return found


WIDTH = 80
"""Columns of a terminal that texts are made for."""


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Text in lines of at most `WIDTH` characters; words longer than that stay whole. `rest`: before later lines."""
    later = first if rest is None else rest
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def wrapped_line(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """The same of a text whose own line ends are none of its lines'."""
    return wrapped(one_line(text), first, rest)
