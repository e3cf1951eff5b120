"""What changed between two runs: new failures, fixed ones, those that stay, error and time up or down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wmmadiag.results.brief import brief, times
from wmmadiag.results.model import CaseResult, Status
from wmmadiag.results.run import Run

ChangeKind: TypeAlias = Literal["new failure", "worse status", "fixed", "still failing", "added", "gone", "right"]
"""new failure: wrong now, and was not. worse status: not right any more, undecided or in error. added: right, and new.
right: in both."""

CaseKey: TypeAlias = "tuple[str, str, str, str]"
"""Kernel, arch, variant, case."""

ERROR_FACTOR = 1.25
"""Change of the largest error, in units of the bound, from which on it is told."""
WORK_FACTOR = 1.02
"""Change of the number of warp instructions from which on it is told; the number is exact."""
TIME_FACTOR = 1.5
"""Change of a time from which on it is told, where it is longer than `TIME_FLOOR`: emulated times vary."""
TIME_FLOOR = 0.2


@dataclass(frozen=True, slots=True)
class CaseChange:
    """One case in both runs."""

    key: CaseKey  # which
    kind: ChangeKind  # what became of it
    # before, after: statuses, None where the run has no such case
    before: Status | None
    after: Status | None
    what: str = ""  # what is the matter with it now, or was
    notes: tuple[str, ...] = ()  # "largest error 0.2 to 0.4 of the bound", one clause each


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs compared."""

    changes: tuple[CaseChange, ...]  # every case of either run, in the newer one's order, then those that are gone
    remarks: tuple[str, ...] = ()  # what makes the comparison less than fair: other versions, other inputs

    def of(self, kind: ChangeKind) -> tuple[CaseChange, ...]:
        """Changes of one kind."""
        return tuple(one for one in self.changes if one.kind == kind)

    @property
    def exit_code(self) -> int:
        """1 new failures; 2 something is newly in error; 3 newly undecided; 0 neither."""
        if self.of("new failure"):
            return 1
        worse = {one.after for one in self.of("worse status")}
        return 2 if "error" in worse else 3 if worse else 0

    def _repr_html_(self) -> str:
        from wmmadiag.report.notebook import comparison_html

        return comparison_html(self)


def compare_runs(before: Run, after: Run) -> RunComparison:
    """What changed from one run to another. Cases are matched by kernel's name, architecture, variant and case."""
    old, new = _cases(before), _cases(after)
    changes = [_change(key, old.get(key), case) for key, case in new.items()]
    gone = [(key, case) for key, case in old.items() if key not in new]
    changes += [
        CaseChange(key, "gone", one.status, None, "" if one.status == "passed" else brief(one)) for key, one in gone
    ]
    failed_before = {(one.path, one.arch): one for one in before.unchecked}
    for one in after.unchecked:
        known = failed_before.get((one.path, one.arch))
        was = None if known is None else known.status
        kind: ChangeKind = "still failing" if known else "new failure" if one.exit_code == 1 else "worse status"
        key = (one.path, one.arch, "", "")
        changes.append(CaseChange(key, kind, was, one.status, one.first_line))
    return RunComparison(tuple(changes), _remarks(before, after))


def _cases(run: Run) -> dict[CaseKey, CaseResult]:
    found: dict[CaseKey, CaseResult] = {}
    for kernel in run.kernels:
        for case in kernel.report.cases:
            key = (kernel.report.name, kernel.report.arch, case.variant, case.case)
            if key in found:  # two cards of one name
                key = (f"{kernel.report.name} ({kernel.report.card})", *key[1:])
            found[key] = case
    return found


def _change(key: CaseKey, old: CaseResult | None, new: CaseResult) -> CaseChange:
    before, after = None if old is None else old.status, new.status
    notes = () if old is None else tuple(_notes(old, new))
    if after == "passed":
        kind: ChangeKind = "added" if old is None else "right" if before == "passed" else "fixed"
        return CaseChange(key, kind, before, after, brief(old) if old is not None and kind == "fixed" else "", notes)
    if before == after or before == "failed":
        kind = "still failing"
    else:
        kind = "new failure" if after == "failed" else "worse status"
    return CaseChange(key, kind, before, after, brief(new), notes)


def _notes(old: CaseResult, new: CaseResult) -> Iterator[str]:
    if (old.seed, old.distribution, old.symbols) != (new.seed, new.distribution, new.symbols):
        yield "other inputs or sizes than before"
    wrong = [sum(one.wrong for one in case.judged) for case in (old, new)]
    if old.observations and new.observations and wrong[0] != wrong[1] and all(wrong):
        yield f"{'more' if wrong[1] > wrong[0] else 'fewer'} wrong elements: {wrong[0]} to {wrong[1]}"
    errors = [case.largest_error for case in (old, new)]
    if errors[0] is not None and errors[1] is not None and _differs(errors[0], errors[1], ERROR_FACTOR):
        yield f"error {_way(*errors)}: {times(errors[0])} to {times(errors[1])} times the bound"
    work = (old.warp_instructions, new.warp_instructions)
    if all(work) and _differs(*work, WORK_FACTOR):
        yield f"work {_way(*work)}: {work[0]:,} to {work[1]:,} warp instructions"
    elif max(old.seconds, new.seconds) > TIME_FLOOR and _differs(old.seconds, new.seconds, TIME_FACTOR):
        yield f"time {_way(old.seconds, new.seconds)}: {old.seconds:.2f} to {new.seconds:.2f} s"


def _differs(a: float, b: float, factor: float) -> bool:
    low, high = sorted((a, b))
    return high > 0 and (low <= 0 or high / low >= factor)


def _way(a: float | None, b: float | None) -> str:
    assert a is not None and b is not None
    return "up" if b > a else "down"


def _remarks(before: Run, after: Run) -> tuple[str, ...]:
    names = dict.fromkeys([*before.versions, *after.versions])
    return tuple(
        f"{name} {before.versions.get(name, 'not there')} before, {after.versions.get(name, 'not there')} now"
        for name in names
        if before.versions.get(name) != after.versions.get(name)
    )
