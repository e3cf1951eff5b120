"""Where a statement can be inserted in CUDA source: between statements, not inside one, and not under a bare `if`.

Only the text's structure is looked at: comments, literals, parentheses, braces and preprocessor lines. Nothing is
compiled; whoever inserts a statement compiles the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wmmadiag.compile.languages import is_c_family

_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|R\"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_LOOP = re.compile(r"\b(for|while|do)\b")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of source.

    Attributes:
        code: without comments and literals' contents, stripped.
        depth: open braces before it.
        conditions: open #if before it.
        starts: a statement can be inserted before it.
    """

    code: str
    depth: int
    conditions: int
    starts: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with braces: the line of its keyword, and that of its closing brace."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Structure:
    """`lines[n - 1]` is line n; `loops` are those with braces, inner ones first."""

    lines: tuple[Line, ...]
    loops: tuple[Loop, ...]

    def between(self, after: int, before: int) -> int:
        """The line before which a statement stands after line `after` and before line `before`, or 0.

        The least nested such place, and the last of these: outside of loops and branches that hold only one of them.
        """
        if not 0 < after < before <= len(self.lines):
            return 0
        places = [n for n in range(after + 1, before + 1) if self.lines[n - 1].starts]
        least = min(((self.lines[n - 1].conditions, self.lines[n - 1].depth) for n in places), default=None)
        return max((n for n in places if (self.lines[n - 1].conditions, self.lines[n - 1].depth) == least), default=0)

    def after(self, line: int) -> int:
        """The first line behind `line` before which a statement can be inserted, or 0."""
        return next((n for n in range(line + 1, len(self.lines) + 1) if self.lines[n - 1].starts), 0)

    def loop_end(self, lines: Sequence[int]) -> int:
        """The closing line of the innermost loop that holds all of these lines, where nothing else stands; or 0."""
        for loop in self.loops:
            if loop.first <= min(lines) and max(lines) <= loop.last:
                return loop.last if self.lines[loop.last - 1].starts else 0
        return 0


@lru_cache(maxsize=16)
def structure(text: str) -> Structure:
    """What stands where in a source."""
    code = _TOKENS.sub(lambda m: "\n" * m[0].count("\n") + ('""' if m[0][0] in "\"'R" else " "), text)
    lines, loops, opened = [], [], []
    depth = parentheses = conditions = 0
    last, pragma, continued, statement, statement_line = ";", False, False, "", 0
    for number, raw in enumerate(code.split("\n"), 1):
        line = raw.strip()
        if continued or line.startswith("#"):
            begins = not continued and not pragma and last in ";{}" and parentheses == 0
            lines.append(Line(line, depth, conditions, begins and line.startswith("#pragma")))
            word = line.lstrip("# \t")
            if not continued:
                conditions += word.startswith("if")
                conditions -= word.startswith("endif")
                pragma = pragma or word.startswith("pragma")
            continued = line.endswith("\\")
            continue
        starts = bool(line) and not pragma and last in ";{}" and parentheses == 0
        starts = starts and not re.match(r"(else|case|default)\b|while\s*\(.*\)\s*;|\)", line)
        lines.append(Line(line, depth, conditions, starts))
        for character in line + "\n":
            if character in "([":
                parentheses += 1
            elif character in ")]":
                parentheses = max(parentheses - 1, 0)
            elif character == "{":
                depth += 1
                opened.append((statement_line or number, _LOOP.search(statement) is not None and parentheses == 0))
            elif character == "}" and opened:
                depth -= 1
                first, is_loop = opened.pop()
                if is_loop:
                    loops.append(Loop(first, number))
            if character in "{};" and parentheses == 0:
                statement, statement_line = "", 0
            elif not character.isspace() or statement:
                statement += character
                statement_line = statement_line or number
        if line:
            last, pragma = line[-1] if depth else "?", False
    return Structure(tuple(lines), tuple(sorted(loops, key=lambda loop: loop.last - loop.first)))


def structure_of(path: str) -> Structure | None:
    """The structure of a CUDA source, or None when it cannot be read or is in another language."""
    if not is_c_family(path):
        return None
    try:
        return structure(Path(path).read_text("utf-8", "replace"))
    except (OSError, ValueError):
        return None
