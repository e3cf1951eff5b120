"""Which of several failing cases changes are tried on: a small one in which all happens that happens in any of them.

In a case of one tile a mistake in what comes between tiles shows nothing, and whatever hides another mistake there
mends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.csource.dependences import Line
from wmmadiag.diagnose.watched import blocks_of, fresh, watched
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.card import Case

_LONGER, _SHORT = 4, 20_000
"""Times the warp instructions of the smallest case that another one may take, or so many."""


def most_telling(failed: Sequence[Case], baseline: Mapping[str, CaseRun]) -> Case:
    """The first failing case, or one that reaches lines that it does not.

    Args:
        failed: cases that fail in the same way, the smallest first; at least one.
        baseline: the cases as they ran.
    """
    most = max(_LONGER * _work(baseline[failed[0].name]), _SHORT)
    ended = [case for case in failed if baseline[case.name].verdict is not None]
    affordable = [case for case in ended if _work(baseline[case.name]) <= most]
    if len(affordable) < 2 or affordable[0] is not failed[0]:
        return failed[0]
    reached = {case.name: _lines(baseline[case.name]) for case in affordable}
    every = frozenset().union(*reached.values())
    return next((case for case in affordable if reached[case.name] == every), failed[0])


def _work(run: CaseRun) -> int:
    return run.result.warp_instructions


def _lines(run: CaseRun) -> frozenset[Line]:
    """The lines at which a run touches memory or waits at a barrier; none where that cannot be seen."""
    kernel = run.emulated
    if kernel is None or run.bound is None:
        return frozenset()
    watch = watched(fresh(run.bound), kernel, blocks_of(run.bound.launch))
    return frozenset(line for held in (watch.events, watch.barriers) for lines in held.values() for line in lines)
