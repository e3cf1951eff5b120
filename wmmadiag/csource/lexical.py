"""The few things that must be known of a source before it is parsed: comments, literals, directives, macros.

All of it works on bytes: offsets are those of the file, and of the tree.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

# What a comment, a literal or a directive begins with; then what each is.
_BEGIN = re.compile(rb"""["'#]|/[/*]|%:""")
_COMMENTS = re.compile(rb"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_RAW = re.compile(rb'"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)', re.DOTALL)
_RAW_PREFIX = re.compile(rb"(?<![A-Za-z0-9_])(?:u8|[uUL])?R$")
_STRING = re.compile(rb'"(?:\\.|[^"\\\n])*"?', re.DOTALL)
_CHAR = re.compile(rb"'(?:\\.|[^'\\\n])*'?", re.DOTALL)
_DIRECTIVE = re.compile(
    rb"""(?:\#|%:)(?:\\\r?\n|/\*.*?(?:\*/|\Z)|//(?:\\\r?\n|[^\n])*|"(?:\\.|[^"\\\n])*"?|[^\n])*""",
    re.DOTALL | re.VERBOSE,
)
_INCLUDING = re.compile(rb"#[ \t]*(include|include_next|import|if|elif)\b((?:\\\r?\n|[^\n])*)")
_DEFINING = re.compile(rb"#[ \t]*define[ \t]+([A-Za-z_]\w*)")
_HEX = b"0123456789abcdefABCDEF"
_DEFINE = re.compile(
    rb"[ \t]*(?:#|%:)[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)(?P<parameters>\([^()]*\))?(?P<body>.*)", re.DOTALL
)
_COMMENT = re.compile(rb'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a source that is no code by itself: kind is comment, raw, string, char or directive."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Macro:
    """A `#define`."""

    name: str
    parameters: tuple[str, ...] | None  # names, or None for an object-like macro; "..." for the variadic one
    body: str  # replacement text, comments and line continuations taken out
    # start, end: of the directive; `body_start`: offset of its first byte of replacement text
    start: int
    end: int
    body_start: int
    others: tuple[str, ...] = ()  # bodies of its other definitions, in branches of a conditional

    @property
    def bodies(self) -> tuple[str, ...]:
        """What it may stand for."""
        return (self.body, *self.others)


def spans(data: bytes) -> Iterator[Span]:
    """Comments, literals and directives in order; those inside a directive are part of it."""
    at, ended = 0, 0
    while (found := _BEGIN.search(data, at)) is not None:
        start, mark = found.start(), found[0]
        at = start + 1
        if mark in (b"#", b"%:"):
            begin = max(data.rfind(b"\n", 0, start) + 1, ended)
            if data[begin:start].strip(b" \t") or _joined_line(data, begin):
                continue  # a # inside a line: an operator of some macro language, no directive
            kind, start, end = "directive", begin, _end(_DIRECTIVE, data, start)
        elif mark == b'"':
            prefix = _RAW_PREFIX.search(data[max(ended, start - 4) : start])
            raw = _RAW.match(data, start) if prefix is not None else None
            if raw is not None and prefix is not None:
                kind, start, end = "raw", start - len(prefix[0]), raw.end()
            else:
                kind, end = "string", _end(_STRING, data, start)
        elif mark == b"'":
            if start and data[start - 1] in _HEX:
                continue  # between the digits of a number
            kind, end = "char", _end(_CHAR, data, start)
        else:
            kind, end = "comment", _end(_COMMENTS, data, start)
        yield Span(kind, start, end)
        at = ended = end


def _end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    match = pattern.match(data, start)
    return start + 1 if match is None else max(match.end(), start + 1)


def _joined_line(data: bytes, begin: int) -> bool:
    """Whether the line that begins here goes on from the one before it."""
    return data[max(0, begin - 3) : begin].rstrip(b"\r\n").endswith(b"\\") and data[begin - 1 : begin] == b"\n"


@dataclass(frozen=True, slots=True)
class Directive:
    """A preprocessor directive: its name and argument, continuation lines joined and comments out: "define", "A 1"."""

    name: str
    argument: str
    start: int
    end: int


def directives(data: bytes) -> Iterator[Directive]:
    """The directives of a source in order."""
    for span in spans(data):
        if span.kind == "directive":
            text = _plain(data[span.start : span.end]).lstrip("#%: ")
            name = _NAME.match(text)
            if name is not None:
                yield Directive(name[0], text[name.end() :].strip(), span.start, span.end)


def directives_at_line_starts(data: bytes) -> Iterator[Directive]:
    """The directives that include or ask a condition, comments and literals not told apart from code: several times
    faster, for sources in which it does no harm to take a directive in a comment for one."""
    for match in _INCLUDING.finditer(data):
        begin = data.rfind(b"\n", 0, match.start()) + 1
        if not data[begin : match.start()].strip(b" \t"):
            yield Directive(match[1].decode(), _plain(match[2]), begin, match.end())


def macros(data: bytes, known: Sequence[Span] = ()) -> dict[str, Macro]:
    """The macros that a source defines, the last definition of each name; `#undef` and conditions are not followed."""
    return _defined(
        match
        for span in known or spans(data)
        if span.kind == "directive" and (match := _DEFINE.match(data, span.start, span.end)) is not None
    )


def macros_at_line_starts(data: bytes, wanted: Container[str]) -> dict[str, Macro]:
    """Those macros that a source defines whose names are wanted, comments not told apart from code; as
    `directives_at_line_starts`."""
    return _defined(
        match
        for found in _DEFINING.finditer(data)
        if found[1].decode() in wanted
        and not data[(begin := data.rfind(b"\n", 0, found.start()) + 1) : found.start()].strip(b" \t")
        and (match := _DEFINE.match(data, begin, _end(_DIRECTIVE, data, found.start()))) is not None
    )


def joined(definitions: Iterable[Mapping[str, Macro]]) -> dict[str, Macro]:
    """The macros of several files, the last definition of each name, which knows of the others."""
    found: dict[str, Macro] = {}
    for one in (macro for defined in definitions for macro in defined.values()):
        found[one.name] = one if one.name not in found else replace(one, others=_others(one, found[one.name]))
    return found


def _others(one: Macro, before: Macro) -> tuple[str, ...]:
    return tuple(dict.fromkeys(body for body in (*one.others, *before.bodies) if body != one.body))


def _defined(matches: Iterable[re.Match[bytes]]) -> dict[str, Macro]:
    found: dict[str, Macro] = {}
    for match in matches:
        name = match["name"].decode()
        parameters = None
        if match["parameters"] is not None:
            inner = _plain(match["parameters"][1:-1])
            parameters = tuple(one.strip() for one in inner.split(",") if one.strip())
        body = match["body"]
        skipped = len(body) - len(body.lstrip(b" \t\\\r\n"))
        one = Macro(name, parameters, _plain(body), match.start(), match.end(), match.start("body") + skipped)
        found[name] = one if name not in found else replace(one, others=_others(one, found[name]))
    return found


def _plain(body: bytes) -> str:
    joined = re.sub(rb"\\\r?\n", b"", body)
    plain = _COMMENT.sub(lambda found: found[1] or b" ", joined)
    return " ".join(plain.decode("utf-8", "replace").split())


@dataclass(frozen=True, slots=True)
class Code:
    """A source with everything that is no code blanked, byte for byte, so that patterns see code alone."""

    code: bytes  # as long as the source; comments, literals' contents and directives are blanks (line ends stay)
    spans: Sequence[Span]  # what is no code
    # that it defines, beside those given
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
    return Code(b"".join(pieces), opaque, joined((known, macros(data, opaque))))


def readable_comments(data: bytes) -> bytes:
    """The source with comments in other encodings than UTF-8 in ASCII, byte for byte.

    Compilers take some of their bytes for the beginning of a character, and the line end after them, and with it the
    next line of code, for its rest.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = bytearray(data)
        for span in spans(data):
            if span.kind in ("comment", "directive"):
                text[span.start : span.end] = _ascii(data[span.start : span.end])
        return bytes(text)
    return data


def _ascii(part: bytes) -> bytes:
    try:
        part.decode("utf-8")
    except UnicodeDecodeError:
        return _COMMENTS.sub(lambda found: _NO_ASCII.sub(b"?", found[0]), part)
    return part


_NO_ASCII = re.compile(rb"[\x80-\xff]")
_ROUND = re.compile(rb"[()]")


def closing(code: bytes, start: int) -> int | None:
    """The offset after the bracket that closes the `(` which follows `start`, if one does; `code` has no literals."""
    at = start
    while at < len(code) and code[at : at + 1].isspace():
        at += 1
    if code[at : at + 1] != b"(":
        return None
    depth = 0
    for match in _ROUND.finditer(code, at):
        depth += 1 if match[0] == b"(" else -1
        if depth == 0:
            return match.end()
    return None


def blank(text: bytes) -> bytes:
    """As many blanks, line ends kept."""
    if b"\n" not in text and b"\r" not in text:
        return b" " * len(text)
    return re.sub(rb"[^\r\n]", b" ", text)
