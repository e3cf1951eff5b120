"""The order of edits: how plausible each is by itself, how well it fits the rest of the source, and variety.

Code repeats itself: what an edit makes of a statement is far more plausible where its sibling statements read the
same (Hindle et al., "On the naturalness of software", 2012). So the tokens around each change are looked up in the
source, before and after.

Bad:
    dst[r] = src[(row0 + r) * N + c];    // rank 0.18, though three lines above read `src[(row0 + r) * K`

Good:
    dst[r] = src[(row0 + r) * K + c];    // rank 0.12, because the source has `row0 + r) * K + c`
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.source.model import SourceModel

MOST, MOST_AT_LINES, MOST_ANYWHERE = 40, 80, 150
"""Edits offered for named faults at named lines; for lines alone; and where no lines are named."""

_AROUND = 3  # tokens looked at on each side of a change
_GRAM = 4
_FIT = 0.06  # what full agreement with the rest of the source is worth
_SAME_KIND, _SAME_LINE = 0.0035, 0.004
_WORD = re.compile(r'[A-Za-z_]\w*|\d[\w.]*|"(?:\\.|[^"\\])*"|<<=?|>>=?|&&|\|\||->|::|[-+*/%&|^=!<>]=|\+\+|--|\S')


class Fit:
    """How often runs of tokens occur in a source."""

    def __init__(self, model: SourceModel) -> None:
        self._model = model
        self._texts = [token.text for token in model.tokens]
        self._counts: Counter[tuple[str, ...]] = Counter()
        for size in (3, _GRAM):
            columns = [self._texts[shift:] for shift in range(size)]
            self._counts.update(zip(*columns, strict=False))

    def gain(self, edit: Edit) -> float:
        """From -1 to 1: whether the source has elsewhere what stands there after the changes, rather than now."""
        if len(edit.changes) > 4:
            return 0.0
        total = 0.0
        for change in edit.changes:
            first = self._model.token_at(change.start)
            last = self._model.token_at(change.end)
            before = self._texts[max(first - _AROUND, 0) : first]
            following = self._texts[last : last + _AROUND]
            now = [*before, *self._texts[first:last], *following]
            then = [*before, *_WORD.findall(change.text), *following]
            if "\n" in change.text:
                return 0.0
            total += self._share(then, 0) - self._share(now, 1)
        return max(min(total / len(edit.changes), 1.0), -1.0)

    def _share(self, tokens: Sequence[str], own: int) -> float:
        """The share of runs that the source has more than `own` times."""
        seen = runs = 0
        for size in (3, _GRAM):
            for at in range(len(tokens) - size + 1):
                runs += 1
                seen += self._counts[tuple(tokens[at : at + size])] > own
        return seen / runs if runs else 0.0


_FITS: WeakKeyDictionary[SourceModel, Fit] = WeakKeyDictionary()


def _fit(model: SourceModel) -> Fit:
    if model not in _FITS:
        _FITS[model] = Fit(model)
    return _FITS[model]


def ordered(found: Iterable[Edit], model: SourceModel, most: int, *, spread: bool) -> tuple[Edit, ...]:
    """At most so many, the most plausible first, their ranks those of this order.

    Of one kind, or of one line where `spread`, not all come in a row.
    """
    fit = _fit(model)
    early = sorted(found, key=lambda e: (e.rank, e.line, e.kind, e.summary))[: 12 * most]
    scored = sorted(((e.rank - _FIT * fit.gain(e), e) for e in early), key=_key)
    kinds: Counter[str] = Counter()
    lines: Counter[int] = Counter()
    varied = []
    for score, edit in scored:
        varied.append((score + _SAME_KIND * kinds[edit.kind] + spread * _SAME_LINE * lines[edit.line], edit))
        kinds[edit.kind] += 1
        lines[edit.line] += 1
    best = sorted(varied, key=_key)[:most]
    return tuple(replace(edit, rank=round(min(max(score, 0.0), 1.0), 4)) for score, edit in best)


def _key(item: tuple[float, Edit]) -> tuple[float, int, str, str]:
    score, edit = item
    return score, edit.line, edit.kind, edit.summary
