"""PTX text to tokens, with one regular expression.

A token is a plain string; its first character says what it is. An identifier takes its dotted parts with it
(`wmma.load.a.sync.aligned.row.m16n16k16.shared.f16`, `%tid.x`), a directive is one `.part`, a label keeps its colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place

_TOKEN = re.compile(
    r"""[ \t\r\f\v]*(?:
      (\n | //[^\n]* | /\*(?s:.*?)\*/ | @@[^\n]*)                       # new line, comments, @@DWARF lines of old tools
    | ( [A-Za-z_$%][\w$]*(?:\.[A-Za-z_]\w*(?:::\w+)*|\.\d\w*)*(?:[ \t]*:(?!:))?   # identifier, opcode, label
      | 0[fF][0-9A-Fa-f]{8}\b | 0[dD][0-9A-Fa-f]{16}\b                  # floats as bits
      | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+                     # decimal floats
      | 0[xX][0-9A-Fa-f]+U? | 0[bB][01]+U? | \d+U?                      # integers
      | \.[A-Za-z_]\w*(?:::\w+)*                                        # directive, type
      | "[^"\n]*"
      | <<|>>|<=|>=|==|!=|&&|\|\|
      | [][(){}<>,;@!|=+\-*/%&^~?:]
      )
    )""",
    re.VERBOSE | re.ASCII,
)

_MAX_INTEGER = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text and the 1-based line of each; both end with a sentinel token ""."""

    text: Sequence[str]
    line: Sequence[int]


def tokenize(source: str, *, name: str = "<ptx>") -> Tokens:
    """Split PTX text.

    Raises:
        PtxSyntaxError: a character that starts no token.
    """
    text: list[str] = []
    lines: list[int] = []
    line = 1
    position = 0
    match = _TOKEN.match
    end = len(source.rstrip())
    add, add_line = text.append, lines.append
    while position < end:
        found = match(source, position)
        if found is None:
            stripped = source[position:].lstrip(" \t\r\f\v")
            raise PtxSyntaxError(f"unexpected character {stripped[:1]!r}", place=Place(name, line))
        position = found.end()
        space, token = found.groups()
        if token:
            if token == "/" and source.startswith("*", position):
                raise PtxSyntaxError("a comment is not closed", place=Place(name, line))
            add(token)
            add_line(line)
        else:
            line += space.count("\n")
    add("")
    add_line(line)
    return Tokens(text, lines)


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
