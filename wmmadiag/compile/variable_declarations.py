"""The variables that statements declare, found without a full parse: types, extents and initialisers as tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wmmadiag.compile.host_code import split_arguments
from wmmadiag.compile.lexer import Token, closing

_NOT_TYPES = frozenset(
    {"return", "for", "if", "while", "else", "do", "switch", "case", "goto", "using", "typedef", "delete", "asm", "new"}
)
_SPECIFIERS = frozenset({"extern", "static", "const", "constexpr", "volatile", "register", "inline", "__shared__"})
_SPECIFIERS |= frozenset({"__device__", "__constant__", "__restrict__", "__restrict"})
_WITH_PARENS = frozenset({"__align__", "alignas", "__attribute__"})


@dataclass(frozen=True, slots=True)
class Variable:
    """One declared variable: `dims`, `initial` and `align` are the tokens of extents, initialiser and alignment."""

    name: str
    type: str
    pointer: bool
    specifiers: frozenset[str]
    dims: tuple[tuple[Token, ...], ...] = ()
    initial: tuple[Token, ...] = ()
    align: tuple[Token, ...] = ()


def variables(tokens: Sequence[Token]) -> Iterator[Variable]:
    """The variables that the statements of a function body declare, at any depth."""
    start = index = 0
    while index < len(tokens):
        text = tokens[index].text
        if text in ("(", "[") or (text == "{" and index > start and tokens[index - 1].text == "="):
            index = min(closing(tokens, index), len(tokens) - 1)
        elif text in (";", "{", "}"):
            if text == ";":
                yield from declared_in(tokens[start:index])
            start = index + 1
        index += 1


def declared_in(tokens: Sequence[Token]) -> Iterator[Variable]:
    """The variables of one declaration, without its semicolon; nothing of any other statement."""
    specifiers: set[str] = set()
    index = 0
    align: tuple[Token, ...] = ()
    type_words: list[str] = []
    while index < len(tokens):
        token = tokens[index]
        if token.text in _WITH_PARENS and index + 1 < len(tokens) and tokens[index + 1].text == "(":
            end = closing(tokens, index + 1)
            if token.text != "__attribute__":
                align = tuple(tokens[index + 2 : end])
            index = end + 1
            continue
        if token.text in _SPECIFIERS:
            specifiers.add(token.text)
        elif token.kind == "id" or token.text == "::":
            if token.text in _NOT_TYPES:
                return
            following = tokens[index + 1].text if index + 1 < len(tokens) else ""
            if type_words and type_words[-1] != "::" and following != "::" and following in ("", "=", "[", ",", "{"):
                break
            type_words.append(token.text)
        elif token.text == "<" and type_words:
            depth, end = 0, index
            while end < len(tokens):
                depth += (tokens[end].text == "<") - (tokens[end].text == ">")
                if depth == 0:
                    break
                end += 1
            type_words += [one.text for one in tokens[index : end + 1]]
            index = end
        elif token.text in ("*", "&") and type_words:
            break
        else:
            return
        index += 1
    if not type_words or index >= len(tokens):
        return
    written = re.sub(r" ?(::|<|>) ?", r"\1", " ".join(type_words))
    for part in split_arguments(tokens[index:]):
        variable = _declarator(part, written, frozenset(specifiers))
        if variable is None:
            return
        yield replace(variable, align=align)


def _declarator(tokens: Sequence[Token], type_: str, specifiers: frozenset[str]) -> Variable | None:
    index, pointers = 0, 0
    while index < len(tokens) and (tokens[index].text in ("*", "&") or tokens[index].text in _SPECIFIERS):
        pointers += tokens[index].text == "*"
        index += 1
    if index >= len(tokens) or tokens[index].kind != "id":
        return None
    name = tokens[index].text
    index += 1
    dims: list[tuple[Token, ...]] = []
    while index < len(tokens) and tokens[index].text == "[":
        end = closing(tokens, index)
        dims.append(tuple(tokens[index + 1 : end]))
        index = end + 1
    if index < len(tokens) and tokens[index].text not in ("=", "{"):
        return None
    initial = tuple(tokens[index + 1 :]) if index < len(tokens) and tokens[index].text == "=" else ()
    return Variable(name, type_, pointers == 1 and not dims, specifiers, tuple(dims), initial)
