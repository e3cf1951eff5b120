"""How familiar the text around a change is: what stands nowhere else in a source is likelier to be wrong.

The naturalness of code (Hindle et al. 2012; of buggy code, Ray et al. 2016), with the source itself as its corpus:
which runs of three tokens are there, how often.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import TextEdit

_TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_NAME = re.compile(rb"[A-Za-z_]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOPS = frozenset({b";", b"{", b"}"})
_RUN = 3
_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class _SourceTokens:
    texts: Sequence[bytes]
    starts: Sequence[int]
    ends: Sequence[int]
    stops: Sequence[int]
    """Where statements end: at which tokens."""
    shape: tuple[bytes, ...]
    """What stands for each of them in a statement's shape."""

    def around(self, first: int, last: int) -> tuple[int, int]:
        """From which token to which the statement goes that holds some of them."""
        at = bisect.bisect_left(self.stops, first)
        end = bisect.bisect_left(self.stops, last)
        start = self.stops[at - 1] + 1 if at else 0
        return min(start, first), self.stops[end] if end < len(self.stops) else len(self.texts)


@dataclass(frozen=True, slots=True)
class _Changed:
    """Tokens `first` to `last` of a file, and what stands there instead."""

    first: int
    last: int
    old: Sequence[bytes]
    new: Sequence[bytes]


class Familiarity:
    """The runs of tokens of some sources, read once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._files: dict[str, _SourceTokens] = {}
        self._runs: Counter[tuple[bytes, ...]] = Counter()
        self._shapes: Counter[tuple[bytes, ...]] = Counter()
        self._names: Counter[bytes] = Counter()
        for file, source in sources.items():
            found = list(_TOKEN.finditer(source.code.code))
            texts = [held[0] for held in found]
            stops = [at for at, text in enumerate(texts) if text in _STOPS]
            shape = _shape(texts)
            self._files[file] = _SourceTokens(
                texts, [held.start() for held in found], [held.end() for held in found], stops, shape
            )
            self._runs.update(_runs(texts))
            self._names.update(texts)
            self._shapes.update(
                shape[start + 1 : stop] for start, stop in zip([-1, *stops], [*stops, len(texts)], strict=True)
            )
        self._last: tuple[TextEdit, _Changed] | None = None  # what was asked for last is asked for again

    def of(self, edit: TextEdit) -> tuple[int, int]:
        """How many quarters of the runs that an edit takes away stand elsewhere too, and of those that it puts in."""
        one = self._changed(edit)
        held = self._files[edit.file].texts
        before, after = held[max(0, one.first - _RUN + 1) : one.first], held[one.last : one.last + _RUN - 1]
        gone = _runs([*before, *one.old, *after])
        come = _runs([*before, *one.new, *after])
        held_runs = self._runs.get
        lost: dict[tuple[bytes, ...], int] = {}
        for run in gone:
            lost[run] = lost.get(run, 0) + 1
        elsewhere = sum(held_runs(one, 0) > lost[one] for one in gone)
        known = sum(held_runs(one, 0) > lost.get(one, 0) for one in come)
        return _quarters(elsewhere, len(gone)), _quarters(known, len(come))

    def words(self, edit: TextEdit) -> Iterator[str]:
        """What an edit makes of a statement's shape, and of one token, in words that weights are given to."""
        one = self._changed(edit)
        held = self._files[edit.file]
        start, stop = held.around(one.first, one.last)
        # What a token stands for hangs on the one behind it alone, and behind a statement is no parenthesis.
        same = max(start, one.first - 1)
        made = _shape([*held.texts[same : one.first], *one.new, *held.texts[one.last : one.last + 1]])
        made = made[: one.first - same + len(one.new)]
        come = (*held.shape[start:same], *made, *held.shape[one.last : stop])
        known = self._shapes.get(held.shape[start:stop], 0) > 1, self._shapes.get(come, 0) > 0
        yield f"shape:{'known' if known[0] else 'new'} to {'known' if known[1] else 'new'}"
        if len(one.old) == len(one.new) == 1:
            yield from self._token(one.old[0], one.new[0], held.texts[start:stop])

    def counting(self, edits: Sequence[TextEdit]) -> Iterator[str]:
        """Whether a statement's numbers count up further with a change, as in `f(a[0], a[1], a[2])`, or less far."""
        file, changed = edits[0].file, sorted((self._changed(one) for one in edits), key=lambda one: one.first)
        if not any(token.isdigit() for one in changed for token in (*one.old, *one.new)):
            return
        held = self._files[file]
        start, stop = held.around(changed[0].first, changed[-1].last)
        apart = bisect.bisect_left(held.stops, changed[0].first) != bisect.bisect_left(held.stops, changed[-1].last)
        if apart or any(one.file != file for one in edits):
            return
        new: list[bytes] = []
        at = start
        for one in changed:
            new += [*held.texts[at : one.first], *one.new]
            at = one.last
        before, after = _steps(held.texts[start:stop]), _steps([*new, *held.texts[at:stop]])
        if before != after:
            yield f"counting:{'further' if after > before else 'less'}"

    def _token(self, old: bytes, new: bytes, around: Sequence[bytes]) -> Iterator[str]:
        """What is told of one token that stands for another one, by the statement around it."""
        kinds = tuple("name" if _NAME.match(one) else "number" if one[:1].isdigit() else "sign" for one in (old, new))
        if kinds == ("sign", "sign"):
            yield f"token:{old.decode()} to {new.decode()}"
            return
        yield f"token:{kinds[0]} to {kinds[1]}"
        if kinds == ("number", "number"):
            yield f"number:{_relation(old, new)}"
        if kinds[1] == "name":
            yield f"name here:{new in around}"
            yield f"name uses:{_bucket(self._names[new])}"
        if kinds == ("name", "name"):
            mine, theirs = parts_of(old.decode("utf-8", "replace")), parts_of(new.decode("utf-8", "replace"))
            yield f"name parts:{min(2, len(mine & theirs))} of {min(3, len(mine | theirs))}"
            yield f"name again:{_bucket(self._names[old])}"

    def _changed(self, edit: TextEdit) -> _Changed:
        """The tokens that an edit takes away and puts in, without what stands at both ends of either."""
        if self._last is not None and self._last[0] is edit:
            return self._last[1]
        held = self._files[edit.file]
        # Tokens that an edit touches go with it.
        first = bisect.bisect_right(held.ends, edit.start)
        last = bisect.bisect_left(held.starts, edit.end)
        old, new = held.texts[first:last], _TOKEN.findall(edit.text.encode("utf-8", "surrogateescape"))
        head, tail = alike_at_the_ends(old, new)
        first, last = first + head, last - tail
        self._last = edit, _Changed(first, max(first, last), old[head : len(old) - tail], new[head : len(new) - tail])
        return self._last[1]


def alike_at_the_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """How many first ones of both are the same, and of the others how many last ones."""
    head, most = 0, min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _shape(tokens: Sequence[bytes]) -> tuple[bytes, ...]:
    """A statement's tokens with a letter for each name that is no function's, and for each number."""
    following = [*tokens[1:], b""]
    return tuple(
        b"v" if _NAME.match(one) and after != b"(" else b"0" if one[:1].isdigit() else one
        for one, after in zip(tokens, following, strict=False)
    )


def _steps(tokens: Sequence[bytes]) -> int:
    """How many of a statement's numbers are one more than the number before them."""
    numbers = [int(one) for one in tokens if one.isdigit()]
    return sum(other == one + 1 for one, other in pairwise(numbers))


def _relation(old: bytes, new: bytes) -> str:
    """How one number is made of another one."""
    try:
        one, other = (int(value.rstrip(b"uUlL"), 0) for value in (old, new))
    except ValueError:
        return "real"
    if one == 0 or other == 0:
        return "from nought" if one == 0 else "to nought"
    known = {1: "one more", -1: "one less"}.get(other - one)
    return known or ("times" if other % one == 0 else "part" if one % other == 0 else "other")


def _bucket(count: int) -> int:
    return min(count.bit_length(), 6)


@cache
def parts_of(name: str) -> frozenset[str]:
    """The parts that the last component of a name is written of: `ld` and `a` of `s.ld_a`."""
    plain = re.split(r"\.|->|::", name)[-1]
    return frozenset(part.lower() for part in _PARTS.findall(plain) if not part.isdigit())


def _runs(tokens: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    return [*zip(*(tokens[at:] for at in range(_RUN)), strict=False)]


def _quarters(count: int, of: int) -> int:
    return _QUARTERS * count // of if of else 0
