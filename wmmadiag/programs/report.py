"""A program's run as a report of the kind that every other command gives, for SARIF, JUnit, HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wmmadiag.programs.run import ProgramResult
from wmmadiag.results.model import CaseResult, KernelReport, Problem, Status
from wmmadiag.results.run import KernelRun


def kernel_run(result: ProgramResult, sources: Sequence[Path], arch: str, seconds: float) -> KernelRun:
    """One report with one case: the run of `main`; `seconds`: that it took."""
    status, problem = _judged(result)
    level = {"error": 0, "warning": 1, "advice": 2}
    case = CaseResult(
        variant="program", case="main", status=status, symbols={}, problem=problem, seconds=seconds,
        output=result.output, notes=(*result.notes, *(one.where for one in result.found if one.where)),
        findings=tuple(sorted((one.finding for one in result.found), key=lambda one: level[one.level])),
    )  # fmt: skip
    source = str(sources[0])
    return KernelRun(
        KernelReport(
            name=sources[0].stem, card=source, source=source, operation="program", arch=arch, backend="emulator",
            compiled=(), cases=(case,), seconds=seconds,
        )
    )  # fmt: skip


def _judged(result: ProgramResult) -> tuple[Status, Problem | None]:
    if result.internal:
        return "error", Problem("configuration", "a mistake of wmmadiag's own", detail=result.internal)
    if result.crash:
        return "failed", Problem("host-crash", result.crash.partition("\n")[0], detail=result.crash)
    if any(one.finding.level == "error" for one in result.found):
        return "failed", None
    if result.ended:
        first, _, rest = result.ended.partition("\n")
        return "undecided", Problem("undecided", first, detail=rest)
    if result.status:
        return "failed", Problem("exit-status", f"the program's exit status is {result.status}")
    return "passed", None
