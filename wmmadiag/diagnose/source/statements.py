"""The statements of function bodies, as a flat list with links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.diagnose.source.model import Span, Statement, Token

_DEEP = 100
_JUMPS = frozenset({"break", "continue", "goto"})
_OPENERS = frozenset("([{")


class StatementReader:
    """Reads bodies into `found`. `match` holds the partner of each bracket; a body is a token range."""

    def __init__(self, text: str, tokens: Sequence[Token], match: Sequence[int], pragmas: Mapping[int, int]) -> None:
        self.text = text
        self.tokens = tokens
        self.match = match
        self.pragmas = pragmas
        self.found: list[Statement] = []

    def body(self, brace: int) -> int:
        """Index of the block whose `{` is token `brace`."""
        index = len(self.found)
        self._statement(brace, self._partner(brace, len(self.tokens)) + 1, -1, 0)
        return index

    def _partner(self, index: int, end: int) -> int:
        """Index of the token that closes a bracket, at most the last before `end`."""
        partner = self.match[index]
        return partner if index < partner < end else end - 1

    def _span(self, first: int, last: int) -> Span | None:
        if last <= first:
            return None
        start, end = self.tokens[first].offset, self.tokens[last - 1].end
        return Span(start, end, self.tokens[first].line, self.text[start:end], first, last)

    def _add(
        self,
        kind: str,
        first: int,
        last: int,
        parent: int,
        depth: int,
        *,
        head: int = 0,
        parts: tuple[Span | None, Span | None, Span | None] = (None, None, None),
        children: tuple[int, int] = (-1, -1),
        at: int = -1,
    ) -> int:
        """Put a statement into place `at` (reserved before its children), or at the end."""
        tokens = self.tokens
        last = max(last, first + 1)
        start, end = tokens[first].offset, tokens[last - 1].end
        statement = Statement(
            kind,
            self.pragmas.get(start, start),
            end,
            tokens[first].line,
            tokens[last - 1].line + tokens[last - 1].text.count("\n"),
            tokens[head - 1].end if head > first else end,
            first,
            last,
            *parts,
            *children,
            parent,
            depth,
        )
        if at < 0:
            self.found.append(statement)
            return len(self.found) - 1
        self.found[at] = statement
        return at

    def _reserve(self, first: int, parent: int, depth: int) -> int:
        return self._add("empty", first, first + 1, parent, depth)

    def _statement(self, first: int, end: int, parent: int, depth: int) -> int:
        """Read one statement that begins at token `first`; index after it."""
        tokens, text = self.tokens, self.tokens[first].text
        if depth > _DEEP:
            after = self._partner(first, end) + 1 if text in _OPENERS else first + 1
            self._add("expression", first, after, parent, depth)
            return max(after, first + 1)
        if text == "{":
            return self._block(first, end, parent, depth)
        if text in ("if", "for", "while", "switch"):
            opened = first + 1
            if opened < end and tokens[opened].text == "constexpr":
                opened += 1
            if opened < end and tokens[opened].text == "(":
                return self._governing(text, first, opened, end, parent, depth)
        if text == "do" and first + 1 < end:
            at = self._reserve(first, parent, depth)
            body = len(self.found)
            after = self._statement(first + 1, end, at, depth + 1)
            condition = None
            if after + 1 < end and tokens[after].text == "while" and tokens[after + 1].text == "(":
                close = self._partner(after + 1, end)
                condition = self._span(after + 2, close)
                after = close + 1
                after += after < end and tokens[after].text == ";"
            self._add(
                "do", first, after, parent, depth, head=first + 1, parts=(None, condition, None),
                children=(body, -1), at=at,
            )  # fmt: skip
            return after
        if text in ("case", "default") or (first + 1 < end and tokens[first + 1].text == ":" and _word(tokens[first])):
            index = first
            while index < end and tokens[index].text not in (":", ";", "{", "}"):
                index += 1
            after = index + 1 if index < end and tokens[index].text == ":" else max(index, first + 1)
            self._add("label", first, after, parent, depth)
            return after
        return self._simple(first, end, parent, depth)

    def _block(self, first: int, end: int, parent: int, depth: int) -> int:
        close = self._partner(first, end)
        at = self._reserve(first, parent, depth)
        index = first + 1
        while index < close:
            if self.tokens[index].text in (")", "]", "}"):
                index += 1
                continue
            index = self._statement(index, close, at, depth + 1)
        self._add("block", first, close + 1, parent, depth, head=first + 1, at=at)
        return close + 1

    def _governing(self, kind: str, first: int, opened: int, end: int, parent: int, depth: int) -> int:
        tokens = self.tokens
        close = self._partner(opened, end)
        at = self._reserve(first, parent, depth)
        parts: tuple[Span | None, Span | None, Span | None]
        if kind == "for":
            semicolons = self._top_level(opened + 1, close, ";")
            if len(semicolons) == 2:
                a, b = semicolons
                parts = (self._span(opened + 1, a), self._span(a + 1, b), self._span(b + 1, close))
            else:
                parts = (self._span(opened + 1, close), None, None)
        else:
            cut = [opened, *self._top_level(opened + 1, close, ";")][-1]
            parts = (None, self._span(cut + 1, close), None)
        body, orelse = -1, -1
        after = close + 1
        if after < end:
            body = len(self.found)
            after = self._statement(after, end, at, depth + 1)
        if kind == "if" and after + 1 < end and tokens[after].text == "else":
            orelse = len(self.found)
            after = self._statement(after + 1, end, at, depth + 1)
        self._add(kind, first, after, parent, depth, head=close + 1, parts=parts, children=(body, orelse), at=at)
        return after

    def _top_level(self, first: int, end: int, text: str) -> list[int]:
        found, index = [], first
        while index < end:
            token = self.tokens[index].text
            if token == text:
                found.append(index)
            elif token in _OPENERS and self.match[index] > index:
                index = self.match[index]
            index += 1
        return found

    def _simple(self, first: int, end: int, parent: int, depth: int) -> int:
        tokens, match = self.tokens, self.match
        at = self._reserve(first, parent, depth)
        index = first
        while index < end:
            text = tokens[index].text
            if text == ";":
                index += 1
                break
            if text == "}" and tokens[index].kind == "punct":
                break
            if text in _OPENERS and index < match[index] < end:
                if text == "{" and index > first and tokens[index - 1].text in (")", "mutable"):
                    self._block(index, end, at, depth + 1)  # a lambda's body
                index = match[index]
            index += 1
        index = max(index, first + 1)
        text = tokens[first].text
        kind = "empty" if text == ";" else "return" if text == "return" else "jump" if text in _JUMPS else "expression"
        self._add(kind, first, index, parent, depth, at=at)
        return index


def _word(token: Token) -> bool:
    return token.kind == "id" and token.text not in ("public", "private", "protected")
