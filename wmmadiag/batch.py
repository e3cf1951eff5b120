"""Checking several kernels: what `wmmadiag check` does with its paths."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from wmmadiag.errors import ConfigurationError, WmmadiagError

if TYPE_CHECKING:
    from wmmadiag.report.model import KernelReport, Status


@dataclass(frozen=True, slots=True)
class Task:
    """One card or source on one architecture; `options` are keyword arguments of `wmmadiag.check`."""

    path: Path
    arch: str | None
    cases: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A report, or the error in its place, as text, with its exit code."""

    task: Task
    report: KernelReport | None = None
    error: str = ""
    code: int = 0

    @property
    def status(self) -> Status:
        """As a report's."""
        if self.report is not None:
            return self.report.status
        return "failed" if self.code == 1 else "undecided" if self.code == 3 else "error"


Progress: TypeAlias = Callable[[Task, int, int, str], None]
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
    from wmmadiag.compile import CompileOptions
    from wmmadiag.subject.suggest import did_you_mean

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
        raise ConfigurationError("no card has both that case and that variant")
    return tasks


def _names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(dict.fromkeys(names))


def _own_names(path: Path) -> tuple[list[str], list[str]] | None:
    """A card's cases and variants; None if it is no card, or cannot be read."""
    if path.suffix != ".toml":
        return None
    from wmmadiag.subject.card_file import load_card

    try:
        card = load_card(path)
    except WmmadiagError:
        return None
    return [one.name for one in card.cases], [one.name for one in card.variants]


def check_all(tasks: Sequence[Task], *, jobs: int = 1, progress: Progress | None = None) -> Iterator[Outcome]:
    """Check each task, in order; an error in one does not stop the others.

    Args:
        jobs: processes; with more than one, `progress` is told only when a task begins to be waited for.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield run_task(task, progress)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    count = min(jobs, len(tasks))
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _prepare_worker, (os.getpid(),))
    try:
        futures = [pool.submit(run_task, task) for task in tasks]
        for task, future in zip(tasks, futures, strict=True):
            if progress is not None:
                progress(task, 0, 1, str(task.path))
            yield future.result()
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _prepare_worker(parent: int) -> None:
    """A worker ends at once when the user interrupts; the parent says so."""
    del parent
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_task(task: Task, progress: Progress | None = None) -> Outcome:
    """Check one card on one architecture."""
    from wmmadiag.api import check

    def forward(done: int, cases: int, what: str) -> None:
        if progress is not None:
            progress(task, done, cases, what)

    try:
        report = check(
            task.path,
            arch=task.arch,
            cases=task.cases,
            variants=task.variants,
            progress=forward,
            **task.options,
        )
    except WmmadiagError as error:
        return Outcome(task, error=str(error), code=error.exit_code)
    return Outcome(task, report, code=report.exit_code)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """The gravest of all: 1 a kernel is wrong, then 2, then 3, then 0; nothing checked is 2."""
    codes = {outcome.code for outcome in outcomes}
    return next((code for code in (1, 2, 3) if code in codes), 0 if outcomes else 2)
