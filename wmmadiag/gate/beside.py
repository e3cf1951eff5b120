"""What a source launches besides the kernel that a check takes: other kernels, and other instantiations of it."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from wmmadiag.errors import UndecidedError
from wmmadiag.gate.task import Task, TaskOutcome

if TYPE_CHECKING:
    from wmmadiag.backends import RunLimits
    from wmmadiag.results.model import KernelReport

RunTask: TypeAlias = Callable[[Task], TaskOutcome]

MOST_KERNELS = 12
"""A source with more is a library: one is named."""

MOST_INSTANTIATIONS = 4
"""Beside the one that is taken: a kernel takes five times as long with them at most."""

PATIENCE = 100.0
"""Seconds that kernels which nobody named may take; those that are left then are named."""

_NUMBER = re.compile(r"\d+")
_OF_ONE_LAUNCH = ("grid", "block", "shared", "symbols")
_OF_ONE_KERNEL = ("computes", *_OF_ONE_LAUNCH)
"""Options that are said of one kernel, and of no other."""


def with_those_beside(outcome: TaskOutcome, run: RunTask) -> Iterator[TaskOutcome]:
    """The outcome; then those of what its source launches, too: of other kernels if it tells what they compute, and of
    other instantiations of each kernel that is right.

    Of what could not be judged the kernel's own outcome says why.
    """
    every = _doubted([outcome, *_kernels(outcome, run)])
    for one in every[1:]:
        if one.error and not (one.left or one.doubted):
            every[0] = _saying(every[0], f"not judged: {_entry(one)}, {_why(one)}")
    # What there was no time for stays an outcome: whether all is right must not hang on the clock.
    for one in (every[0], *(one for one in every[1:] if one.left or one.doubted or not one.error)):
        yield from _with_instantiations(one, run)


def _doubted(outcomes: Sequence[TaskOutcome]) -> list[TaskOutcome]:
    """The outcomes, with the question made plainer where a kernel seems to be another version of one that is right.

    Versions of one thing agree: what is near the operation of a right one, or is called as that one but for a number,
    and is right in no reading, may be wrong.
    """
    right = [(_shown(one), one.report.operation) for one in outcomes if one.report and one.report.status == "passed"]
    made = []
    for one in outcomes:
        named = next((name for name, operation in right if _is_version(one, name, operation)), "")
        if named:
            said, _, hint = one.error.rpartition("\nnext: ")
            clause = f"  {named} is right, of which this one seems to be another version: it may be wrong"
            one = replace(one, error=f"{said}\n{clause}\nnext: {hint}" if said else f"{hint}\n{clause}", doubted=True)
        made.append(one)
    return made


def _shown(outcome: TaskOutcome) -> str:
    """The kernel that a report is about, or the function that launches several."""
    compiled = outcome.report.compiled if outcome.report is not None else ()
    return compiled[0].entry if compiled else str(outcome.task.options.get("entry") or "")


def _is_version(outcome: TaskOutcome, name: str, operation: str) -> bool:
    if not outcome.beside or not outcome.asked:
        return False
    own, other = (one.partition("<")[0] for one in (_entry(outcome), name))
    called_so = own != other and _NUMBER.sub("", own) == _NUMBER.sub("", other)
    return called_so or outcome.unfit == operation


def _kernels(outcome: TaskOutcome, run: RunTask) -> list[TaskOutcome]:
    report, task = outcome.report, outcome.task
    if report is None or not 0 < len(report.beside) < MOST_KERNELS or any(map(task.options.get, _OF_ONE_KERNEL)):
        return []
    until = time.monotonic() + PATIENCE
    return [_run(task, name, run) if time.monotonic() < until else left_out(task, name) for name in report.beside]


def left_out(task: Task, entry: str) -> TaskOutcome:
    """The outcome of a kernel that nobody named, and for which there is no time left."""
    asked = replace(task, options={**task.options, "entry": entry})
    return replace(_asked(asked, "was not checked, since other kernels of the source took long"), left=True)


def _asked(task: Task, why: str) -> TaskOutcome:
    """The outcome of a kernel that nobody named, and of which a check alone tells more."""
    entry = str(task.options["entry"])
    return TaskOutcome(
        task,
        error=f"{task.path}: {entry} {why}\n"
        f"next: `wmmadiag check {shlex.quote(str(task.path))} --entry {shlex.quote(entry)}` checks it alone",
        code=UndecidedError.exit_code, asked=True,
    )  # fmt: skip


def _with_instantiations(outcome: TaskOutcome, run: RunTask) -> Iterator[TaskOutcome]:
    """The outcome, and of other instantiations of its kernel, if it is right, those that are right as well.

    What others compute nobody said, nor how large they are launched: one that gives other numbers is asked about, and
    of what does not run to its end the outcome says so.
    """
    report, task = outcome.report, outcome.task
    if report is None or report.status != "passed" or any(map(task.options.get, _OF_ONE_LAUNCH)):
        yield outcome
        return
    options = {**task.options, "limits": _limits(task, report)}
    again = replace(task, options=options, diagnose=False)
    others = [_launched(_run(again, name, run)) for name in report.instantiations[:MOST_INSTANTIATIONS]]
    apart = tuple(_entry(one) for one in others if _differs(one))
    yield replace(outcome, report=_told(report, others), apart=apart)
    yield from (one for one in others if _status(one) == "passed")
    for one in others:
        if differs := _differs(one):
            why = f"is launched or asked for, too, and {differs} if it computes what the one that is right does"
            yield replace(_asked(one.task, why), beside=True, differs=True)


def _limits(task: Task, report: KernelReport) -> RunLimits:
    """As much work as variations of a right kernel may take: one that hangs is given up soon."""
    from wmmadiag.backends import RunLimits
    from wmmadiag.subject.card_session import most_tried

    given = task.options.get("limits") or RunLimits()
    return replace(given, instructions=most_tried(report, given.instructions))


def _status(outcome: TaskOutcome) -> str:
    return outcome.report.status if outcome.report is not None else ""


def _launched(outcome: TaskOutcome) -> TaskOutcome:
    """What was found of an instantiation at sizes that the source launches: nobody chose it, nor other sizes."""
    from wmmadiag.subject.drafts.sizes import RAGGED

    report = outcome.report
    if report is None:
        return outcome
    cases = tuple(case for case in report.cases if case.case != RAGGED or case.status == "passed")
    if not cases or cases == report.cases:
        return outcome
    report = replace(report, cases=cases)
    recorded = replace(outcome.recorded, report=report) if outcome.recorded is not None else None
    return replace(outcome, report=report, recorded=recorded, code=report.exit_code)


def _told(report: KernelReport, others: Sequence[TaskOutcome]) -> KernelReport:
    """The report, which says of the instantiations beside its own which are judged, and why others are not."""
    from wmmadiag.subject.drafts.instantiations_beside import not_judged

    right = [_entry(one) for one in others if _status(one) == "passed"]
    left = [one for one in others if _status(one) != "passed"]
    assumed = [one for one in report.assumed if one not in not_judged(report.instantiations)]
    assumed += [f"right, too: {', '.join(right)}"] * bool(right)
    for one in left:
        said = "not right so" if _status(one) == "failed" else "not judged"
        assumed.append(f"{said}: {_entry(one)}, {_why(one)}; --entry '{_entry(one)}' checks it")
    return replace(report, assumed=(*assumed, *not_judged(report.instantiations[len(others) :])))


def _run(task: Task, entry: str, run: RunTask) -> TaskOutcome:
    return replace(run(replace(task, options={**task.options, "entry": entry})), beside=True)


def _entry(outcome: TaskOutcome) -> str:
    return str(outcome.task.options["entry"])


def _why(outcome: TaskOutcome) -> str:
    """Why it is not right, or not judged, in a few words."""
    if outcome.report is None:
        return outcome.error.splitlines()[0].rpartition(": ")[2]
    case = next((one for one in outcome.report.cases if one.status != "passed"), None)
    if case is None:
        return "undecided"
    if differs := _differs(outcome):
        return differs
    errors = [one.message for one in case.findings if one.level == "error"]
    return errors[0] if errors else case.problem.message if case.problem is not None else "undecided"


def _differs(outcome: TaskOutcome) -> str:
    """How many elements of what it gives are not as they should be; "" for none, and where it does what it must not."""
    case = next((one for one in outcome.report.cases if one.status != "passed"), None) if outcome.report else None
    wrong = [one for one in case.observations if one.wrong] if case is not None else []
    if case is None or not wrong or any(one.level == "error" for one in case.findings):
        return ""
    return f"{wrong[0].wrong:,} of {wrong[0].elements:,} elements of {wrong[0].output} differ"


def _saying(outcome: TaskOutcome, clause: str) -> TaskOutcome:
    assert outcome.report is not None
    return replace(outcome, report=replace(outcome.report, assumed=(*outcome.report.assumed, clause)))
