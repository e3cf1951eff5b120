"""A case in one sentence."""

from __future__ import annotations

from wmmadiag.compare.observation import Observation
from wmmadiag.results.model import CaseResult


def brief(case: CaseResult) -> str:
    """What is the matter with a case, in one sentence without its name."""
    if case.problem is not None:
        return case.problem.message
    wrong = wrong_outputs(case)
    if wrong:
        return "; ".join(wrong)
    errors = [one.message for one in case.findings if one.level == "error"]
    return "memory overwritten" if case.overwritten else "; ".join(errors) or margin(case)


def wrong_outputs(case: CaseResult) -> list[str]:
    """Which outputs are wrong, and how much of each."""
    return [f"{one.output}: {share(one)}" for one in case.judged if one.wrong]


def share(seen: Observation) -> str:
    """How many elements are wrong."""
    if seen.wrong == seen.elements:
        return f"all {seen.elements} elements wrong"
    percent = 100.0 * seen.wrong / seen.elements
    shown = "over 99.9 %" if percent > 99.9 else "under 0.01 %" if percent < 0.01 else f"{percent:.3g} %"
    return f"{seen.wrong} of {seen.elements} elements wrong ({shown})"


def margin(case: CaseResult) -> str:
    """How much of the bound a right case used, at most."""
    used = case.largest_error
    if used is not None and used > 0:
        return f"at most {used:.2g} of the bound"
    return "exact" if case.observations else ""


def times(ratio: float) -> str:
    """An error in units of the bound."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}" if ratio < 1e6 else f"{ratio:.1e}"
