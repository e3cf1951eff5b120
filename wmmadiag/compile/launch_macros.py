"""Macros that launch kernels, expanded where host code uses them: `LAUNCH(64, a, b)` reads like the launch it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wmmadiag.compile.directives import macro_words, reaching
from wmmadiag.compile.lexer import Token, closing, directive, tokenize

_PASSES = 4  # macros that use macros
_LARGEST = 4 << 20  # characters of expanded text; beyond that nothing more is expanded
_LAUNCHES = re.compile(r"<<<|\bcudaLaunch\w+\b")
_DEFINITION = re.compile(r"([A-Za-z_]\w*)\(([^()]*)\)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...]
    body: str

    def expanded(self, arguments: list[str]) -> str | None:
        """The body for these arguments; None if their number does not fit."""
        variadic = self.parameters[-1:] == ("...",)
        named = self.parameters[:-1] if variadic else self.parameters
        if len(arguments) < len(named) or (not variadic and len(arguments) > len(named) and any(arguments)):
            return None
        values = dict(zip(named, arguments, strict=False))
        if variadic:
            values["__VA_ARGS__"] = ", ".join(arguments[len(named) :])
        body = re.sub(r"(?<!#)#\s*([A-Za-z_]\w*)", '""', self.body)
        body = re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), body)
        return re.sub(r"\s*##\s*", "", body)


def expand_launch_macros(text: str) -> str:
    """The text with invocations of macros that launch kernels replaced by what they stand for, lines kept.

    Never fails: what it does not understand stays as it is.
    """
    if not _LAUNCHES.search(text) or "define" not in text:
        return text
    macros = _launching(tokenize(text))
    for _ in range(_PASSES):
        expanded = _once(text, macros) if macros else text
        if expanded == text or len(expanded) > _LARGEST:
            break
        text = expanded
    return text


def _launching(tokens: list[Token]) -> dict[str, _Macro]:
    """Function-like macros whose expansion holds a launch; of several definitions, the first."""
    found: dict[str, _Macro] = {}
    direct = set()
    for token in tokens:
        if token.kind != "directive":
            continue
        what, argument = directive(token)
        match = _DEFINITION.match(argument) if what == "define" else None
        if match is None:
            continue
        body = " ".join(match[3].replace("\\\n", " ").replace("\\\r\n", " ").split())
        found.setdefault(match[1], _Macro(tuple(part.strip() for part in match[2].split(",") if part.strip()), body))
        if _LAUNCHES.search(body):
            direct.add(match[1])
    reached = reaching(macro_words(tokens), frozenset(direct)) if direct else frozenset()
    return {name: macro for name, macro in found.items() if name in reached}


def _once(text: str, macros: Mapping[str, _Macro]) -> str:
    tokens = tokenize(text)
    pieces, position, index = [], 0, 0
    while index + 1 < len(tokens):
        token = tokens[index]
        macro = macros.get(token.text) if token.kind == "id" and tokens[index + 1].text == "(" else None
        close = closing(tokens, index + 1) if macro is not None else 0
        if macro is None or close >= len(tokens):
            index += 1
            continue
        start, end = tokens[index + 1].end, tokens[close].start
        body = macro.expanded(_arguments(text[start:end]))
        if body is not None:
            lines = text.count("\n", token.start, tokens[close].end)
            pieces += [text[position : token.start], body, "\n" * lines]
            position = tokens[close].end
        index = close + 1
    return "".join([*pieces, text[position:]])


def _arguments(text: str) -> list[str]:
    """The parts between commas outside round brackets, as the preprocessor takes them."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [" ".join(part.split()) for part in [*parts, text[start:]]]
