"""A kernel whose source writes no instruction that is not emulated, but whose headers choose one for a newer target.

Such a header has another way for an older target, with the same results: that one is checked, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wmmadiag.results.model import KernelReport

OLDER = "sm_80"


def emulated(report: KernelReport, check: Callable[[str], KernelReport]) -> KernelReport:
    """The report; for an older target where nothing ran because of what is not emulated, and does there.

    Args:
        report: for a target that nobody asked for.
        check: the same for another target.
    """
    refused = [case.problem for case in report.cases if case.problem is not None and case.problem.kind == "unsupported"]
    if not refused or len(refused) < len(report.cases) or report.arch == OLDER:
        return report
    other = check(OLDER)
    if other.status == "error" or any(one.problem and one.problem.kind == "unsupported" for one in other.cases):
        return report
    said = f"checked for {OLDER}: what the compiler makes of it for {report.arch} has {refused[0].message}"
    return replace(other, assumed=(*other.assumed, f"{said}; --arch says otherwise"))
