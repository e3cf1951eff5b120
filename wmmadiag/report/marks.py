"""What a run says of single lines, for formats that mark lines: causes, findings, faults, wrong outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from wmmadiag.report.terminal_diagnosis import fix_effect
from wmmadiag.results.brief import brief
from wmmadiag.results.diagnosis import Fix
from wmmadiag.results.model import CaseResult
from wmmadiag.results.run import KernelRun, Run

MarkLevel: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class LineMark:
    """One thing to say of one line."""

    rule: str  # id: "races/read-write", "leading-dimension", "fault/misaligned", "wrong-output"
    level: MarkLevel
    message: str  # one sentence; `more`: further lines
    place: str  # "file:line:column"; without a line where none is known
    kernel: str  # name of the card; `arch`: for which it was compiled
    arch: str
    other: str = ""  # a second place, or ""
    more: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()  # "variant / case" where it was seen
    fix: Fix | None = None  # a change of the source, or None
    accepted: str = ""  # why a baseline accepts it in all these cases, or ""


def marks(run: Run) -> list[LineMark]:
    """Every mark once, however many cases show it; errors first, else in the run's order."""
    order = {"error": 0, "warning": 1, "note": 2}
    found = [mark for kernel in run.kernels for mark in _merged(_of_kernel(kernel))]
    return sorted(found, key=lambda mark: order[mark.level])


def _merged(found: Iterable[LineMark]) -> list[LineMark]:
    """Marks of one rule at one place as one, with all their cases and the first one's text."""
    groups: dict[tuple[str, ...], LineMark] = {}
    for mark in found:
        key = (mark.rule, mark.place, mark.other, mark.message if mark.rule != "wrong-output" else "")
        seen = groups.get(key)
        if seen is None:
            groups[key] = mark
            continue
        worse = seen if not seen.accepted else mark
        groups[key] = replace(
            seen, cases=tuple(dict.fromkeys(seen.cases + mark.cases)), level=worse.level, accepted=worse.accepted
        )
    return list(groups.values())


def _of_kernel(kernel: KernelRun) -> Iterator[LineMark]:
    report = kernel.report
    diagnosed: set[tuple[str, str]] = set()
    known = {(case.variant, case.case): case.accepted for case in report.cases}
    for diagnosis in kernel.diagnoses:
        accepted = known.get((diagnosis.variant, diagnosis.case), "")
        for cause in diagnosis.causes:
            diagnosed.add((diagnosis.variant, diagnosis.case))
            more = [*cause.evidence]
            if cause.fix is not None:
                more += [f"fix: {cause.fix.summary}", fix_effect(cause.fix)]
            seen = (_name(diagnosis.variant, diagnosis.case),)
            yield LineMark(
                cause.name, "note" if accepted else "error", cause.sentence, cause.place or report.source,
                report.name, report.arch, cause.other, tuple(line for line in more if line), seen, cause.fix, accepted,
            )  # fmt: skip
    for case in report.cases:
        for mark in _of_case(kernel, case, (case.variant, case.case) in diagnosed):
            yield replace(mark, level="note", accepted=case.accepted) if case.accepted else mark


def _of_case(kernel: KernelRun, case: CaseResult, diagnosed: bool) -> Iterator[LineMark]:
    report, name = kernel.report, (_name(case.variant, case.case),)
    levels: dict[str, MarkLevel] = {"error": "error", "warning": "warning", "advice": "note"}
    for finding in case.findings:
        more = (*finding.detail, *((f"next: {finding.hint}",) if finding.hint else ()))
        yield LineMark(
            f"{finding.check}/{finding.kind}", levels[finding.level], finding.message, finding.place or report.source,
            report.name, report.arch, finding.other, more, name,
        )  # fmt: skip
    repeat = (f"repeat: {case.repeat}",) if case.repeat else ()
    problem = case.problem
    if problem is not None and case.status != "passed":
        fault = case.status == "failed"
        more = (*problem.detail.splitlines(), *((f"next: {problem.hint}",) if problem.hint else ()), *repeat)
        rule = f"fault/{problem.kind}" if fault else problem.kind
        place = problem.place or (report.source if fault or problem.kind == "compile" else report.card)
        yield LineMark(rule, "error" if case.status != "undecided" else "warning", problem.message, place, report.name,
                   report.arch, more=more, cases=name)  # fmt: skip
    elif case.status == "failed" and not diagnosed and not any(one.level == "error" for one in case.findings):
        yield LineMark(
            "wrong-output", "error", brief(case), report.source, report.name, report.arch, more=repeat, cases=name
        )


def _name(variant: str, case: str) -> str:
    return f"{variant} / {case}"
