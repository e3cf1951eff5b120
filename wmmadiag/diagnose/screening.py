"""Of changes that mend one case alike: which mend other cases as well, tried there without checks.

At one size many names stand for one number. The changes that another size refutes are seldom worth the runs of a
confirmation, and what it leaves nearest to right is where a search for a second mistake sets out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.errors import WmmadiagError

if TYPE_CHECKING:
    from wmmadiag.diagnose.trials.outcomes import Outcome
    from wmmadiag.diagnose.trials.trial_bench import TrialBench
    from wmmadiag.subject.card import Case

_CASES = 2
_ENOUGH = 3
"""So few changes are confirmed anyway."""
_RIGHT = 0, 0.0
_ENDED = ("better", "same", "worse")


class Screen:
    """Tries changes that are right on one case on others.

    Args:
        others: further cases, those first that are wrong as the source stands.
    """

    def __init__(self, trials: TrialBench, others: Sequence[Case], ledger: Ledger) -> None:
        self._trials, self._others, self._ledger = trials, others[:_CASES], ledger
        self._benches: dict[str, TrialBench | None] = {}
        self._known: dict[tuple[str, Change], tuple[int, float]] = {}

    def holds(self, right: Sequence[Tried]) -> bool:
        """Whether one of the likeliest is right on all others; not where there are none."""
        some = sorted(right, key=lambda one: -one.ranked.score)[:_ENOUGH]
        every = [_RIGHT] * len(self._others)
        return bool(every) and every in self._ranks(some)

    def ordered(self, right: Sequence[Tried]) -> list[Tried]:
        """Those first that are right on others, too, then the nearest to it."""
        if len(right) <= _ENOUGH:
            return list(right)
        ranks = {id(one): found for one, found in zip(right, self._ranks(right), strict=True)}
        return sorted(right, key=lambda one: ranks[id(one)])

    def _ranks(self, some: Sequence[Tried]) -> list[list[tuple[int, float]]]:
        """How each fares on each other case that could be tried."""
        for case in self._others:
            new = [one.ranked.change for one in some if (case.name, one.ranked.change) not in self._known]
            bench = self._bench(case) if new and not self._ledger.spent else None
            if bench is not None:
                outcomes = bench.try_batch(new, looks=0)
                self._ledger.note(outcomes)
                self._known |= {
                    (case.name, change): _rank(outcome) for change, outcome in zip(new, outcomes, strict=True)
                }
        return [
            [self._known[key] for case in self._others if (key := (case.name, one.ranked.change)) in self._known]
            for one in some
        ]

    def _bench(self, case: Case) -> TrialBench | None:
        if case.name not in self._benches:
            try:
                self._benches[case.name] = self._trials.keeping(case=case)
            except (WmmadiagError, ValueError):
                self._benches[case.name] = None
        return self._benches[case.name]


def _rank(outcome: Outcome) -> tuple[int, float]:
    if outcome.verdict == "right":
        return _RIGHT
    return (1, -outcome.nearer) if outcome.verdict in _ENDED else (2, 0.0)
