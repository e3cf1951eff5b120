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
_LONGEST_CONDITION = 4000
_PAIRS = {ord(b")"): ord(b"("), ord(b"]"): ord(b"["), ord(b"}"): ord(b"{")}


@dataclass(slots=True)
class Group:
    """One `#if … #endif`."""

    # (start, end, keyword, condition) of each of its directives, `#endif` last
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


def cutting(code: bytes, every: Sequence[Group]) -> list[Group]:
    """The groups of which some branch opens or closes more brackets than it closes or opens.

    `every`: as `groups` gives them. Linear in the source: of a group inside a branch, what it leaves open or closes
    counts alone.
    """
    found: list[Group] = []
    left: list[tuple[int, int, bytes]] = []  # of the groups before: start, end, unmatched brackets
    for group in every:
        inner: list[tuple[int, int, bytes]] = []
        while left and left[-1][0] > group.start:
            inner.append(left.pop())
        inner.reverse()
        branches = [_unmatched(code, start, end, inner) for start, end in group.branches()]
        if any(branches):
            found.append(group)
        left.append((group.start, group.end, _reduced(b"".join(branches))))
    return found


def _unmatched(code: bytes, start: int, end: int, inner: Sequence[tuple[int, int, bytes]]) -> bytes:
    """The brackets of a branch that have no partner in it."""
    pieces, position = list[bytes](), start
    for begin, after, brackets in inner:
        if start <= begin < end:
            pieces += [code[position:begin].translate(None, _NO_BRACKETS), brackets]
            position = after
    pieces.append(code[position:end].translate(None, _NO_BRACKETS))
    return _reduced(b"".join(pieces))


def _reduced(brackets: bytes) -> bytes:
    open_ones = bytearray()
    for letter in brackets:
        if open_ones and _PAIRS.get(letter) == open_ones[-1]:
            open_ones.pop()
        else:
            open_ones.append(letter)
    return bytes(open_ones)


_NO_BRACKETS = bytes(one for one in range(256) if one not in b"()[]{}")


def resolved(data: bytes, chosen: Sequence[Group], macros: Mapping[str, Macro], *, complete: bool = False) -> bytes:
    """The text with one branch of each of these groups; all else of them is blanked.

    Args:
        macros: those that are known.
        complete: whether these are all: a name that is none of them is then undefined, and a group may keep no branch.
    """
    text = bytearray(data)
    for group in chosen:
        kept = _taken(group, macros, complete)
        for start, end, _, _ in group.heads:
            text[start:end] = blank(bytes(text[start:end]))
        for number, (start, end) in enumerate(group.branches()):
            if number != kept:
                text[start:end] = blank(bytes(text[start:end]))
    return bytes(text)


def _taken(group: Group, macros: Mapping[str, Macro], complete: bool) -> int:
    """The number of the branch that the compiler takes, the first that it may take where that is not known."""
    for number, (_, _, word, condition) in enumerate(group.heads[:-1]):
        if word == "else" or _holds(word, condition, macros, complete) is not False:
            return number
    return -1 if complete else 0


def _holds(word: str, condition: str, macros: Mapping[str, Macro], complete: bool) -> bool | None:
    if word in ("ifdef", "elifdef"):
        return True if condition in macros else False if complete else None
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
        if len(text) > _LONGEST_CONDITION:
            return None
    text = re.sub(r"\b(\d[\d']*)[uUlL]+\b", r"\1", text)
    if complete:
        text = re.sub(r"\b[A-Za-z_]\w*", "0", text)
    if re.search(r"[A-Za-z_]\w*", re.sub(r"\b\d[\w']*", "0", text)):
        return None
    try:
        return bool(Evaluator()(text).value())
    except Exception:  # the library raises whatever its parser meets
        return None
