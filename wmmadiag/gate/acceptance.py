"""Finished checks against a baseline: what is accepted, what is new, which entries have had their day."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wmmadiag.gate.known_failures import KnownFailures, failures_of, relative_card
from wmmadiag.gate.task import TaskOutcome
from wmmadiag.place import Place
from wmmadiag.results.model import CaseResult


@dataclass(slots=True)
class Acceptance:
    """Holds a baseline against outcomes, one by one."""

    entries: Sequence[KnownFailures]  # of the baseline; `path`: its file
    path: Path
    today: datetime.date  # the day that decides what has expired
    accepted: int = 0  # cases whose failures are accepted
    expired: dict[int, KnownFailures] = field(
        default_factory=dict
    )  # entries that would accept a failure, but no longer do
    seen: set[int] = field(default_factory=set)  # entries that accepted something; `touched`: whose cases ran
    touched: set[int] = field(default_factory=set)

    def applied(self, outcome: TaskOutcome) -> TaskOutcome:
        """The outcome with its accepted cases marked, and the exit code of those that are left."""
        report = outcome.report
        if report is None:
            return outcome
        card = relative_card(outcome.task.path, self.path)
        cases = tuple(self._judged(card, report.arch, case) for case in report.cases)
        if cases == report.cases:
            return outcome
        report = replace(report, cases=cases)
        recorded = outcome.recorded
        if recorded is not None:
            recorded = replace(recorded, report=report)
        return replace(outcome, report=report, recorded=recorded, code=report.exit_code)

    def _judged(self, card: str, arch: str, case: CaseResult) -> CaseResult:
        failures = failures_of(case)
        for number, known in enumerate(self.entries):
            if not known.fits(card, arch, case.variant, case.case):
                continue
            self.touched.add(number)
            if not failures or not set(failures) <= set(known.failures):
                continue
            self.seen.add(number)
            if known.expires < self.today:
                self.expired[number] = known
                continue
            self.accepted += 1
            return replace(case, accepted=f"{known.reason} (until {known.expires.isoformat()})")
        return case

    @property
    def fixed(self) -> list[KnownFailures]:
        """Entries whose cases ran, and none failed as they say."""
        return [self.entries[number] for number in sorted(self.touched - self.seen)]

    def lines(self) -> list[str]:
        """What a person should know."""
        parts = [f"{self.accepted} known failure{'s' * (self.accepted != 1)} accepted"]
        notices = []
        for known in self.expired.values():
            notices.append(f"  {known.place}: expired on {known.expires.isoformat()}: {_about(known)}: {known.reason}")
        for known in self.fixed:
            notices.append(f"  {known.place}: no longer fails, remove the entry: {_about(known)}")
        if self.expired:
            parts.append(f"{len(self.expired)} expired")
        if self.fixed:
            parts.append(f"{len(self.fixed)} no longer needed")
        return [f"baseline {self.path}: {', '.join(parts)}", *notices]


def _about(known: KnownFailures) -> str:
    words = [known.card, known.arch, known.variant, *known.cases[:3], "…" * (len(known.cases) > 3)]
    return " ".join(word for word in words if word)


def new_entries(
    outcomes: Sequence[TaskOutcome],
    old: Sequence[KnownFailures],
    path: Path,
    reason: str,
    expires: datetime.date,
    today: datetime.date,
) -> list[KnownFailures]:
    """Entries for all failures of these outcomes: reason and day of an old entry that accepts it, else the given ones.

    Old entries of cases that did not run stay.
    """
    found: dict[tuple[str, str, str, tuple[str, ...], str, datetime.date], list[str]] = {}
    ran = set()
    for outcome in outcomes:
        report = outcome.report
        card = relative_card(outcome.task.path, path)
        if report is None:
            continue
        for case in report.cases:
            ran.add((card, report.arch, case.variant, case.case))
            failures = failures_of(case)
            if not failures:
                continue
            fitting = [one for one in old if one.fits(card, report.arch, case.variant, case.case)]
            known = next((one for one in fitting if set(failures) <= set(one.failures) and one.expires >= today), None)
            why, until = (known.reason, known.expires) if known is not None else (reason, expires)
            found.setdefault((card, report.arch, case.variant, failures, why, until), []).append(case.case)
    nowhere = Place(str(path), 1)
    made = [KnownFailures(card, arch, variant, tuple(cases), failures, why, until, nowhere)
            for (card, arch, variant, failures, why, until), cases in found.items()]  # fmt: skip
    kept = [one for one in old if not any(one.fits(*case) for case in ran)]
    return sorted([*made, *kept], key=lambda one: (one.card, one.arch, one.variant, one.cases))
