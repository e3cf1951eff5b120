"""Calls, subscripts, assignments and ternaries of a token range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.source.model import Assignment, Call, Statement, Subscript, Ternary, Token
from wmmadiag.diagnose.source.variables import DeclarationReader

ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})
_NO_CALLS = frozenset({"if", "for", "while", "switch", "return", "sizeof", "alignas", "__align__", "decltype", "catch"})


def calls(first: int, last: int, tokens: Sequence[Token], reader: DeclarationReader) -> Iterator[Call]:
    """All calls, casts in function form included, those inside arguments too."""
    match = reader.match
    for index in range(first, last - 1):
        token = tokens[index]
        if token.kind != "id" or token.text in _NO_CALLS:
            continue
        opened, template = index + 1, ""
        if tokens[opened].text == "<":
            after = reader.angles(opened, last)
            if after < 0 or after >= last or tokens[after].text != "(":
                continue
            template = reader.span(opened + 1, after - 1).text
            opened = after
        if tokens[opened].text != "(" or not opened < match[opened] < last:
            continue
        close = match[opened]
        start = index
        while start >= first + 2 and tokens[start - 1].text == "::" and tokens[start - 2].kind == "id":
            start -= 2
        arguments = tuple(reader.span(a, b) for a, b in reader.split(opened + 1, close))
        yield Call(
            token.text, tokens[start].offset, tokens[close].end, token.line, token.offset, arguments, template, start,
            close + 1,
        )  # fmt: skip


def subscripts(first: int, last: int, tokens: Sequence[Token], reader: DeclarationReader) -> Iterator[Subscript]:
    """`a[i][j]`, `p->a[i]`, `(cast(p))[i]`; lambdas and attributes are none."""
    match = reader.match
    for index in range(first + 1, last):
        if tokens[index].text != "[" or not index < match[index] < last:
            continue
        before = tokens[index - 1]
        if before.text == "]" or not (before.kind == "id" or before.text == ")"):
            continue
        indices, at = [], index
        while at < last and tokens[at].text == "[" and at < match[at] < last:
            indices.append(reader.span(at + 1, match[at]))
            at = match[at] + 1
        base = match[index - 1] if before.text == ")" and match[index - 1] >= first else index - 1
        while base >= first + 2 and tokens[base - 1].text in (".", "::") and tokens[base - 2].kind == "id":
            base -= 2
        name = before.text if before.kind == "id" else ""
        yield Subscript(
            name, reader.span(base, index), tuple(indices), tokens[base].offset, tokens[at - 1].end, tokens[base].line
        )


def assignments(
    index: int, statement: Statement, tokens: Sequence[Token], reader: DeclarationReader
) -> Iterator[Assignment]:
    """The assignments that an expression statement is: one, or several with commas between them."""
    first, last = statement.first, statement.last
    if last > first and tokens[last - 1].text == ";":
        last -= 1
    for start, end in _parts(first, last, tokens, reader.match):
        at = start
        while at < end:
            text = tokens[at].text
            if text in ASSIGNS and at > start:
                target, value = reader.span(start, at), reader.span(at + 1, end)
                if value:
                    yield Assignment(target, tokens[at], value, target.line, index)
                break
            if text in ("(", "[", "{") and at < reader.match[at] < end:
                at = reader.match[at]
            at += 1


def _parts(first: int, last: int, tokens: Sequence[Token], match: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The token ranges between the commas of an expression, those in brackets left out."""
    start = at = first
    while at < last:
        if tokens[at].text in ("(", "[", "{") and at < match[at] < last:
            at = match[at]
        elif tokens[at].text == ",":
            yield start, at
            start = at + 1
        at += 1
    yield start, last


def ternaries(first: int, last: int, tokens: Sequence[Token], reader: DeclarationReader) -> Iterator[Ternary]:
    """All `c ? a : b`, the condition reaching back to the bracket, comma, assignment or `return` before it."""
    for at in range(first, last):
        if tokens[at].text != "?":
            continue
        start, end = at, at + 1
        colon, depth = -1, 0
        while start > first and not _ends(tokens[start - 1]):
            partner = reader.match[start - 1]
            start = partner if first <= partner < start - 1 else start - 1
        while end < last:
            text = tokens[end].text
            if text in ("(", "[", "{") and end < reader.match[end] < last:
                end = reader.match[end]
            elif text in (";", ",", ")", "]", "}"):
                break
            elif text == "?":
                depth += 1
            elif text == ":":
                if depth == 0 and colon < 0:
                    colon = end
                elif depth == 0:
                    break
                else:
                    depth -= 1
            end += 1
        if colon > 0 and start < at and colon + 1 < end:
            yield Ternary(
                reader.span(start, at), reader.span(at + 1, colon), reader.span(colon + 1, end), tokens[at].line
            )


def _ends(token: Token) -> bool:
    return token.text in ("(", "[", "{", ",", ";", "}", "return", "?", ":") or token.text in ASSIGNS
