"""A card as a file of tests, each case, variant and architecture as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.testing.options import option, reports_folder

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport
    from wmmadiag.results.run import Run
    from wmmadiag.subject.card import Card

_YES = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


class KernelFailed(AssertionError):
    """A kernel did not pass; the message is its diagnosis and report.

    Attributes:
        cases: the cases that did not pass, and where the report is.
        diagnosis: why, or "".
    """

    def __init__(self, cases: str, diagnosis: str) -> None:
        super().__init__(f"{diagnosis}\n{cases}" if diagnosis else cases)
        self.cases = cases
        self.diagnosis = diagnosis


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a session; `arches` None for the backend's own."""

    arches: tuple[str, ...] | None
    backend: str
    checks: str
    diagnose: bool


def settings(config: pytest.Config) -> Settings:
    """The session's options.

    Raises:
        UsageError: one that makes no sense.
    """
    from wmmadiag.backends import BACKENDS
    from wmmadiag.checks import select
    from wmmadiag.compile.options import CompileOptions

    word = str(option(config, "diagnose") or "yes").lower()
    if word not in _YES:
        raise pytest.UsageError(f"--wmmadiag-diagnose: '{word}' is neither yes nor no")
    backend = str(option(config, "backend") or "emulator")
    if backend not in BACKENDS:
        raise pytest.UsageError(f"--wmmadiag-backend: there is no '{backend}'; known: {', '.join(BACKENDS)}")
    checks = str(option(config, "checks") or "default")
    arches = option(config, "arch")
    try:
        select(checks)
        known = None if arches is None else tuple(dict.fromkeys(CompileOptions(arch=one).arch for one in arches))
    except ConfigurationError as error:
        raise pytest.UsageError(f"wmmadiag: {error}") from None
    return Settings(known, backend, checks, _YES[word])


class CardFile(pytest.File):
    """A kernel card."""

    def collect(self) -> Iterator[CardCase]:
        """One test per case, variant and architecture: `tail[wmma-sm_90]`."""
        from wmmadiag.subject.card_files.read import load_card
        from wmmadiag.subject.target import card_target

        chosen = settings(self.config)
        try:
            card = load_card(self.path)
            arches = [card_target(card, one, chosen.backend) for one in chosen.arches or (None,)]
        except WmmadiagError as error:
            raise self.CollectError(str(error)) from None
        shared = Shared(card, chosen)
        for case in card.cases:
            for variant in card.variants:
                for arch in arches:
                    words = "-".join([variant.name] * (len(card.variants) > 1) + [arch])
                    which = (case.name, variant.name, arch)
                    name = f"{case.name}[{words}]"
                    # From the text, as `--lf` reads it from its file: pytest 9 takes the brackets apart there.
                    made: CardCase = CardCase.from_parent(
                        self, name=name, nodeid=f"{self.nodeid}::{name}", shared=shared, chosen=which
                    )
                    yield made


class Shared:
    """What the tests of one card share."""

    def __init__(self, card: Card, chosen: Settings) -> None:
        self.card = card
        self.settings = chosen
        self.diagnoses: dict[tuple[str, str], Diagnosis] = {}
        self._shown: dict[tuple[str, str], str] = {}

    def shown(self, variant: str, arch: str, test: str) -> str:
        """The test whose failure shows a variant's diagnosis: the first one that asks."""
        return self._shown.setdefault((variant, arch), test)

    def diagnosis(self, variant: str, arch: str, cases: Sequence[str] | None = None) -> Diagnosis:
        """Why a variant fails, found out once."""
        from wmmadiag.api import diagnosis

        key = (variant, arch)
        if key not in self.diagnoses:
            chosen = self.settings
            self.diagnoses[key] = diagnosis(
                self.card, arch=arch, variant=variant, cases=cases, backend=chosen.backend, checks=chosen.checks
            )
        return self.diagnoses[key]


class CardCase(pytest.Item):
    """One case of one variant on one architecture."""

    def __init__(self, *, shared: Shared, chosen: tuple[str, str, str], **others: Any) -> None:
        super().__init__(**others)
        self.shared = shared
        self.chosen = chosen
        self.add_marker(pytest.mark.wmmadiag)

    def runtest(self) -> None:
        """Run and judge it.

        Raises:
            KernelFailed: it did not pass, or could not be decided.
        """
        case, variant, arch = self.chosen
        card, chosen = self.shared.card, self.shared.settings
        given = {"arch": arch, "cases": [case], "variants": [variant]}

        def explain(_report: KernelReport) -> tuple[Diagnosis, ...]:
            return (self.shared.diagnosis(variant, arch),) if chosen.diagnose else ()

        try:
            check_or_fail(card, given, chosen, reports_folder(self.config), self.nodeid, explain)
        except KernelFailed as failed:
            first = self.shared.shown(variant, arch, self.nodeid)
            if failed.diagnosis and first != self.nodeid:
                raise KernelFailed(f"diagnosis: as of {first}\n\n{failed.cases}", "") from None
            raise

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        """The report, in place of a traceback; an error of the tool itself keeps its traceback."""
        if isinstance(excinfo.value, KernelFailed | WmmadiagError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the case stands in its card."""
        case, _, _ = self.chosen
        return self.path, max(self.shared.card.case(case).place.line - 1, 0), self.name


def check_or_fail(
    subject: str | Path | Card,
    given: Mapping[str, Any],
    chosen: Settings,
    folder: Path | None,
    test: str,
    explain: Callable[[KernelReport], tuple[Diagnosis, ...]],
) -> KernelReport:
    """Check a subject; raise unless every case passed, with a report written to `folder`.

    Raises:
        KernelFailed: with diagnosis, report and the written report's path as its text.
        WmmadiagError: it could not be checked at all.
    """
    __tracebackhide__ = True
    from wmmadiag.api import check
    from wmmadiag.backends import RunLimits
    from wmmadiag.recording import ReportRecorder
    from wmmadiag.testing.workers import threads_per_worker

    defaults = {"backend": chosen.backend, "checks": chosen.checks, "limits": RunLimits(threads_per_worker())}
    recorder = ReportRecorder(given.get("seed"), given.get("inputs", ""))
    report = check(subject, **{**defaults, "recorder": recorder, **given})
    if report.status == "passed":
        return report
    diagnoses = explain(report) if report.count("failed") else ()
    from wmmadiag.recording import run_of

    run = run_of([recorder.kernel_run(report, {}, diagnoses)])
    raise KernelFailed(cases_text(run, folder, test), diagnoses_text(run))


def diagnoses_text(run: Run) -> str:
    """Why the kernels of a run did not pass; "" where nobody asked or nothing is known."""
    from wmmadiag.report.terminal_diagnosis import render

    found = [one for kernel in run.kernels for one in kernel.diagnoses if one.outcome != "right"]
    return "\n".join(map(render, found))


def cases_text(run: Run, folder: Path | None, test: str) -> str:
    """The cases of a run that did not pass, and where the report is."""
    from wmmadiag.report.terminal import case_text
    from wmmadiag.testing.failure_files import write_reports

    parts = []
    for kernel in run.kernels:
        parts += [case_text(kernel.report, case) for case in kernel.report.cases if case.status != "passed"]
    if folder is not None:
        try:
            parts.append(f"report: {write_reports(run, folder, test)}\n")
        except ConfigurationError as error:
            parts.append(f"no report was written: {error}\n")
    return "\n".join(parts)


def checker(request: pytest.FixtureRequest) -> Callable[..., KernelReport]:
    """What the fixture `check_kernel` gives."""
    chosen = settings(request.config)

    def check_kernel(subject: str | Path | Card, **options: Any) -> KernelReport:
        from wmmadiag.api import open_card
        from wmmadiag.api.options import SubjectKeywords

        __tracebackhide__ = True
        if chosen.arches is not None:
            options.setdefault("arch", chosen.arches[0])
        overlay = {name: options.pop(name) for name in SubjectKeywords.__annotations__ if name in options}
        card = open_card(subject, **overlay)
        shared = Shared(card, chosen)

        def explain(report: KernelReport) -> tuple[Diagnosis, ...]:
            failing: dict[str, list[str]] = {}
            for case in report.cases:
                if case.status == "failed":
                    failing.setdefault(case.variant, []).append(case.case)
            if not chosen.diagnose:
                return ()
            return tuple(shared.diagnosis(variant, report.arch, cases) for variant, cases in failing.items())

        return check_or_fail(card, options, chosen, reports_folder(request.config), request.node.nodeid, explain)

    return check_kernel
