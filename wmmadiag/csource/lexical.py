"""The few things that must be known of a source before it is parsed: comments, literals, directives, macros.

All of it works on bytes: offsets are those of the file, and of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

_OPAQUE = re.compile(
    rb"""(?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
    |(?P<string>"(?:\\.|[^"\\\n])*"?)
    |(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'?)
    |(?P<directive>\#(?:\\\r?\n|/\*.*?\*/|//[^\n]*|[^\n])*)""",
    re.DOTALL | re.VERBOSE,
)
_DEFINE = re.compile(
    rb"[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)(?P<parameters>\([^()]*\))?(?P<body>.*)", re.DOTALL
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a source that is no code by itself: kind is comment, raw, string, char or directive."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Macro:
    """A `#define`.

    Attributes:
        parameters: names, or None for an object-like macro; "..." for the variadic one.
        body: replacement text, comments and line continuations taken out.
        start, end: of the directive; `body_start`: offset of its first byte of replacement text.
    """

    name: str
    parameters: tuple[str, ...] | None
    body: str
    start: int
    end: int
    body_start: int


def spans(data: bytes) -> Iterator[Span]:
    """Comments, literals and directives in order; those inside a directive are part of it."""
    ended = 0
    for match in _OPAQUE.finditer(data):
        kind, start = match.lastgroup or "", match.start()
        if kind == "directive":
            begin = data.rfind(b"\n", 0, start) + 1
            if data[max(begin, ended) : start].strip(b" \t"):
                continue  # a # inside a line: an operator of some macro language, no directive
            start = max(begin, ended)
        yield Span("raw" if kind == "mark" else kind, start, match.end())
        ended = match.end()


def macros(data: bytes, known: Sequence[Span] = ()) -> dict[str, Macro]:
    """The macros that a source defines, the last definition of each name; `#undef` and conditions are not followed."""
    found: dict[str, Macro] = {}
    for span in known or spans(data):
        if span.kind != "directive":
            continue
        match = _DEFINE.match(data, span.start, span.end)
        if match is None:
            continue
        name = match["name"].decode()
        parameters = None
        if match["parameters"] is not None:
            inner = _plain(match["parameters"][1:-1])
            parameters = tuple(one.strip() for one in inner.split(",") if one.strip())
        body = match["body"]
        skipped = len(body) - len(body.lstrip(b" \t\\\r\n"))
        found[name] = Macro(name, parameters, _plain(body), span.start, span.end, match.start("body") + skipped)
    return found


def _plain(body: bytes) -> str:
    joined = re.sub(rb"\\\r?\n", b" ", body)
    return " ".join(_COMMENT.sub(b" ", joined).decode("utf-8", "replace").split())


@dataclass(frozen=True, slots=True)
class Code:
    """A source with everything that is no code blanked, byte for byte, so that patterns see code alone.

    Attributes:
        data: the source.
        spans: what is no code.
        code: as long as `data`; comments, literals' contents and directives are blanks (line ends stay).
        macros: that it defines, beside those given.
    """

    data: bytes
    code: bytes
    spans: Sequence[Span]
    macros: Mapping[str, Macro] = field(default_factory=lambda: MappingProxyType({}))


def code_of(data: bytes, known: Mapping[str, Macro] = MappingProxyType({})) -> Code:
    """The code of a source; `known` are macros of the headers that it includes."""
    pieces: list[bytes] = []
    position = 0
    opaque = tuple(spans(data))
    for span in opaque:
        pieces.append(data[position : span.start])
        text = data[span.start : span.end]
        keep = span.kind in ("string", "char", "raw") and len(text) > 1
        pieces.append(text[:1] + blank(text[1:-1]) + text[-1:] if keep else blank(text))
        position = span.end
    pieces.append(data[position:])
    return Code(data, b"".join(pieces), opaque, {**known, **macros(data, opaque)})


def blank(text: bytes) -> bytes:
    """As many blanks, line ends kept."""
    if b"\n" not in text and b"\r" not in text:
        return b" " * len(text)
    return re.sub(rb"[^\r\n]", b" ", text)
