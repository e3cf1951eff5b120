"""From a group of failures to what a person needs: the smallest case, its cause, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmmadiag.campaign.points import Point, meets
from wmmadiag.campaign.tally import FailureGroup, cost
from wmmadiag.campaign.work import PointResult, WorkSetting, run_point, session_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Expression


@dataclass(frozen=True, slots=True)
class ToExplain:
    """One group's smallest case so far, and the sizes that the plan tries."""

    setting: WorkSetting
    digest: str  # of what its subject is made of
    result: PointResult
    axes: Mapping[str, Sequence[Expression]]
    requires: tuple[str, ...] = ()  # what combinations of them must satisfy
    effort: str = "quick"  # of the diagnosis, "" for none


@dataclass(frozen=True, slots=True)
class CampaignFinding:
    """One group of failures, explained.

    Attributes:
        subject, failures: the kernel's card, and what it fails with.
        example: the smallest case that fails so.
        cause, verdict, sentence, place, change: as a diagnosis has them; "" where none was asked for or found.
        command: what repeats it, from the plan's folder.
    """

    # subject, failures: of the group
    subject: str
    failures: tuple[str, ...]
    example: PointResult  # the smallest case that fails so
    # cause, verdict, sentence, place, change: as a diagnosis has them; "" where none was asked for or found
    cause: str = ""
    verdict: str = ""
    sentence: str = ""
    place: str = ""
    change: str = ""
    command: str = ""  # that repeats it
    effort: str = ""  # of the diagnosis that was asked for, "" for none

    @property
    def group(self) -> FailureGroup:
        """Of the failures that it explains."""
        return self.subject, self.example.point.variant, self.failures

    def same_as(self) -> tuple[str, ...]:
        """What two findings share that have one cause."""
        if self.cause and self.place:
            return self.place, self.cause
        return self.subject, *self.failures


def explained(work: ToExplain) -> CampaignFinding:
    """Shrink a failure, then diagnose what is left of it."""
    setting = work.setting

    def allowed(point: Point) -> bool:
        return meets(work.requires, session_of(setting, work.digest, point).card, point)

    small = shrunk(work.result, lambda point: run_point(setting, work.digest, point), work.axes, allowed)
    small = replace(small, key=work.result.key)
    found = CampaignFinding(
        small.point.subject, small.failures, small, command=command(setting, small.point), effort=work.effort
    )
    if not work.effort or small.status != "failed":
        return found
    try:
        return _diagnosed(found, setting, work.effort)
    except WmmadiagError:
        return found


def _diagnosed(found: CampaignFinding, setting: WorkSetting, effort: str) -> CampaignFinding:
    from wmmadiag.api import diagnosis

    point = found.example.point
    explained = diagnosis(
        Path(setting.folder) / point.subject,
        arch=point.arch,
        variant=point.variant,
        cases=[point.base],
        symbols=symbols(point),
        seed=point.seed or None,
        inputs=point.inputs,
        checks=setting.checks,
        effort=effort,
    )
    if not explained.causes:
        return found
    first = explained.causes[0]
    return replace(
        found, cause=first.name, verdict=first.verdict, sentence=first.sentence, place=first.place,
        change=first.fix.diff if first.fix is not None and first.fix.status == "verified" else "",
    )  # fmt: skip


def symbols(point: Point) -> dict[str, str]:
    """What lies over the card's case, as options of a check."""
    from wmmadiag.subject.binding import DISPLACED

    found = {name: str(value) for name, value in point.sizes.items()}
    return found | ({DISPLACED: str(point.displaced)} if point.displaced else {})


def command(setting: WorkSetting, point: Point) -> str:
    """The command that repeats a case, from the plan's folder."""
    words = ["wmmadiag", "check", point.subject, "--arch", point.arch, "--case", point.base, "--variant", point.variant]
    for name, value in symbols(point).items():
        words += ["--symbol", f"{name}={value}"]
    words += ["--inputs", point.inputs] if point.inputs else []
    words += ["--seed", str(point.seed)] if point.seed else []
    words += ["--schedules", str(point.schedules)] if point.schedules else []
    words += ["--checks", setting.checks] if setting.checks != "default" else []
    return shlex.join(words)


def one_each(findings: Iterable[CampaignFinding]) -> list[tuple[CampaignFinding, list[CampaignFinding]]]:
    """Findings of one cause together, the cheapest to repeat first, the others behind it."""
    found: dict[tuple[str, ...], list[CampaignFinding]] = {}
    for one in findings:
        found.setdefault(one.same_as(), []).append(one)
    ordered = [sorted(group, key=lambda one: cost(one.example)) for group in found.values()]
    return [(group[0], group[1:]) for group in ordered]


MOST = 200
"""Runs at most that are spent on one failure."""
SIMPLE = ("small_integers", "positive", "")
"""Distributions whose values say more at a glance than those of others, simplest first."""

RunPoint = Callable[[Point], PointResult]


def shrunk(
    failing: PointResult,
    run: RunPoint,
    axes: Mapping[str, Sequence[Expression]],
    allowed: Callable[[Point], bool] = lambda _: True,
) -> PointResult:
    """A case as small as can be found that fails with the same failures.

    Sizes first, since they decide what everything else costs; then orders, places, inputs and the seed. It ends where
    no single step makes the case smaller, or after `MOST` runs.

    Args:
        axes: values of each size that the plan tries: what is legal beyond them nobody has said.
        allowed: whether a combination of them is one that the plan wants.
    """
    best, spent = failing, 0
    again = True
    while again and spent < MOST:
        again = False
        for smaller in filter(allowed, _steps(best.point, axes)):
            if spent >= MOST:
                break
            spent += 1
            found = run(smaller)
            if found.failures == failing.failures and found.status == failing.status:
                best, again = found, True
                break
    return best


def _steps(point: Point, axes: Mapping[str, Sequence[Expression]]) -> Iterator[Point]:
    """Points that are smaller in one way each, the boldest first."""
    for name, value in point.sizes.items():
        for smaller in _smaller(value, axes.get(name, ())):
            yield replace(point, sizes={**point.sizes, name: smaller})
    if point.schedules:
        yield replace(point, schedules=0)
    if point.displaced:
        yield replace(point, displaced=0)
    place = SIMPLE.index(point.inputs) if point.inputs in SIMPLE else len(SIMPLE)
    for simple in SIMPLE[:place]:
        yield replace(point, inputs=simple)
    if point.seed:
        yield replace(point, seed=0)


def _smaller(value: Expression, tried: Sequence[Expression]) -> list[int]:
    """The plan's sizes below one, from the smallest on."""
    if not isinstance(value, int):
        return []
    return sorted({one for one in tried if isinstance(one, int) and one < value})
