"""The tokens of the active preprocessor branches of a source, and its macros."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.compile import lexer
from wmmadiag.diagnose.source.evaluate import evaluate, literal
from wmmadiag.diagnose.source.model import Number, Token

# Operators that the lexer gives letter by letter. `>>` is not among them: it may close two template lists.
_PAIRS = frozenset(
    {"<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", "<<"}
)
# What the compiler defines itself. The architecture is only asked for being at least something.
_PREDEFINED: Mapping[str, str] = {"__CUDACC__": "1", "__CUDA_ARCH__": "900", "__cplusplus": "201703L"}


@dataclass(frozen=True, slots=True)
class Read:
    """What the preprocessor leaves.

    Attributes:
        raw: tokens as the lexer gives them, directives and inactive branches dropped.
        tokens: the same with operators joined and lines.
        macros: object-like macros by name, their bodies as tokens.
        pragmas: offset of the first `#pragma` right before the token at an offset.
    """

    raw: Sequence[lexer.Token]
    tokens: Sequence[Token]
    macros: Mapping[str, Sequence[Token]]
    pragmas: Mapping[int, int]


def read_tokens(text: str, macros: Mapping[str, str | None]) -> Read:
    """Tokenise and preprocess; a condition that cannot be evaluated counts as true."""
    defined: dict[str, list[Token]] = {}
    for name, body in {**_PREDEFINED, **{k: "1" if v is None else v for k, v in macros.items()}}.items():
        defined[name] = join(lexer.tokenize(body), 0)
    given = frozenset(macros)
    active: list[lexer.Token] = []
    pragmas: dict[int, int] = {}
    pragma = -1
    # (is this branch taken, was one taken already, is what surrounds it taken)
    stack: list[tuple[bool, bool, bool]] = []
    live = True
    for token in lexer.tokenize(text):
        if token.kind != "directive":
            if live:
                if pragma >= 0:
                    pragmas[token.start] = pragma
                    pragma = -1
                active.append(token)
            continue
        what, argument = lexer.directive(token)
        if what in ("if", "ifdef", "ifndef"):
            taken = live and _holds(what, argument, defined)
            stack.append((taken, taken, live))
            live = taken
        elif what in ("elif", "else", "elifdef", "elifndef") and stack:
            _, before, around = stack[-1]
            taken = around and not before and (what == "else" or _holds(what[2:], argument, defined))
            stack[-1] = (taken, before or taken, around)
            live = taken
        elif what == "endif" and stack:
            live = stack.pop()[2]
        elif live and what == "define":
            match = re.match(r"([A-Za-z_]\w*)(\()?", argument)
            if match is not None and match[2] is None and match[1] not in given:
                defined[match[1]] = join(lexer.tokenize(argument[match.end() :]), 0)
        elif live and what == "undef":
            defined.pop(argument, None)
        elif live and what == "pragma" and pragma < 0:
            pragma = token.start
    tokens = join(active, 1, text)
    return Read(active, tokens, defined, pragmas)


def join(tokens: Sequence[lexer.Token], line: int, text: str = "") -> list[Token]:
    """Tokens with operators of two characters as one token; `text` gives the lines."""
    found: list[Token] = []
    position, index, count = 0, 0, len(tokens)
    while index < count:
        token = tokens[index]
        start, spelling = token.start, token.text
        line += text.count("\n", position, start)
        position = start
        index += 1
        if token.kind == "punct":
            if spelling == "[[":
                found += [Token(start, line, "[", "punct"), Token(start + 1, line, "[", "punct")]
                continue
            if index < count and tokens[index].start == token.end and spelling + tokens[index].text in _PAIRS:
                follows = index + 1 < count and tokens[index + 1].start == tokens[index].end
                if not (spelling == "<" and tokens[index].text == "<" and follows and tokens[index + 1].text == "<"):
                    spelling += tokens[index].text
                    index += 1
        found.append(Token(start, line, spelling, token.kind))
    return found


def brackets(tokens: Sequence[Token]) -> list[int]:
    """For each bracket the index of its partner, -1 for all else and for brackets without one."""
    match = [-1] * len(tokens)
    stack: list[tuple[str, int]] = []
    for index, token in enumerate(tokens):
        text = token.text
        if text in _CLOSES:
            stack.append((_CLOSES[text], index))
        elif text in _OPENS and token.kind == "punct":
            depth = len(stack) - 1
            # A closing brace closes all that was opened inside; another bracket never closes over a brace.
            while depth >= 0 and stack[depth][0] != text:
                depth = -1 if text != "}" and stack[depth][0] == "}" else depth - 1
            if depth >= 0:
                opened = stack[depth][1]
                match[opened], match[index] = index, opened
                del stack[depth:]
    return match


_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = frozenset(")]}")


def _holds(what: str, argument: str, defined: Mapping[str, Sequence[Token]]) -> bool:
    name = argument.strip()
    if what in ("ifdef", "def"):
        return name in defined
    if what in ("ifndef", "ndef"):
        return name not in defined
    asked = re.sub(
        r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", lambda m: "1" if (m[1] or m[2]) in defined else "0", argument
    )

    def lookup(word: str, depth: int = 0) -> Number | None:
        if word not in defined:
            return 0
        return None if depth > 20 else evaluate(defined[word], lambda inner: lookup(inner, depth + 1))

    value = evaluate(join(lexer.tokenize(asked), 0), lookup)
    return value is None or bool(value)


def number(token: Token) -> Number | None:
    """The value of a literal token."""
    return literal(token.text) if token.kind == "num" else None
