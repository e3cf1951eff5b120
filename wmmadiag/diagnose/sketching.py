"""A search over what may stand anywhere: the places of a source in the order of their rank, each with all its fillings.

A place is as likely as the likeliest change of it that an operator makes. Of its fillings those of one tier are equally
likely: the more there are, the less each is. So whole tiers are tried in the order of a place's score less the
logarithm of their number, without a weight of their own; what is put together of two names comes when every place was
filled with what keeps its expression or is one name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.slots import Blank, alike, places
from wmmadiag.diagnose.ranking import Ranked, line_of
from wmmadiag.diagnose.search import Ledger, Tell, Tried
from wmmadiag.diagnose.trials.holes import MOST_HOLES, Filling, Sketch
from wmmadiag.diagnose.trials.trial_bench import TrialBench

Spans: TypeAlias = NDArray[np.float64]

FILLED = "filled"
"""The operator of a change that fills a place."""
_SLOTS = 640
"""Slots of one program."""
_AT_ONCE, _LEAST = 2048, 512
"""Fillings that are tried before the next are looked at, and at least so many where each is much work."""
_WORK = 1.0
"""As many times the warp instructions of an effort may be spent on those of one source, besides those of changes."""


@dataclass(frozen=True, slots=True)
class _Tier:
    far: int  # whether nothing of the expression is kept
    score: float  # of each of its fillings
    place: Blank
    fillings: Sequence[Filling]


_Group: TypeAlias = "list[tuple[Blank, dict[Filling, float]]]"
"""Places of one program, each with its fillings and their scores."""


class Sketches:
    """The places of a source with what may fill them, tried in the order of their likelihood.

    Args:
        program: what the bench's texts say.
        order: changes of it with their ranks.
    """

    def __init__(
        self, trials: TrialBench, program: Program, sources: Mapping[str, Source], order: Sequence[Ranked]
    ) -> None:
        self._trials, self._program, self._sources = trials, program, sources
        self._waiting = _tiers(program, order)
        self._count = self._work = 0  # of what was tried: fillings, warp instructions

    def tried(self, ledger: Ledger, tell: Tell, share: float) -> list[Tried]:
        """What fills some place so that something is mended, the likeliest first; it ends with what makes the case
        right.

        Args:
            share: of what the effort allows, up to which it goes.
        """
        effort = ledger.effort
        most, work = int(effort.filled * share), int(effort.instructions * _WORK * share)
        found: list[Tried] = []
        while self._waiting and self._count < most and self._work < work:
            part: list[_Tier] = []
            room = min(_AT_ONCE, most - self._count, max(_LEAST, ledger.worth(work - self._work)))
            while self._waiting and sum(len(one.fillings) for one in part) < room:
                part.append(self._waiting.pop(0))
            groups = _together(part)
            tell(f"trying what else could stand at {sum(map(len, groups)):,} places")
            found += self._part(groups, ledger)
            if any(one.outcome.verdict == "right" for one in found):
                break
        return sorted(found, key=lambda one: (one.outcome.verdict != "right", -one.ranked.score))

    def _part(self, groups: Sequence[_Group], ledger: Ledger) -> Iterator[Tried]:
        sketches = [Sketch(tuple(place.holes for place, _ in some), tuple(tuple(held) for _, held in some))
                    for some in groups]  # fmt: skip
        for answer, some in zip(self._trials.try_sketches(sketches), groups, strict=True):
            ledger.filled += answer.count
            ledger.filling += answer.work
            self._count += answer.count
            self._work += answer.work
            for hole, filling, outcome in answer.told:
                place, held = some[hole]
                draft = place.draft(filling)
                if self._program.may_change(draft.edits):
                    change = Change(FILLED, draft.edits, draft.kind, draft.role, draft.note)
                    ranked = Ranked(change, line_of(change, self._sources), held[filling])
                    yield Tried(ranked, replace(outcome, change=change))


def _tiers(program: Program, order: Sequence[Ranked]) -> list[_Tier]:
    """All tiers of all places, the likeliest first."""
    scores = Scores(order)
    found = []
    alone = list(places(program))
    for place in (*alone, *alike(alone)):
        known = [scores.of(one) for one in (place.expression, *place.others)]
        score = min((one for one in known if one is not None), default=None)
        if score is not None:
            found += [_Tier(far, score - math.log(len(some)), place, some)
                      for far, some in enumerate(place.tiers()) if some]  # fmt: skip
    return sorted(found, key=lambda one: (one.far, -one.score))


class Scores:
    """The scores of changes by where they are."""

    def __init__(self, order: Sequence[Ranked]) -> None:
        self._held: dict[str, tuple[Spans, Spans, Spans]] = {}
        rows: dict[str, list[tuple[int, int, float]]] = {}
        for one in order:
            if one.change.kind == "expression" and len(one.change.edits) == 1:
                edit = one.change.edits[0]
                rows.setdefault(edit.file, []).append((edit.start, edit.end, one.score))
        for file, held in rows.items():
            starts, ends, scores = zip(*held, strict=True)
            self._held[file] = np.array(starts, float), np.array(ends, float), np.array(scores, float)

    def of(self, one: Expression) -> float | None:
        """The best of the changes that are within an expression, or an equal share of what is known of the one around
        it: few operators change a number. None where there is nothing."""
        around = one.parent
        known = [self._within(one)]
        if around is not None and (whole := self._within(around)) is not None:
            known.append(whole - math.log(len(around.parts())))
        return max((each for each in known if each is not None), default=None)

    def _within(self, one: Expression) -> float | None:
        file, (start, end) = one.unit.file, one.whole
        if file not in self._held:
            return None
        starts, ends, scores = self._held[file]
        inside = scores[(starts >= start + one.unit.base) & (ends <= end + one.unit.base)]
        return float(inside.max()) if inside.size else None


def _place(one: tuple[Blank, object]) -> tuple[str, int, int]:
    hole = one[0].holes[0]
    return hole.file, hole.start, -hole.end


def _together(tiers: Sequence[_Tier]) -> list[_Group]:
    """Places that one program has, in the order of the text, with their fillings and scores."""
    by_place: dict[int, tuple[Blank, dict[Filling, float]]] = {}
    for tier in tiers:
        _, held = by_place.setdefault(id(tier.place), (tier.place, {}))
        held.update(dict.fromkeys(tier.fillings, tier.score))
    groups: list[_Group] = []
    slots = 0
    for one in sorted(by_place.values(), key=_place):
        size = len(one[0].slots) * len(one[0].holes)
        if not groups or slots + size > _SLOTS or len(groups[-1]) == MOST_HOLES:
            groups.append([])
            slots = 0
        groups[-1].append(one)
        slots += size
    return groups
