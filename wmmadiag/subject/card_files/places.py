"""Which line of a TOML text each key stands on.

`tomllib` gives values without places. This scanner runs after it, on text that is known to be valid, and so it only
needs to follow keys, brackets, strings and comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

# Strings of several lines and of one, then brackets, signs and ends of lines, comments, and what stands in between.
_TOKEN = re.compile(
    r"'''.*?'''+|\"\"\"(?:\\.|[^\\])*?\"\"\"+|'[^']*'|\"(?:\\.|[^\"\\])*\""
    r"|[\[\]{}=,.\n]|#[^\n]*|[^\s\[\]{}=,.#\"']+",
    re.DOTALL,
)


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Line (1-based) of each key, table header and array element, by path: ("cases", 0, "S") → 17."""
    return _Scanner(text).lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._last: dict[KeyPath, int] = {}  # array of tables → index of the last one so far
        self._left: list[tuple[str, int]] = []  # tokens with their lines, the next one at the end
        line = 1
        for token in _TOKEN.findall(text):
            if not token.startswith("#"):
                self._left.append((token, line))
            line += token.count("\n")
        self._left.reverse()
        table: KeyPath = ()
        while self._left:
            if self._next() == "\n":
                self._left.pop()
            elif self._next() == "[":
                table = self._header()
            else:
                self._pair(table)

    def _next(self) -> str:
        """The token to be taken next, "" at the end."""
        return self._left[-1][0] if self._left else ""

    def _take(self) -> tuple[str, int]:
        return self._left.pop() if self._left else ("", 0)

    def _header(self) -> KeyPath:
        _, line = self._take()
        array = self._next() == "["
        if array:
            self._take()
        path: KeyPath = ()
        keys = self._keys()
        for depth, key in enumerate(keys, 1):
            path = (*path, key)
            if array and depth == len(keys):
                self.lines.setdefault(path, line)
                self._last[path] = self._last.get(path, -1) + 1
            if path in self._last:
                path = (*path, self._last[path])
        self.lines.setdefault(path, line)
        for _ in "]]" if array else "]":
            self._take()
        return path

    def _keys(self) -> list[str]:
        """The parts of a dotted key."""
        found = []
        while True:
            key, _ = self._take()
            found.append(key[1:-1] if key.startswith(("'", '"')) else key)
            if self._next() != ".":
                return found
            self._take()

    def _pair(self, table: KeyPath) -> None:
        line, path = self._left[-1][1], table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._take()  # =
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        opened, line = self._take()
        self.lines.setdefault(path, line)
        if opened == "[":
            for index in count():
                if self._closes("]"):
                    return
                self._value((*path, index))
        elif opened == "{":
            while not self._closes("}"):
                self._pair(path)
        else:  # a date and a number may be several tokens
            while self._next() not in (",", "]", "}", "\n", ""):
                self._take()

    def _closes(self, bracket: str) -> bool:
        """Whether a bracket comes next, ends of lines and commas aside; then it is taken."""
        while self._next() in (",", "\n"):
            self._take()
        closes = self._next() in (bracket, "")
        if closes:
            self._take()
        return closes
