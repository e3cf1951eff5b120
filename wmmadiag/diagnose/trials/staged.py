"""Trials of a kernel that does not end: how much work its changes need is not known before one of them ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wmmadiag.emulator.trials import TrialLaunch, TrialLimits, TrialResult

_FIRST, _MORE = 1 << 18, 8
"""Warp instructions of a launch at first, and how many times as many it may have next."""
FOR_ALL = 1 << 21
"""With more than so many, while nothing has ended, only a few are tried: they tell whether anything does."""
_FEW = 4


def staged(launch: TrialLaunch, selectors: Sequence[int], limits: TrialLimits, threads: int) -> list[TrialResult]:
    """As `TrialLaunch.run`, with a budget that grows until something ends, and then is a small multiple of that.

    Work of earlier stages counts. The answers depend on the selectors that are tried together, and on nothing else.
    """
    results: dict[int, TrialResult] = {}
    waiting = list(dict.fromkeys(selectors))
    budget, longest = min(_FIRST, limits.budget), 0
    while waiting:
        tried = waiting if longest or budget <= FOR_ALL else waiting[:_FEW]
        for selector, result in zip(tried, launch.run(tried, replace(limits, budget=budget), threads), strict=True):
            before = results[selector].instructions if selector in results else 0
            results[selector] = replace(result, instructions=before + result.instructions)
            if result.end == "finished":
                longest = max(longest, result.instructions)
        waiting = [one for one in waiting if results[one].end == "budget"]
        most = min(limits.budget, limits.times * longest + limits.slack if longest else limits.budget)
        if budget >= most:
            break
        budget = min(budget * _MORE, most)
    return [results[one] for one in selectors]
