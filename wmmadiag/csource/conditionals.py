"""Conditional parts of a source that no tree can hold whole: one branch is kept, the others are blanked in place.

The grammar takes `#if` between statements, declarations and members, with every branch in the tree. Where a branch cuts
through a construct (an `if (…) {` in each of two branches) no tree has both; the branch that the compiler would take is
kept then, as far as the source's own macros tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.csource.lexical import Macro, Span, blank

_DIRECTIVE = re.compile(rb"[ \t]*(?:#|%:)[ \t]*(\w+)(.*)", re.DOTALL)
_PAIRS = {ord(b")"): ord(b"("), ord(b"]"): ord(b"["), ord(b"}"): ord(b"{")}


@dataclass(slots=True)
class Group:
    """One `#if … #endif`.

    Attributes:
        heads: (start, end, keyword, condition) of each of its directives, `#endif` last.
    """

    heads: list[tuple[int, int, str, str]] = field(default_factory=list)

    @property
    def start(self) -> int:
        """Offset of its `#if`."""
        return self.heads[0][0]

    @property
    def end(self) -> int:
        """Offset after its `#endif`."""
        return self.heads[-1][1]

    def branches(self) -> Iterator[tuple[int, int]]:
        """(start, end) of what stands between its directives."""
        for one, following in zip(self.heads, self.heads[1:], strict=False):
            yield one[1], following[0]


def groups(data: bytes, spans: Sequence[Span]) -> list[Group]:
    """The complete conditional groups of a source, inner ones before those around them."""
    found: list[Group] = []
    open_ones: list[Group] = []
    for span in spans:
        if span.kind != "directive":
            continue
        match = _DIRECTIVE.match(data, span.start, span.end)
        if match is None:
            continue
        head = (span.start, span.end, match[1].decode(), " ".join(match[2].decode("utf-8", "replace").split()))
        if head[2] in ("if", "ifdef", "ifndef"):
            open_ones.append(Group([head]))
        elif head[2] in ("elif", "else", "elifdef", "elifndef") and open_ones:
            open_ones[-1].heads.append(head)
        elif head[2] == "endif" and open_ones:
            open_ones[-1].heads.append(head)
            found.append(open_ones.pop())
    return found


def cuts_through(code: bytes, group: Group) -> bool:
    """Whether some branch opens or closes more brackets than it closes or opens."""
    return any(not _balanced(code[start:end]) for start, end in group.branches())


def _balanced(code: bytes) -> bool:
    open_ones: list[int] = []
    for letter in code:
        if letter in b"([{":
            open_ones.append(letter)
        elif letter in _PAIRS and (not open_ones or open_ones.pop() != _PAIRS[letter]):
            return False
    return not open_ones


def resolved(data: bytes, chosen: Sequence[Group], macros: Mapping[str, Macro]) -> bytes:
    """The text with one branch of each of these groups; all else of them is blanked."""
    text = bytearray(data)
    for group in chosen:
        kept = _taken(group, macros)
        for start, end, _, _ in group.heads:
            text[start:end] = blank(bytes(text[start:end]))
        for number, (start, end) in enumerate(group.branches()):
            if number != kept:
                text[start:end] = blank(bytes(text[start:end]))
    return bytes(text)


def _taken(group: Group, macros: Mapping[str, Macro]) -> int:
    """The number of the branch that the compiler takes, the first that it may take where that is not known."""
    for number, (_, _, word, condition) in enumerate(group.heads[:-1]):
        if word == "else" or _holds(word, condition, macros) is not False:
            return number
    return 0


def _holds(word: str, condition: str, macros: Mapping[str, Macro]) -> bool | None:
    if word in ("ifdef", "elifdef"):
        return True if condition in macros else None
    if word in ("ifndef", "elifndef"):
        return condition not in macros
    try:
        from pcpp import Evaluator
    except ImportError:  # pragma: no cover
        return None
    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", lambda found: str(int(found[1] in macros)), condition)
    known = {name: one.body for name, one in macros.items() if one.parameters is None}
    for _ in range(8):
        text = re.sub(r"[A-Za-z_]\w*", lambda found: known.get(found[0], found[0]), text)
    if re.search(r"[A-Za-z_]\w*(?<![0-9][uUlL])", re.sub(r"\b\d[\w']*", "0", text)):
        return None
    try:
        return bool(Evaluator()(text).value())
    except Exception:  # the library raises whatever its parser meets
        return None
