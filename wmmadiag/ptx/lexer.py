"""PTX text to tokens, with one regular expression.

A token is a plain string; its first character says what it is. An identifier takes its dotted parts with it
(`wmma.load.a.sync.aligned.row.m16n16k16.shared.f16`, `%tid.x`), a directive is one `.part`, a label keeps its colon.

A token knows its line. Its column is found again where a message needs it: modules have millions of tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place

# One match is a token or the line ends up to the next one; blanks, comments and @@DWARF lines of old tools go along.
_TOKEN = re.compile(
    r"""[ \t\r\f\v]*(?:(?://|@@)[^\n]*)?
    ( \n+
    | [A-Za-z_$%][\w$]*(?:\.[A-Za-z_]\w*(?:::\w+)*|\.\d\w*)*(?:[ \t]*:(?!:))?   # identifier, opcode, label
    | \.[A-Za-z_]\w*(?:::\w+)*                                        # directive, type
    | 0[fF][0-9A-Fa-f]{8}\b | 0[dD][0-9A-Fa-f]{16}\b                  # floats as bits
    | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+                     # decimal floats
    | 0[xX][0-9A-Fa-f]+U? | 0[bB][01]+U? | \d+U?                      # integers
    | "(?:\\.|[^"\\\n])*"?                                             # perhaps not closed: it takes the whole line
    | <<|>>|<=|>=|==|!=|&&|\|\|
    | \S
    )""",
    re.VERBOSE | re.ASCII,
)
# Strings and comments of one line are matched so that what looks like a comment in them is none.
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)')
_NOT_NEWLINE = re.compile(r"[^\n]")
_ODD = re.compile(r"""[^\w\s$%.:@!|=+\-*/&^~?<>,;(){}"\[\]]""", re.ASCII)
_BLANK = re.compile(r"\s+|;|//[^\n]*|/\*(?s:.*?)\*/")
_WORD = re.compile(r"[\w.$%#<>/-]{1,40}", re.ASCII)
MALFORMED = "mend the line, or let the compiler write the PTX again: it writes none like this"
"""The next step for PTX that breaks the language."""
_KNOWN = frozenset("][(){}<>,;@!|=+-*/%&^~?:")

_MAX_INTEGER = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text and the 1-based line of each; both end with a sentinel token "".

    `source`: the text, without comments that span lines.
    """

    text: Sequence[str]
    line: Sequence[int]
    source: str = ""

    def column(self, index: int) -> int:
        """The 1-based column of a token."""
        line = self.line[index]
        lines = self.source.split("\n", line)
        before = index - bisect_left(self.line, line)
        if len(lines) < line or index >= len(self.text) - 1:
            return 0
        for found in _TOKEN.finditer(lines[line - 1] + "\n"):
            if before == 0:
                return found.start(1) + 1
            before -= 1
        return 0


def without_comments(source: str, *, name: str = "<ptx>") -> str:
    """The text with blanks for each comment that can span lines; all lines and columns stay.

    Raises:
        PtxSyntaxError: a comment is not closed.
    """
    if "/*" not in source:
        return source

    def blank(found: re.Match[str]) -> str:
        comment = found[0]
        if not comment.startswith("/*"):
            return comment
        if len(comment) < 4 or not comment.endswith("*/"):
            start = source.rfind("\n", 0, found.start()) + 1
            place = Place(name, source.count("\n", 0, start) + 1, found.start() - start + 1)
            raise PtxSyntaxError("a comment is not closed", place=place, hint="write the missing '*/'")
        return _NOT_NEWLINE.sub(" ", comment)

    return _COMMENT.sub(blank, source)


def tokenize(source: str, *, name: str = "<ptx>") -> Tokens:
    """Split PTX text.

    Raises:
        PtxSyntaxError: a character that starts no token.
    """
    source = without_comments(source, name=name) + "\n"
    text: list[str] = []
    lines: list[int] = []
    add, add_line = text.append, lines.append
    line = 1
    for token in _TOKEN.findall(source):
        if token[0] == "\n":
            line += len(token)
        else:
            add(token)
            add_line(line)
    end = lines[-1] if lines else 1
    add("")
    add_line(end)
    tokens = Tokens(text, lines, source)
    if _ODD.search(source):  # perhaps in a comment or string
        _refuse_odd(tokens, name)
    return tokens


def _refuse_odd(tokens: Tokens, name: str) -> None:
    for index, token in enumerate(tokens.text):
        if len(token) == 1 and token not in _KNOWN and not (token.isascii() and (token.isalnum() or token in "_$.")):
            place = Place(name, tokens.line[index], tokens.column(index))
            raise PtxSyntaxError(f"unexpected character {token!r}", place=place, hint=MALFORMED)


def parse_integer(token: str) -> int | None:
    """The value of an integer literal (decimal, 0x, 0b, octal; optional U), or None if it is not one."""
    digits = token[:-1] if token[-1:] in ("U", "u") else token
    try:
        if digits[:2] in ("0x", "0X", "0b", "0B"):
            value = int(digits, 0)
        elif len(digits) > 1 and digits[0] == "0":
            value = int(digits, 8)
        elif len(digits) < 24:
            value = int(digits)
        else:
            return None
    except ValueError:
        return None
    return value if 0 <= value <= _MAX_INTEGER else None


def check_begins(text: str, name: str) -> None:
    """Refuse what is no PTX at all before much of it is read.

    Raises:
        PtxSyntaxError: the text does not begin with `.version`.
    """
    at = 0
    while (blank := _BLANK.match(text, at)) is not None:
        at = blank.end()
    if not text.startswith(".version", at):
        word = _WORD.match(text, at)
        found = repr(word[0]) if word is not None else "the end" if at == len(text) else repr(text[at])
        place = Place(name, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        hint = "this is no PTX: that begins with `.version 8.0`, `.target sm_80` and `.address_size 64`"
        raise PtxSyntaxError(f"expected '.version', found {found}", place=place, hint=hint)
