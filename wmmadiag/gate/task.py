"""What is checked at a time, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport, Status
    from wmmadiag.results.run import KernelRun


@dataclass(frozen=True, slots=True)
class Task:
    """One card or source on one architecture; `options` are keyword arguments of `wmmadiag.check`."""

    path: Path
    arch: str | None
    cases: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    record: bool = False  # also keep what a report shows besides the terminal's text
    diagnose: bool = False  # find out why each failing variant fails; `effort`: how much is tried
    effort: str = "normal"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """A report, or the error in its place, as text, with its exit code; `recorded` where the task asks for it.

    `cached`: nothing ran; it is the result of an earlier run of the same kernel. `several`: nothing ran, since the
    source has these kernels, and one is checked at a time; `others`: what it launches besides. `asked`: the error is a
    question that an option answers. `beside`: it is of a kernel that the source launches besides the one that was
    taken. `left`: nobody named the kernel, and the source's others took so long that it was not checked. `differs`: it
    is an instantiation that nobody named, which gives other numbers than the one that was taken should; `apart` are
    those beside one that is right. `unfit`: the operation that the kernel seems to compute, and is right as in no
    reading; `doubted`: another kernel of the source is right as that one.
    """

    task: Task
    report: KernelReport | None = None
    error: str = ""
    code: int = 0
    recorded: KernelRun | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    cached: bool = False
    several: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    asked: bool = False
    beside: bool = False
    left: bool = False
    differs: bool = False
    apart: tuple[str, ...] = ()
    unfit: str = ""
    doubted: bool = False

    @property
    def status(self) -> Status:
        """As a report's."""
        if self.report is not None:
            return self.report.status
        return "failed" if self.code == 1 else "undecided" if self.code == 3 else "error"
