"""A C++ tokenizer that is enough to find declarations, directives and calls; it never fails.

Comments and blanks are dropped; a preprocessor directive, with its continuation lines, is one token. Offsets are
into the text as given, so that whatever is found can be replaced in place.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# ISO C++ [lex]: phases 3 and 4 simplified; trigraphs, and digraphs other than `%:`, are not recognised.
_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r\f\v]+|\\\r?\n)
  | (?P<newline>\n)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*(?:[\s\S]*?\*/|[\s\S]*\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\([\s\S]*?\)(?P=delimiter)")
  | (?P<str>(?:u8|[uUL])?"(?:\\[\s\S]|[^"\\\n])*"?)
  | (?P<char>(?:u8|[uUL])?'(?:\\[\s\S]|[^'\\\n])*'?)
  | (?P<num>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<id>[^\W\d][\w$]*|\$[\w$]*)
  | (?P<punct>::|->|\[\[|.)
    """,
    re.VERBOSE,
)
_DIRECTIVE = re.compile(
    r"""(?:\#|%:)(?:\\\r?\n | /\*(?:[\s\S]*?\*/|[\s\S]*\Z) | //(?:\\\r?\n|[^\n])* | "(?:\\.|[^"\\\n])*"? | [^\n])*""",
    re.VERBOSE,
)
_SPLICE = re.compile(r"\\\r?\n")
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)')


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `kind` is "id", "num", "str", "char", "punct" or "directive"; `text[start:end]` is its spelling."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`, in order. Never fails: what is not C++ becomes one-character "punct" tokens."""
    tokens: list[Token] = []
    position, at_line_start, size = 0, True, len(text)
    while position < size:
        if at_line_start and (text[position] == "#" or text.startswith("%:", position)):
            match = _DIRECTIVE.match(text, position)
            assert match is not None
            tokens.append(Token("directive", match[0], position, match.end()))
            position, at_line_start = match.end(), False
            continue
        match = _TOKEN.match(text, position)
        if match is None:  # a character that `.` does not take
            position += 1
            continue
        kind = match.lastgroup if match.lastgroup != "delimiter" else "raw"
        position = match.end()
        if kind == "newline":
            at_line_start = True
        elif kind not in ("blank", "comment"):
            at_line_start = False
            tokens.append(Token("str" if kind == "raw" else str(kind), match[0], match.start(), position))
    return tokens


def directive(token: Token) -> tuple[str, str]:
    """Name and argument of a directive token, continuation lines joined and comments removed: ("define", "A 1")."""
    text = _SPLICE.sub("", token.text.removeprefix("%:").removeprefix("#"))
    body = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text).strip()
    match = re.match(r"([A-Za-z_]*)\s*([\s\S]*)", body)
    assert match is not None
    return match[1], match[2].strip()


_CLOSERS = {"(": ")", "{": "}", "[": "]", "[[": "]"}


def closing(tokens: Sequence[Token], start: int) -> int:
    """Index of the bracket that closes `tokens[start]`, one of ( [ {; len(tokens) when there is none.

    Only brackets of the same kind count, since a macro may hide one of another kind; but none closes outside the
    braces that it was opened in.
    """
    opener = tokens[start].text
    closer = _CLOSERS[opener]
    opener = opener[0]
    depth, braces = 0, 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token.kind != "punct":
            continue
        text = token.text
        if text == opener:
            depth += 1
        elif text == "[[":
            depth += 2 if opener == "[" else 0
        elif text == closer:
            depth -= 1
            if depth <= 0:
                return index
        elif text == "{":
            braces += 1
        elif text == "}":
            braces -= 1
            if braces < 0:
                break
    return len(tokens)


def line_index(text: str) -> Callable[[int], tuple[int, int]]:
    """A function from offset to (line, column), both 1-based."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def locate(offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    return locate


def blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """`text` with the characters of each span but its line ends replaced by blanks: no line or column moves."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        start = max(start, position)
        if end <= start:
            continue
        pieces.append(text[position:start])
        pieces.append(re.sub(r"[^\r\n]", " ", text[start:end]))
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def spans_without(tokens: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of `start..end` between the preprocessor directives in it."""
    position = start
    for token in tokens:
        if token.kind == "directive" and start <= token.start < end:
            yield position, token.start
            position = token.end
    if position < end:
        yield position, end


def split_arguments(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts of a list between commas that stand outside brackets and template argument lists."""
    parts: list[Sequence[Token]] = []
    start, index = 0, 0
    while index < len(tokens):
        text = tokens[index].text
        if text in ("(", "[", "{"):
            index = min(closing(tokens, index), len(tokens) - 1)
        elif text == "<":
            index = max(_angle_close(tokens, index), index)
        elif text == ",":
            parts.append(tokens[start:index])
            start = index + 1
        index += 1
    parts.append(tokens[start:])
    return [part for part in parts if part]


def _angle_close(tokens: Sequence[Token], start: int) -> int:
    """Index of the `>` that closes the template argument list opened by `<` at `start`, or -1 if it is no such list."""
    if start == 0 or tokens[start - 1].kind != "id" or _adjacent(tokens, start, "<<"):
        return -1
    depth, index = 0, start
    while index < len(tokens):
        text = tokens[index].text
        if text == "(":
            index = closing(tokens, index)
        elif text in (";", "{", "}", ")", "&&", "="):
            return -1
        else:
            depth += (text == "<") - (text == ">")
            if depth == 0:
                return index
        index += 1
    return -1


def _adjacent(tokens: Sequence[Token], index: int, letters: str) -> bool:
    """Whether the tokens at `index` spell `letters` with no blank between."""
    part = tokens[index : index + len(letters)]
    if len(part) < len(letters):
        return False
    return all(token.text == letter for token, letter in zip(part, letters, strict=True)) and (
        part[-1].end - part[0].start == len(letters)
    )
