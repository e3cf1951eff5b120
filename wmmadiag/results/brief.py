"""A case in one sentence."""

from __future__ import annotations

from wmmadiag.compare.observation import Observation
from wmmadiag.results.model import CaseResult


def brief(case: CaseResult) -> str:
    """What is the matter with a case, in one sentence without its name."""
    if case.problem is not None:
        return case.problem.message
    wrong = [f"{o.output}: {share(o)}" for o in case.observations if o.wrong and o.against == "reference"]
    if wrong:
        return "; ".join(wrong)
    errors = [one.message for one in case.findings if one.level == "error"]
    return "memory overwritten" if case.overwritten else "; ".join(errors) or margin(case)


def share(seen: Observation) -> str:
    """How many elements are wrong."""
    if seen.wrong == seen.elements:
        return f"all {seen.elements} elements wrong"
    percent = 100.0 * seen.wrong / seen.elements
    shown = "over 99.9 %" if percent > 99.9 else "under 0.01 %" if percent < 0.01 else f"{percent:.3g} %"
    return f"{seen.wrong} of {seen.elements} elements wrong ({shown})"


def margin(case: CaseResult) -> str:
    """How much of the bound a right case used, at most."""
    used = [o.max_in_bounds for o in case.observations if o.against == "reference" and o.max_in_bounds is not None]
    if used:
        return f"at most {max(used):.2g} of the bound" if max(used) > 0 else "exact"
    return "exact" if case.observations else ""
