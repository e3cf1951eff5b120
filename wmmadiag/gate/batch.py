"""Checking several kernels: what `wmmadiag check` does with its paths."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from wmmadiag.errors import (
    ConfigurationError,
    QuestionError,
    SeveralKernelsError,
    UnsupportedError,
    WmmadiagError,
    did_you_mean,
    lacking_of,
    uninstalled_of,
    unreachable_of,
)
from wmmadiag.gate.beside import MOST_KERNELS, PATIENCE, left_out, with_those_beside
from wmmadiag.gate.task import Task, TaskOutcome

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport
    from wmmadiag.results.run import KernelRun, Run


TaskProgress: TypeAlias = Callable[[Task, int, int, str], None]
"""Told before each case: the task, cases done, cases in all, what comes next."""


def plan(
    paths: Sequence[Path],
    arches: Sequence[str | None],
    cases: Sequence[str] | None,
    variants: Sequence[str] | None,
    options: Mapping[str, Any],
) -> list[Task]:
    """One task per path and architecture.

    Of several cards, those without any of the named cases and variants are left out, and of the names each card gets
    those that it has.

    Raises:
        ConfigurationError: no card has a case or variant of some name, or an architecture is unknown.
    """
    from wmmadiag.compile.options import CompileOptions

    targets = list(dict.fromkeys(None if arch is None else CompileOptions(arch=arch).arch for arch in arches))
    if len(paths) == 1 or (cases is None and variants is None):
        return [Task(path, arch, _names(cases), _names(variants), options) for path in paths for arch in targets]
    tasks = []
    known: dict[str, set[str]] = {"case": set(), "variant": set()}
    for path in paths:
        own = _own_names(path)
        if own is None:  # a source, or a broken card: the check itself says what it lacks
            tasks += [Task(path, arch, _names(cases), _names(variants), options) for arch in targets]
            continue
        known["case"] |= set(own[0])
        known["variant"] |= set(own[1])
        own_cases = _names(cases) and _names(name for name in cases or () if name in own[0])
        own_variants = _names(variants) and _names(name for name in variants or () if name in own[1])
        if own_cases != () and own_variants != ():
            tasks += [Task(path, arch, own_cases, own_variants, options) for arch in targets]
    for what, names in (("case", cases), ("variant", variants)):
        for name in names or ():
            if known[what] and name not in known[what]:
                raise ConfigurationError(f"no card has a {what} '{name}'", hint=did_you_mean(name, sorted(known[what])))
    if not tasks:
        raise ConfigurationError(
            "no card has both that case and that variant",
            hint="leave --case or --variant out: the report names those that there are",
        )
    return tasks


def _names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(dict.fromkeys(names))


def _own_names(path: Path) -> tuple[list[str], list[str]] | None:
    """A card's cases and variants; None if it is no card, or cannot be read."""
    if path.suffix != ".toml":
        return None
    from wmmadiag.subject.card_files.read import load_card

    try:
        card = load_card(path)
    except WmmadiagError:
        return None
    return [one.name for one in card.cases], [one.name for one in card.variants]


def check_all(
    tasks: Sequence[Task], *, jobs: int = 1, progress: TaskProgress | None = None, several: bool = False
) -> Iterator[TaskOutcome]:
    """Check each task, in order; an error in one, a bug of ours among them, does not stop the others. What has not
    changed is not run again.

    A source that launches several kernels, of which nobody names one, has an outcome for each of them.

    Args:
        jobs: processes; with more than one, `progress` is told how many tasks are done, of how many.
        several: whether there are others besides these.
    """
    from wmmadiag.gate.result_cache import cached_outcome, result_key

    keys = [result_key(task) for task in tasks]
    known = [None if key is None else cached_outcome(task, key) for task, key in zip(tasks, keys, strict=True)]
    left = [index for index, outcome in enumerate(known) if outcome is None]
    if jobs <= 1 or len(left) <= 1:
        for task, key, outcome in zip(tasks, keys, known, strict=True):
            yield from _each(outcome or _run(task, progress, key, several=several or len(tasks) > 1), progress)
        return
    running = _parallel([(tasks[index], keys[index]) for index in left], jobs, progress)
    try:
        for outcome in known:
            yield from _each(outcome or next(running), progress)
    finally:
        running.close()


def _run(task: Task, progress: TaskProgress | None, key: str | None, *, several: bool) -> TaskOutcome:
    """`run_task`; of several, a bug of ours costs its own task alone."""
    if not several:
        return run_task(task, progress, key)
    try:
        return run_task(task, progress, key)
    except Exception as error:
        if lacking_of(error) or uninstalled_of(error) or unreachable_of(error):
            raise
        return TaskOutcome(task, error=_BUG.format(task.path, f"{type(error).__name__}: {error}"), code=3)


_BUG = (
    "{0}: internal error, a bug of wmmadiag: {1}\n"
    "next: please report it with the kernel; `WMMADIAG_DEBUG=1 wmmadiag check {0}` shows where it happened"
)


def _each(outcome: TaskOutcome, progress: TaskProgress | None) -> Iterator[TaskOutcome]:
    """The outcome, with those of the kernels beside it, or those of the kernels that were found in its place."""
    if not 1 < len(outcome.several) <= MOST_KERNELS:
        yield from with_those_beside(outcome, partial(_beside, progress=progress))
        return
    task = outcome.task
    until = time.monotonic() + PATIENCE  # with what whoever takes the outcomes makes of them
    for number, name in enumerate((*outcome.several, *outcome.others[: MOST_KERNELS - len(outcome.several)])):
        beside = name in outcome.others
        if number and time.monotonic() > until:
            yield replace(left_out(task, name), beside=beside)
        else:
            each = replace(task, options={**task.options, "entry": name})
            for one in check_all([each], progress=progress, several=True):
                yield replace(one, beside=one.beside or beside)


def _beside(task: Task, progress: TaskProgress | None) -> TaskOutcome:
    """The outcome of what lies beside another task; a bug of ours costs it alone."""
    return _run(task, progress, None, several=True)


def _parallel(
    work: Sequence[tuple[Task, str | None]], jobs: int, progress: TaskProgress | None
) -> Generator[TaskOutcome, None, None]:
    """Outcomes in order, from processes that end when the generator is closed; one that dies costs its own task."""
    from multiprocessing.connection import Connection, wait

    from wmmadiag.processes.child import Child, ChildEnded

    idle = [Child("wmmadiag.gate.batch:answer") for _ in range(min(jobs, len(work)))]
    busy: dict[Connection, tuple[int, Child]] = {}
    outcomes: dict[int, TaskOutcome] = {}
    waiting = list(range(len(work)))[::-1]
    passed_on = 0
    try:
        while len(outcomes) < len(work):
            while idle and waiting:
                index, child = waiting.pop(), idle.pop()
                child.send(work[index])
                busy[child.connection()] = (index, child)
            if progress is not None:
                progress(work[passed_on][0], len(outcomes), len(work), str(work[passed_on][0].path))
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                index, child = busy.pop(ready)
                idle.append(child)
                try:
                    found = child.receive()
                except ChildEnded as ended:
                    task = work[index][0]
                    found = TaskOutcome(task, error=_DIED.format(task.path, ended.words() or "by itself"), code=3)
                if isinstance(found, RuntimeError):
                    raise found
                outcomes[index] = found
            while passed_on in outcomes:
                yield outcomes[passed_on]
                passed_on += 1
    finally:
        for _, child in busy.values():
            child.stop()
        for child in idle:
            child.stop()


_DIED = (
    "{}: the process that checked it ended ({}), perhaps for lack of memory; it was not finished\n"
    "next: check it alone, or with --jobs 1"
)


def answer(connection: Connection) -> None:
    """Check tasks until the connection closes; called in a process of its own.

    Raises:
        EOFError: it is closed.
    """
    while True:
        task, key = connection.recv()
        try:
            connection.send(run_task(task, None, key))
        except MemoryError:
            connection.send(TaskOutcome(task, error=f"{task.path}: out of memory\nnext: take a smaller case", code=3))
        except Exception as error:  # a mistake of ours: it ends the command, as it would without processes
            connection.send(RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))


def run_task(task: Task, progress: TaskProgress | None = None, key: str | None = None) -> TaskOutcome:
    """Check one card on one architecture; keep the outcome under `key`, if there is one."""
    from wmmadiag.subject.open_subject import derived_once

    with derived_once():
        return _run_task(task, progress, key)


def _run_task(task: Task, progress: TaskProgress | None, key: str | None) -> TaskOutcome:
    from wmmadiag.api import check

    def forward(done: int, cases: int, what: str) -> None:
        if progress is not None:
            progress(task, done, cases, what)

    recorder = None
    if task.record:
        from wmmadiag.recording import ReportRecorder

        recorder = ReportRecorder(task.options.get("seed"), task.options.get("inputs", ""))
    try:
        report = check(
            task.path,
            arch=task.arch,
            cases=task.cases,
            variants=task.variants,
            progress=forward,
            recorder=recorder,
            **task.options,
        )
    except SeveralKernelsError as error:
        return TaskOutcome(task, error=str(error), code=error.exit_code, several=error.kernels, others=error.beside)
    except WmmadiagError as error:
        unfit = error.unfit if isinstance(error, QuestionError) else ""
        asked = isinstance(error, QuestionError)
        return TaskOutcome(task, error=str(error), code=error.exit_code, asked=asked, unfit=unfit)
    found = _diagnoses(task, report, forward) if task.diagnose else ()
    recorded = None if recorder is None else recorder.kernel_run(report, _asked(task.options), found)
    outcome = TaskOutcome(task, report, code=report.exit_code, recorded=recorded, diagnoses=found)
    if key is not None:
        from wmmadiag.gate.result_cache import keep_outcome

        keep_outcome(outcome, key)
    return outcome


_OF_DIAGNOSES = frozenset({"seed", "inputs", "backend", "use_cache", "checks"})
"""Options of a check that a diagnosis takes, too, besides those of the subject."""


def _diagnoses(task: Task, report: KernelReport, tell: Callable[[int, int, str], None]) -> tuple[Diagnosis, ...]:
    """Why each variant with a failing case fails."""
    from wmmadiag.api import diagnosis
    from wmmadiag.api.options import SubjectKeywords

    taken = SubjectKeywords.__annotations__.keys() | _OF_DIAGNOSES
    options = {name: value for name, value in task.options.items() if name in taken}
    found = []
    for variant in dict.fromkeys(case.variant for case in report.cases if case.status == "failed"):
        cases = list(dict.fromkeys(case.case for case in report.cases if case.variant == variant))
        with suppress(UnsupportedError):  # several kernels that were judged as one
            found.append(
                diagnosis(
                    task.path,
                    arch=report.arch,
                    variant=variant,
                    cases=cases,
                    effort=task.effort,
                    progress=lambda what: tell(len(report.cases), len(report.cases), what),
                    **options,
                )
            )
    return tuple(found)


def _asked(options: Mapping[str, Any]) -> dict[str, str]:
    """The options that differ from nothing, as words."""
    plain = {name: value for name, value in options.items() if name != "limits" and value not in (None, "", (), {})}
    words = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            words[name] = " ".join(f"{key}={item}" if item is not None else str(key) for key, item in value.items())
        elif isinstance(value, (list, tuple)):
            words[name] = " ".join(map(str, value))
        elif value is not False and value != 0:
            words[name] = "yes" if value is True else str(value)
    return words


def run_of(outcomes: Sequence[TaskOutcome], *, command: str = "", seconds: float = 0.0) -> Run:
    """What was recorded of finished tasks, as one run."""
    from wmmadiag import recording
    from wmmadiag.results.run import Unchecked

    kernels = [_as_said(one.recorded, one.report) for one in outcomes if one.recorded is not None]
    unchecked = [
        Unchecked(str(one.task.path), one.task.arch or "", one.error, one.code) for one in outcomes if one.error
    ]
    return recording.run_of(kernels, unchecked, command=command, seconds=seconds)


def _as_said(recorded: KernelRun, report: KernelReport | None) -> KernelRun:
    """What was recorded, with what is assumed since: of kernels and instantiations beside it."""
    if report is None or recorded.report.assumed == report.assumed:
        return recorded
    return replace(recorded, report=replace(recorded.report, assumed=report.assumed))


def exit_code(outcomes: Sequence[TaskOutcome]) -> int:
    """The gravest of all: 1 a kernel is wrong, then 2, then 3, then 0; nothing checked is 2."""
    codes = {outcome.code for outcome in outcomes}
    return next((code for code in (1, 2, 3) if code in codes), 0 if outcomes else 2)
