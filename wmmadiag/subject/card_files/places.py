"""Which line of a TOML text each key stands on.

`tomllib` gives values without places. This scanner runs after it, on text that is known to be valid, and so it only
needs to follow keys, brackets, strings and comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_SKIPPED = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE = re.compile(r"[\w-]*")
_SKIPPED_IN_LINE = re.compile(r"(?:[ \t]+|#[^\n]*)*")


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Line (1-based) of each key, table header and array element, by path: ("cases", 0, "S") → 17."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line = 1
        self.lines: dict[KeyPath, int] = {}
        self.array_tables: dict[KeyPath, int] = {}

    def peek(self, length: int = 1) -> str:
        return self.text[self.position : self.position + length]

    def advance(self, count: int = 1) -> str:
        taken = self.text[self.position : self.position + count]
        self.line += taken.count("\n")
        self.position += count
        return taken

    def skip(self, blanks: re.Pattern[str] = _SKIPPED) -> None:
        """Blanks and comments."""
        found = blanks.match(self.text, self.position)
        assert found is not None  # nothing is as good as a blank
        if found.end() > self.position:
            self.advance(found.end() - self.position)

    def document(self) -> None:
        table: KeyPath = ()
        while True:
            self.skip()
            if not self.peek():
                return
            if self.peek() == "[":
                table = self.header()
            else:
                self.pair(table)

    def header(self) -> KeyPath:
        line = self.line
        array = self.peek(2) == "[["
        self.advance(2 if array else 1)
        keys = self.keys()
        self.skip(_SKIPPED_IN_LINE)
        self.advance(2 if array else 1)
        path: KeyPath = ()
        for depth, key in enumerate(keys):
            path = (*path, key)
            if array and depth == len(keys) - 1:
                self.array_tables[path] = self.array_tables.get(path, -1) + 1
                self.lines.setdefault(path, line)
            if path in self.array_tables:
                path = (*path, self.array_tables[path])
        self.lines.setdefault(path, line)
        return path

    def keys(self) -> list[str]:
        found = []
        while True:
            self.skip(_SKIPPED_IN_LINE)
            if self.peek() in ("'", '"'):
                found.append(self.string())
            else:
                bare = _BARE.match(self.text, self.position)
                assert bare is not None  # no letter is as good as one
                self.advance(len(bare[0]) or 1)  # not valid TOML after all: never stand still
                found.append(bare[0] or self.text[self.position - 1 : self.position])
            self.skip(_SKIPPED_IN_LINE)
            if self.peek() != ".":
                return found
            self.advance()

    def pair(self, table: KeyPath) -> None:
        line = self.line
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.skip(_SKIPPED_IN_LINE)
        self.advance()  # =
        self.value(path)

    def value(self, path: KeyPath) -> None:
        self.skip(_SKIPPED_IN_LINE)
        self.lines.setdefault(path, self.line)
        if self.peek() == "[":
            self.advance()
            index = 0
            while True:
                self.skip()
                if self.peek() in ("]", ""):
                    self.advance()
                    return
                if self.peek() == ",":
                    self.advance()
                    continue
                self.value((*path, index))
                index += 1
        elif self.peek() == "{":
            self.advance()
            while True:
                self.skip()
                if self.peek() in ("}", ""):
                    self.advance()
                    return
                if self.peek() == ",":
                    self.advance()
                    continue
                self.pair(path)
        elif self.peek() in ("'", '"'):
            self.string()
        else:
            start = self.position
            while self.peek() and self.peek() not in ",]}#\n":
                self.advance()
            if self.position == start:
                self.advance()

    def string(self) -> str:
        quote = self.peek()
        fence = quote * 3 if self.peek(3) == quote * 3 else quote
        self.advance(len(fence))
        start = self.position
        while self.peek() and self.peek(len(fence)) != fence:
            self.advance(2 if quote == '"' and self.peek() == "\\" else 1)
        content = self.text[start : self.position]
        self.advance(len(fence))
        while len(fence) == 3 and self.peek() == quote:  # """" ends with a quote of its own
            self.advance()
        return content
