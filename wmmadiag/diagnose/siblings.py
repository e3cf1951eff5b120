"""Whether a change makes a statement more like the statements beside it that are written alike.

What a programmer writes several times differs in one way at a time: `f(a0, x[0]); f(a1, x[1]);`. A token that departs
from all siblings, and agrees with them once changed, is likelier to be wrong; a statement that becomes the same as
another one, less likely to be right.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import TextEdit

_TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_STOPS = frozenset({b";", b"{", b"}"})
_BESIDE = 4
"""Statements on either side that are looked at."""
_LEAST = 5
"""Tokens of a statement that has siblings."""
_ALIKE = 0.6
"""Share of a statement's tokens that a sibling has, too."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements of a file."""

    starts: Sequence[int]  # where each begins
    ends: Sequence[int]
    tokens: Sequence[Counter[bytes]]


class Siblings:
    """The statements of some sources, read once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._files = {file: _statements(source.code.code) for file, source in sources.items()}
        self._texts = {file: source.code.code for file, source in sources.items()}
        self._near: dict[tuple[str, int], tuple[list[Counter[bytes]], int]] = {}

    def words(self, edits: Sequence[TextEdit]) -> Iterator[str]:
        """What a change of one statement does to its likeness to its siblings, in words that weights are given to."""
        file = edits[0].file
        held = self._files[file]
        number = bisect.bisect_right(held.starts, edits[0].start) - 1
        inside = number >= 0 and all(
            one.file == file and held.starts[number] <= one.start and one.end <= held.ends[number] for one in edits
        )
        near, was = self._siblings(file, number) if inside and any(one.start < one.end for one in edits) else ([], 0)
        if not near:
            return
        gone, come = Counter[bytes](), Counter[bytes]()
        for one in edits:
            gone.update(_TOKEN.findall(self._texts[file][one.start : one.end]))
            come.update(_TOKEN.findall(one.text.encode("utf-8", "surrogateescape")))
        after = held.tokens[number] + come
        after.subtract(gone)
        now = min(_apart(after, other) for other in near)
        if now == 0:
            yield "sibling:the same"
        else:
            yield f"sibling:{'nearer' if now < was else 'farther' if now > was else 'as near'}"
            yield f"sibling apart:{min(was, 6)} {'nearer' if now < was else 'farther' if now > was else 'as near'}"

    def _siblings(self, file: str, number: int) -> tuple[list[Counter[bytes]], int]:
        """The tokens of the statements near one that are written like it, and how far it is from the nearest."""
        if (file, number) not in self._near:
            held = self._files[file]
            own = held.tokens[number]
            size = own.total()
            around = [*range(max(0, number - _BESIDE), number), *range(number + 1, number + 1 + _BESIDE)]
            some = [held.tokens[at] for at in around if at < len(held.tokens)] if size >= _LEAST else []
            alike = [one for one in some if (own & one).total() >= _ALIKE * max(size, one.total())]
            self._near[file, number] = alike, min((_apart(own, one) for one in alike), default=0)
        return self._near[file, number]


def _apart(one: Counter[bytes], other: Counter[bytes]) -> int:
    """Tokens that one has and the other has not, the more of the two ways round."""
    return max((one - other).total(), (other - one).total())


def _statements(code: bytes) -> _Statements:
    """The statements of a text, as its stops part them."""
    starts, ends, tokens = [], [], []
    held: list[re.Match[bytes]] = []
    depth = 0
    for one in _TOKEN.finditer(code):
        text = one[0]
        depth += (text == b"(") - (text == b")")
        if text in _STOPS and depth <= 0:
            if held:
                starts.append(held[0].start())
                ends.append(held[-1].end())
                tokens.append(Counter(each[0] for each in held))
            held, depth = [], 0
        else:
            held.append(one)
    return _Statements(starts, ends, tokens)
