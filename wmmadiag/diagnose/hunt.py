"""A search where the numbers are wrong: what it has tried, what is left, and what was held to every case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.bases import Base, Progress, affordable, confirmed_from
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.confirm import Confirmed
from wmmadiag.diagnose.evidence import compiled_lines
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.operators.places import Program, program
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.rivals import rivals_beside, rivals_in_memory
from wmmadiag.diagnose.screening import screened
from wmmadiag.diagnose.search import Tried, search
from wmmadiag.diagnose.sketching import Sketches
from wmmadiag.diagnose.sliding import slid
from wmmadiag.subject.card import Case, LaunchShape
from wmmadiag.subject.symbols import rendered_entries

_AGAIN = 0.5
"""Share of all changes that one round tries in search of one that mends every case, where others mend this one."""


@dataclass(slots=True)
class Hunt:
    """A search where the numbers are wrong, from a base, with what it has tried so far."""

    found: Examined
    base: Base
    cases: Sequence[Case]
    tell: Progress
    sources: Mapping[str, Source]
    order: Sequence[Ranked]  # changes that are yet to be tried, the likeliest first
    # launches that mend the case: with as many threads or more, and with fewer
    launched: Sequence[tuple[Tried, LaunchShape]]
    smaller: Sequence[tuple[Tried, LaunchShape]]
    tried: list[Tried] = field(default_factory=list)
    answers: list[Confirmed] = field(default_factory=list)
    sketches: Sketches | None = None  # of the base's source, once they were asked for
    wider: Sequence[Ranked] | None = None  # changes of the second round, once they were asked for
    pairs: set[Change] = field(default_factory=set)  # two changes at once that were tried
    followed: set[Change] = field(default_factory=set)  # what mends a good part, from which the search went on
    chosen: set[Change] = field(default_factory=set)  # what mends the case alone, and was tried where a condition holds
    left_behind: set[Change] = field(default_factory=set)  # what mends a part, from which it set out anew
    anew: Base | None = None  # from where it sets out in its place

    @property
    def mended(self) -> bool:
        """Whether something mends every case."""
        return any(one.right for one in self.answers)

    @property
    def settled(self) -> bool:
        """Whether something mends every case that hides nothing. Where the likeliest changes have nothing that is right
        with a size that no case asks for, the kernel is not made for it."""
        return any(one.right and not one.frail for one in self.answers)

    def program(self) -> Program:
        """What the base's texts say."""
        trials, bench = self.base.trials, self.found.bench
        entries = rendered_entries(bench.card, trials.case, bench.variant)
        return program(trials.texts, entries, compiled=compiled_lines(self.base.run))

    def places(self, order: Sequence[Ranked]) -> Sketches:
        """The places of the base's source that changes are of, to be filled."""
        return Sketches(self.base.trials, self.program(), self.sources, order)

    def look(self, order: Sequence[Ranked], most: int | None = None) -> bool:
        """Try changes in their order; whether one mends every case.

        Args:
            most: changes to try; None: until one is right, or nothing more may be tried.
        """
        ledger, before = self.found.ledger, len(self.tried)
        while True:
            tried = self.tried[before:]
            done = {one.ranked.change for one in tried}
            left = None if most is None else max(0, most - len(tried))
            more = search(self.base.trials, [one for one in order if one.change not in done], ledger, self.tell, left)
            more += rivals_beside(self.found, self.base, self.sources, more, order)
            mended = self._confirmed(more)
            # What mends this case and not every one says nothing of what was not tried.
            if mended or ledger.spent or not more or len(tried) + len(more) > ledger.effort.changes * _AGAIN:
                return mended

    def confirm(self, tried: Sequence[Tried]) -> bool:
        """Hold what is right of further changes to every case; whether one mends every case."""
        return self._confirmed([*tried, *rivals_beside(self.found, self.base, self.sources, tried, self.order)])

    def _confirmed(self, tried: Sequence[Tried]) -> bool:
        """Hold what makes the bench's case right to every case; whether one mends every case."""
        found, trials, ledger = self.found, self.base.trials, self.found.ledger
        right = [one for one in tried if one.outcome.verdict == "right"]
        right = slid(trials, rendered_entries(found.bench.card, trials.case, found.bench.variant), right, ledger)
        right = screened(trials, right, _others(found, self.base, self.cases), ledger)
        answers = confirmed_from(found, self.base, right, self.cases, self.tell, self.launched)
        self.launched = ()
        self.tried += tried
        self.answers += answers
        if answers and answers[0].firm and answers[0].waste and not self.base.kept and not ledger.spent:
            self.answers += self._instead_of(answers[0])
        return any(one.firm for one in answers)

    def _instead_of(self, best: Confirmed) -> list[Confirmed]:
        """What mends every case as well, of what meets in the memory that an answer does something for nothing in."""
        done = {one.ranked.change for one in self.tried}
        rivals = rivals_in_memory(self.found, self.base, self.sources, best, self.order, done)
        self.tried += rivals
        right = [one for one in rivals if one.outcome.verdict == "right"]
        some = [best.tried, *right] if right else []
        return confirmed_from(self.found, self.base, some, self.cases, self.tell, ())


def _others(found: Examined, base: Base, cases: Sequence[Case]) -> list[Case]:
    """The cases that ran, but for the bench's own: those that are wrong as the source stands first."""
    ran = [case for case in affordable(found, cases) if case.name != base.trials.case.name]
    return sorted(ran, key=lambda case: found.baseline[case.name].passed)
