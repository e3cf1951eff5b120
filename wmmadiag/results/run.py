"""A whole run as data: several kernels, what they were made of, what was found and what it looked like. Needs no NumPy.

What `wmmadiag check --json` writes and `wmmadiag report` and `wmmadiag compare` read; its JSON schema is `schema.json`,
made of these classes by `python scripts/pages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.results.maps import ErrorMap, HeldFragment
from wmmadiag.results.model import FORMAT_VERSION, KernelReport, Status


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file as it was when the check began.

    Attributes:
        path: as the user gave it.
        sha256: of its bytes, hexadecimal.
        text: its content; "" where it is longer than `wmmadiag.recording.MAX_SOURCE` or cannot be shown.
    """

    path: str
    sha256: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One card on one architecture, with all that a report of it shows.

    Attributes:
        report: the judged cases.
        sources: the card, the kernel and its variants' sources.
        options: what the user asked for besides the card, by the option's name, as words.
        maps: of failing cases' outputs.
        fragments: what fragments held, where a disagreement gives it.
        diagnoses: of failing cases, where they were asked for.
    """

    report: KernelReport
    sources: tuple[SourceText, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    maps: tuple[ErrorMap, ...] = ()
    fragments: tuple[HeldFragment, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()

    def diagnosis(self, variant: str, case: str) -> Diagnosis | None:
        """That of a case, or of another case of the same variant, or None."""
        of_variant = [one for one in self.diagnoses if one.variant == variant]
        return next((one for one in of_variant if one.case == case), of_variant[0] if of_variant else None)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A card or source that could not be checked at all.

    Attributes:
        path: as the user gave it; `arch`: "" where the default was meant.
        message: why, with place and next step.
        exit_code: of the error.
    """

    path: str
    arch: str
    message: str
    exit_code: int = 2

    @property
    def first_line(self) -> str:
        """Why, in one line."""
        return next(iter(self.message.splitlines()), "")

    @property
    def status(self) -> Status:
        """As a case's."""
        return "failed" if self.exit_code == 1 else "undecided" if self.exit_code == 3 else "error"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a check looks for: its name, one line, and further text."""

    id: str
    summary: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `wmmadiag check` over one or more cards.

    Attributes:
        kernels: in the order they were checked.
        unchecked: what could not be.
        command: that repeats the run.
        started: UTC, ISO 8601, to the second.
        seconds: wall time.
        versions: of wmmadiag, Python, NVRTC, NumPy, and the platform, by name.
        rules: the checks that there are.
        format_version: of this model.
    """

    kernels: tuple[KernelRun, ...]
    unchecked: tuple[Unchecked, ...] = ()
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def exit_code(self) -> int:
        """The gravest of all: 1 a kernel is wrong, then 2, then 3, then 0; nothing checked is 2."""
        codes = {one.report.exit_code for one in self.kernels} | {one.exit_code for one in self.unchecked}
        return next((code for code in (1, 2, 3) if code in codes), 0 if codes else 2)

    @property
    def status(self) -> Status:
        """In words what `exit_code` says."""
        words: dict[int, Status] = {1: "failed", 2: "error", 3: "undecided", 0: "passed"}
        return words[self.exit_code]

    def _repr_html_(self) -> str:
        from wmmadiag.report.notebook import run_html

        return run_html(self)
