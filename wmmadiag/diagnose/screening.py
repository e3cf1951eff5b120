"""Of changes that mend one case alike: which mend other cases as well, tried there without checks.

At one size many names stand for one number. The changes that another size refutes are seldom worth the runs of a
confirmation, and what it leaves nearest to right is where a search for a second mistake sets out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.errors import WmmadiagError

if TYPE_CHECKING:
    from wmmadiag.diagnose.trials.outcomes import Outcome
    from wmmadiag.diagnose.trials.trial_bench import TrialBench
    from wmmadiag.subject.card import Case

_CASES = 2
_ENOUGH = 3
"""So few changes are confirmed anyway."""
_ENDED = ("better", "same", "worse")


def screened(trials: TrialBench, right: Sequence[Tried], others: Sequence[Case], ledger: Ledger) -> list[Tried]:
    """Changes that are right on the bench's case: those first that are right on others, too, then the nearest to it.

    Args:
        others: further cases, those first that are wrong as the source stands.
    """
    if len(right) <= _ENOUGH:
        return list(right)
    ranks: dict[int, list[tuple[int, float]]] = {id(one): [] for one in right}
    for case in others[:_CASES]:
        if ledger.spent:
            break
        try:
            bench = trials.keeping(case=case)
        except (WmmadiagError, ValueError):
            continue
        outcomes = bench.try_batch([one.ranked.change for one in right], looks=0)
        ledger.note(outcomes)
        for one, outcome in zip(right, outcomes, strict=True):
            ranks[id(one)].append(_rank(outcome))
    return sorted(right, key=lambda one: ranks[id(one)])


def _rank(outcome: Outcome) -> tuple[int, float]:
    if outcome.verdict == "right":
        return 0, 0.0
    return (1, -outcome.nearer) if outcome.verdict in _ENDED else (2, 0.0)
