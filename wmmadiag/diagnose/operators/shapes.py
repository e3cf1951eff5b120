"""Statements as tokens, and which of them are written alike but for their names and numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program

_TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.']*|\.\d\w*)|(?P<text>\"(?:\\.|[^\"])*\")|(?P<mark>\S)",
    re.DOTALL,
)
_LONGEST, _SHORTEST = 90, 6
_LIKE = {"name": "leaf", "number": "leaf"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a statement: its kind ("name", "number", "text", "mark"), text and offset in the unit's tree."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.start + len(self.text.encode("utf-8", "surrogateescape"))


Tokens = tuple[Token, ...]


class Shapes:
    """The statements of a program that are neither short nor long, by what is left without names and numbers."""

    def __init__(self, program: Program) -> None:
        self._tokens: dict[int, Tokens] = {}
        self.groups: dict[tuple[str, ...], list[Statement]] = defaultdict(list)
        for body in program.bodies:
            for one in body.statements:
                if (
                    one.kind in ("block", "other")
                    or (one.parent is None and one.kind != "declaration")
                    or one.end - one.start > 900
                ):
                    continue
                tokens = tokenized(one)
                self._tokens[id(one)] = tokens
                if _SHORTEST <= len(tokens) <= _LONGEST:
                    self.groups[shape(tokens)].append(one)

    def tokens(self, one: Statement) -> Tokens:
        """The tokens of a statement; none of one that is too long."""
        return self._tokens.get(id(one), ())

    def like(self, one: Statement) -> list[Statement]:
        """The other statements of a statement's shape."""
        tokens = self.tokens(one)
        return [other for other in self.groups.get(shape(tokens), ()) if other is not one] if tokens else []


def shapes(program: Program) -> Shapes:
    """The shapes of a program."""
    return program.once(Shapes)


def tokenized(one: Statement) -> Tokens:
    """The tokens of a statement, comments left out, and of what declares and sets one variable its type."""
    start = _begin(one)
    data = one.unit.source.data[start : one.end]
    return tuple(
        Token(found.lastgroup, found[0].decode("utf-8", "surrogateescape"), start + found.start())
        for found in _TOKEN.finditer(data)
        if found.lastgroup is not None
    )


def _begin(one: Statement) -> int:
    if one.kind != "declaration" or len(one.declares) != 1 or one.declares[0].value is None:
        return one.start
    declared = one.declares[0]
    return one.start if declared.dimensions or declared.constant else declared.declarator.start_byte


def shape(tokens: Tokens) -> tuple[str, ...]:
    """What is left of tokens without names, numbers and texts: a name may stand where a number stands."""
    return tuple(one.text if one.kind == "mark" else _LIKE.get(one.kind, one.kind) for one in tokens)


def renaming(first: Tokens, second: Tokens) -> dict[str, str] | None:
    """The names and numbers of one in terms of the other; None where one of them stands for two."""
    found: dict[str, str] = {}
    for one, other in zip(first, second, strict=True):
        if one.kind != "mark" and found.setdefault(one.text, other.text) != other.text:
            return None
    return found


def renamed(one: Statement, tokens: Tokens, by: Mapping[str, str]) -> str:
    """The source of a statement's tokens with its names changed."""
    data = one.unit.source.data
    parts, position = [], tokens[0].start
    for token in tokens:
        parts.append(data[position : token.start])
        parts.append(by.get(token.text, token.text).encode("utf-8", "surrogateescape"))
        position = token.end
    parts.append(data[position : one.end])
    return b"".join(parts).decode("utf-8", "surrogateescape")


def leaves(statements: Sequence[Statement]) -> dict[int, Expression]:
    """The names, members and numbers of statements, by where they begin, and of a member where its own name does."""
    found: dict[int, Expression] = {}
    for statement in statements:
        for one in statement.all_parts():
            if one.kind in ("name", "literal"):
                found[one.start] = one
            elif one.kind == "member" and one.atom:
                found[one.end - len(one.operator)] = one
    return found


def made_of(one: Expression, token: str) -> str:
    """The text of a name, number or member with another token for its own, or for the member's name."""
    return one.text[: len(one.text) - len(one.operator)] + token if one.kind == "member" else token
