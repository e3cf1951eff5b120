"""A campaign as a run of checks, as JUnit and SARIF show one: a case for each kind of failure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.api import open_card
from wmmadiag.campaign.work import KILLED, judged, session_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.recording import run_of
from wmmadiag.results.model import CaseResult, KernelReport, Problem, Status
from wmmadiag.results.run import KernelRun, Run

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Campaign
    from wmmadiag.campaign.work import PointResult


def as_run(campaign: Campaign) -> Run:
    """The smallest case of each group of failures, judged once more, and a line for the right ones of each subject.

    Raises:
        WmmadiagError: a card cannot be read any more.
    """
    from dataclasses import replace

    cases: dict[tuple[str, str], list[CaseResult]] = {}
    for finding in campaign.findings.values():
        point = finding.example.point
        case = _again(campaign, finding.example)
        name = point.name().removeprefix(f"{point.subject} {point.arch} {point.variant} ")
        cases.setdefault((point.subject, point.arch), []).append(replace(case, case=name, repeat=finding.command))
    for subject, found in campaign.tally.subjects.items():
        if found["passed"]:
            arch = next((arch for name, arch in cases if name == subject), campaign.plan.arches[0])
            right = CaseResult("all", f"{found['passed']:,} further cases", "passed", {})
            cases.setdefault((subject, arch), []).append(right)
    kernels = []
    for (subject, arch), results in cases.items():
        path = Path(campaign.setting.folder) / subject
        card = open_card(path)
        kernels.append(
            KernelRun(
                KernelReport(
                    card.name, subject, str(card.source), card.computes.operation, arch or "sm_90",
                    campaign.plan.backend, (), tuple(results), campaign.tally.seconds,
                )
            )
        )  # fmt: skip
    return run_of(kernels, command=f"wmmadiag campaign {campaign.plan.path}", seconds=campaign.tally.seconds)


def _again(campaign: Campaign, result: PointResult) -> CaseResult:
    """A failing case as a check reports it; one that cannot be run once more as the campaign has it."""
    point = result.point
    if result.failures != (KILLED,):  # it would end this process, too
        try:
            return judged(session_of(campaign.setting, campaign.digests[point.subject, point.arch], point), point)
        except WmmadiagError:
            pass
    problem = Problem(result.failures[0].split(" ")[-1] if result.failures else "undecided", result.message)
    status: Status = result.status  # type: ignore[assignment]
    return CaseResult(point.variant, point.base, status, {}, problem=problem)
