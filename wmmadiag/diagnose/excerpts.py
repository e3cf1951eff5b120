"""Places as reports write them, the lines around them, and the lines of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wmmadiag.csource.nodes import ancestors, at
from wmmadiag.csource.tree import Source
from wmmadiag.place import Place
from wmmadiag.results.diagnosis import Excerpt

_AROUND = 3


def place_of(text: str) -> Place | None:
    """File and line of "file:line:column"."""
    parts = text.split(":")
    numbers = [part for part in parts[-2:] if part.isdigit()]
    return Place(":".join(parts[: len(parts) - len(numbers)]), int(numbers[0])) if numbers else None


def listed(lines: Sequence[tuple[str, int]]) -> str:
    """Lines as people name them: "a.cu:3, a.cu:7 and b.cu:9"."""
    names = [f"{Path(file).name}:{line}" for file, line in lines]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def excerpt(place: Place | None, other: Place | None) -> Excerpt | None:
    """Lines of the source around a place, as the user wrote them."""
    if place is None or not place.file:
        return None
    try:
        text = Path(place.file).read_text("utf-8-sig", "replace")
    except OSError:
        return None
    lines = text.split("\n")
    if not 0 < place.line <= len(lines):
        return None
    marked = [place.line]
    if other is not None and other.file == place.file and abs(other.line - place.line) <= 2 * _AROUND:
        marked.append(other.line)
    first = max(1, min(marked) - _AROUND)
    last = min(len(lines), max(marked) + _AROUND)
    return Excerpt(place.file, first, tuple(line.rstrip("\r") for line in lines[first - 1 : last]), tuple(marked))


def statement_lines(source: Source, start: int) -> tuple[int, int]:
    """First and last line of the statement or declaration that a byte belongs to; of its line where there is none."""
    node = at(source.root, start)
    for around in (node, *ancestors(node)):
        if around.type == "compound_statement":
            break
        if around.type in ("expression_statement", "declaration", "return_statement"):
            return source.place_at(around.start_byte).line, source.place_at(around.end_byte).line
    line = source.place_at(start).line
    return line, line
