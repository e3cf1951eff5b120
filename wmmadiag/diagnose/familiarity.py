"""How familiar the text around a change is: what stands nowhere else in a source is likelier to be wrong.

The naturalness of code (Hindle et al. 2012; of buggy code, Ray et al. 2016), with the source itself as its corpus:
which runs of three tokens are there, how often.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import TextEdit

_TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_RUN = 3
_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class _Tokens:
    texts: Sequence[bytes]
    starts: Sequence[int]
    ends: Sequence[int]


class Familiarity:
    """The runs of tokens of some sources, read once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._files: dict[str, _Tokens] = {}
        self._runs: Counter[tuple[bytes, ...]] = Counter()
        for file, source in sources.items():
            found = list(_TOKEN.finditer(source.code.code))
            one = _Tokens([held[0] for held in found], [held.start() for held in found], [held.end() for held in found])
            self._files[file] = one
            self._runs.update(_runs(one.texts))

    def of(self, edit: TextEdit) -> tuple[int, int]:
        """How many quarters of the runs that an edit takes away stand elsewhere too, and of those that it puts in."""
        held = self._files[edit.file]
        # Tokens that an edit touches go with it.
        first = bisect.bisect_right(held.ends, edit.start)
        last = bisect.bisect_left(held.starts, edit.end)
        old, new = list(held.texts[first:last]), _TOKEN.findall(edit.text.encode("utf-8", "surrogateescape"))
        while old and new and old[0] == new[0]:
            old, new, first = old[1:], new[1:], first + 1
        while old and new and old[-1] == new[-1]:
            old, new, last = old[:-1], new[:-1], last - 1
        before, after = held.texts[max(0, first - _RUN + 1) : first], held.texts[last : last + _RUN - 1]
        gone = _runs([*before, *old, *after])
        come = _runs([*before, *new, *after])
        lost = Counter(gone)
        elsewhere = sum(self._runs[one] > lost[one] for one in gone)
        known = sum(self._runs[one] > lost[one] for one in come)
        return _quarters(elsewhere, len(gone)), _quarters(known, len(come))


def _runs(tokens: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    return [tuple(tokens[at : at + _RUN]) for at in range(len(tokens) - _RUN + 1)]


def _quarters(count: int, of: int) -> int:
    return _QUARTERS * count // of if of else 0
