"""What no compiler is asked: sources that are nested or expand beyond reason, which would take it forever."""

from __future__ import annotations

import re

from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.sources import SourceFile
from wmmadiag.csource.expansion import sizes, uses
from wmmadiag.csource.lexical import closing, code_of
from wmmadiag.errors import CompileError
from wmmadiag.place import Place

MOST_TOKENS = 1 << 20
"""That one macro invocation may expand to: NVRTC takes a gigabyte and ten seconds for as many."""
DEEPEST = 1000
"""Nesting of braces, and of conditionals."""
_NOTED = MOST_TOKENS >> 10  # macros below this size are no danger,
_REPEATED = 64  # nor are those that repeat their arguments less often
_LONGEST_INVOCATION = 100_000
_BRACE = re.compile(rb"[{}]")


def check_limits(own: OwnFiles) -> None:
    """Refuse a source that is nested too deep, or whose macros expand to too much.

    Raises:
        CompileError: with the place.
    """
    for file in own.tree.files():
        _check_nesting(file)
    known = sizes(own.macros)
    large = sorted(name for name, size in known.items() if size.fixed > _NOTED or size.times > _REPEATED)
    if not large:
        return
    named = re.compile(rf"\b(?:{'|'.join(large)})\b")
    for file in own.tree.files():
        code = code_of(file.data).code.decode("latin-1")
        texts = [(0, code), *((one.start, one.argument) for one in file.directives if one.name in ("if", "elif"))]
        for start, text in texts:
            for match in named.finditer(text):
                invoked = text[match.start() : _invocation_end(text, match.end())]
                tokens = max((tokens for _, _, tokens in uses(invoked, known, own.macros)), default=0)
                if tokens > MOST_TOKENS:
                    raise _maze(file, start if start else match.start(), match[0])


def _invocation_end(text: str, start: int) -> int:
    """The offset after the arguments that follow a macro's name, if any do."""
    ended = closing(text[start : start + _LONGEST_INVOCATION].encode("latin-1", "replace"), 0)
    return start if ended is None else start + ended


def _maze(file: SourceFile, offset: int, name: str) -> CompileError:
    return CompileError(
        f"the macro {name} expands to more than {MOST_TOKENS:,} tokens here",
        place=_place(file, offset),
        hint="macros that each use another one twice double with every level: write a template or a loop instead",
    )


def _check_nesting(file: SourceFile) -> None:
    depth = 0
    for one in file.directives:
        depth += one.name in ("if", "ifdef", "ifndef")
        depth -= one.name == "endif"
        if depth > DEEPEST:
            raise _too_deep(file, one.start, "conditionals")
    if file.data.count(b"{") <= DEEPEST:
        return
    depth = 0
    code = code_of(file.data).code
    for match in _BRACE.finditer(code):
        depth = max(0, depth + (1 if match[0] == b"{" else -1))
        if depth > DEEPEST:
            raise _too_deep(file, match.start(), "braces")


def _too_deep(file: SourceFile, offset: int, what: str) -> CompileError:
    return CompileError(
        f"{what} are nested more than {DEEPEST:,} deep",
        place=_place(file, offset),
        hint="is this CUDA source? If a program wrote it, have it write fewer levels",
    )


def _place(file: SourceFile, offset: int) -> Place:
    begin = file.data.rfind(b"\n", 0, offset) + 1
    return Place(file.name, file.data.count(b"\n", 0, offset) + 1, offset - begin + 1)
