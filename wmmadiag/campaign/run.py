"""A campaign from its plan to its tally: what is left to do goes to a cluster, what comes back to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from wmmadiag.campaign import explain, work
from wmmadiag.campaign.changes import Changes
from wmmadiag.campaign.explain import CampaignFinding, ToExplain, explained
from wmmadiag.campaign.journal import Journal, held
from wmmadiag.campaign.plan import Plan
from wmmadiag.campaign.points import FIXED, CaseSpace, Point, counted, key_of, points, spaces
from wmmadiag.campaign.tally import FailureGroup, IsKnown, Tally, group_of
from wmmadiag.campaign.work import PointResult, WorkSetting, WorkUnit, digest_of, run_unit
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.card import Card
from wmmadiag.subject.symbols import one_kernel, rendered_entry, rendered_macros

if TYPE_CHECKING:
    from wmmadiag.campaign.cluster import TaskDone

TaskWork = TypeVar("TaskWork")
TaskAnswer = TypeVar("TaskAnswer")
Executor = Callable[[Callable[[Any], Any], Iterable[Any]], "Iterator[TaskDone[Any, Any]]"]
"""Calls a function for each piece of work somewhere; `cluster.answers` of a client, or `here`."""
_SHARES, _LEAST = 16, 16
"""Towards the end a task is a share of what is left, and no fewer cases than that: so that no process waits long for
another one's last task."""
_GATHERED = 1000
"""Results of a journal that are counted at once."""


@dataclass(slots=True)
class CampaignProgress:
    """How far a campaign is."""

    planned: int = 0  # cases in all, about
    done: int = 0  # judged so far, earlier runs included
    here: int = 0  # of these, judged by this run
    failing: int = 0  # so far; began: when this run did, in seconds of `time.monotonic`
    began: float = field(default_factory=time.monotonic)
    what: str = "cases"  # it does now


TellProgress = Callable[[CampaignProgress], None]


@dataclass(slots=True)
class Campaign:
    """What came of one.

    Attributes:
        plan: as it was read.
        tally: `statuses`, cases by "passed", "failed", "undecided", "error" and "accepted"; `subjects`, the same for
            each kernel; `cases`, how many; `listed`, failing ones.
        findings: one for each kind of failure, by kernel and what it fails with.
        exit_code: as a check's.
        since: what changed since an earlier campaign, where somebody has asked.
    """

    plan: Plan
    setting: WorkSetting
    spaces: Sequence[CaseSpace] = ()  # of the plan
    digests: dict[tuple[str, str], str] = field(default_factory=dict)  # what each (subject, architecture) is made of
    tally: Tally = field(default_factory=Tally)  # of all cases, those of earlier runs included
    findings: dict[FailureGroup, CampaignFinding] = field(default_factory=dict)  # one for each group of failures
    repeated: int = 0  # records that an earlier run wrote twice, or of kernels that have changed since: not counted
    damaged: tuple[int, ...] = ()  # lines of the journal that were no records
    since: Changes | None = None  # what changed since an earlier campaign, where somebody has asked

    @property
    def exit_code(self) -> int:
        """As a check's: 0 all right, or known; 1 a kernel is wrong; 2 a card or a size is; 3 undecided."""
        return self.tally.exit_code

    def holds(self, result: PointResult) -> bool:
        """Whether a journal's result is of a case of this plan, and of its kernel as it is now."""
        digest = self.digests.get((result.point.subject, result.point.arch))
        return (
            digest is not None
            and key_of(result.point, digest) == result.key
            and any(space.has(result.point) for space in self.spaces)
        )


def run_campaign(
    plan: Plan,
    journal: Journal,
    execute: Executor,
    *,
    known: IsKnown = lambda _: False,
    effort: str = "quick",
    tell: TellProgress = lambda _: None,
) -> Campaign:
    """Judge what an open journal does not hold yet, explain what fails, and count all of it.

    Args:
        execute: where tasks run.
        known: whether a failure is accepted.
        effort: of the diagnosis of each group of failures; "" for none.
        tell: told of progress, often.

    Raises:
        ConfigurationError: the plan, a card or the journal is wrong.
    """
    all_spaces = [space for subjects in plan.subjects for space in spaces(plan, subjects)]
    if not any(next(points(plan, space), None) for space in all_spaces):
        raise ConfigurationError(
            "this plan has no case: its requirements leave out every combination of sizes",
            place=all_spaces[0].place if all_spaces else None,
            hint="mend 'requires', or the sizes",
        )
    setting = WorkSetting(str(plan.path.parent.resolve()), plan.checks, plan.backend, plan.instructions)
    digests = {
        (space.subject, arch): digest_of(setting, space.subject, arch)
        for space in all_spaces
        for arch in space.axes["arch"]
    }
    campaign = Campaign(plan, setting, all_spaces, digests)
    done, earlier = _earlier(journal, campaign, known, effort)
    progress = CampaignProgress(
        sum(counted(plan, space) for space in all_spaces), len(done), failing=_failing(campaign.tally)
    )
    left = _left(plan, all_spaces, digests, done)  # `done` from here on holds what is under way, too

    for results in _results(execute, _units(setting, left, digests, plan.slice, progress.planned - progress.done)):
        journal.append(*[{"case": one} for one in results if one.failures != (work.NOT_RUN,)])
        campaign.tally.add(results, known)
        progress.done += len(results)
        progress.here += len(results)
        progress.failing = _failing(campaign.tally)
        tell(progress)
    _explain(campaign, journal, execute, earlier, effort, tell)
    campaign.damaged = tuple(journal.damaged)
    return campaign


def reduced(campaign: Campaign, journal: Journal) -> tuple[int, int]:
    """Leave in an open journal what counts in a campaign that is done: each case's result once, and what was found.

    Returns:
        How many records stay, and how many lines go.
    """
    seen: set[int] = set()

    def keep(record: dict[str, Any]) -> bool:
        result = held(record, "case", PointResult)
        if result is not None:
            new = int(result.key, 16) not in seen and campaign.holds(result)
            seen.add(int(result.key, 16))
            return new
        finding = held(record, "finding", CampaignFinding)
        return finding is not None and campaign.findings.get(finding.group) == finding

    return journal.reduce(keep)


def _failing(tally: Tally) -> int:
    return tally.statuses["failed"] + tally.statuses["error"]


def _earlier(
    journal: Journal, campaign: Campaign, known: IsKnown, effort: str
) -> tuple[set[int], dict[FailureGroup, CampaignFinding]]:
    """Keys of the cases that the journal holds, and what it found of these with that effort.

    The tally is told of the former.
    """
    done: set[int] = set()
    findings: dict[FailureGroup, CampaignFinding] = {}
    gathered: list[PointResult] = []
    for record in journal.records():
        result = held(record, "case", PointResult)
        if result is not None:
            if int(result.key, 16) in done or not campaign.holds(result):
                campaign.repeated += 1
                continue
            done.add(int(result.key, 16))
            gathered.append(result)
            if len(gathered) == _GATHERED:
                campaign.tally.add(gathered, known)
                gathered.clear()
        finding = held(record, "finding", CampaignFinding)
        if finding is not None and finding.effort == effort and int(finding.example.key, 16) in done:
            findings[finding.group] = finding
    campaign.tally.add(gathered, known)
    return done, findings


def _left(
    plan: Plan, all_spaces: Sequence[CaseSpace], digests: dict[tuple[str, str], str], done: set[int]
) -> Iterator[tuple[CaseSpace, Point]]:
    """Each point that is not judged yet, once, though several tables of a plan name it; `done` grows by it."""
    for space in all_spaces:
        for point in points(plan, space):
            key = int(key_of(point, digests[point.subject, point.arch]), 16)
            if key not in done:
                done.add(key)
                yield space, point


def _units(
    setting: WorkSetting,
    left: Iterable[tuple[CaseSpace, Point]],
    digests: dict[tuple[str, str], str],
    size: int,
    remain: int,
) -> Iterator[WorkUnit]:
    """Tasks of one compiled kernel each; what has not filled one goes at the end of its subject.

    Args:
        size: cases in a task at most; `remain`: points that are left in all, 0 or less if nobody knows.
    """
    open_units: dict[tuple[Any, ...], list[Point]] = {}
    subject, taken = "", 0

    def unit(gathered: list[Point]) -> WorkUnit:
        first = gathered[0]
        return WorkUnit(setting, tuple(gathered), digests[first.subject, first.arch])

    for space, point in left:
        if space.subject != subject:
            yield from map(unit, open_units.values())
            open_units.clear()
            subject = space.subject
        key = (point.arch, point.variant, _compiled(space.card, point))
        gathered = open_units.setdefault(key, [])
        gathered.append(point)
        share = max(_LEAST, (remain - taken) // _SHARES) if remain > 0 else size
        if len(gathered) >= min(size, share):
            taken += len(gathered)
            yield unit(open_units.pop(key))
    yield from map(unit, open_units.values())


def _compiled(card: Card, point: Point) -> Hashable:
    """What tells the kernel of a case from other cases' of its variant."""
    variant = card.variant(point.variant)
    if one_kernel(card, variant):
        return ()
    case = point.case(card)
    try:
        return rendered_entry(card, case, variant), tuple(rendered_macros(card, case, variant).items())
    except ConfigurationError:  # the case itself says so
        return ()


def _results(execute: Executor, units: Iterable[WorkUnit]) -> Iterator[Sequence[PointResult]]:
    """Each task's results; a task that ends its processes is halved until one case is to blame."""
    waiting = units
    while True:
        killers: list[WorkUnit] = []
        for done in execute(run_unit, waiting):
            if done.answer is not None:
                yield done.answer
            elif done.killed and len(done.work.points) > 1:
                killers += done.work.halves()
            else:
                why = work.KILLED if done.killed else work.NOT_RUN
                yield [
                    PointResult(key_of(point, done.work.digest), point, "error", (why,), done.error)
                    for point in done.work.points
                ]
        if not killers:
            return
        waiting = killers


def _explain(
    campaign: Campaign,
    journal: Journal,
    execute: Executor,
    earlier: dict[FailureGroup, CampaignFinding],
    effort: str,
    tell: TellProgress,
) -> None:
    """A finding for each group of failures, those of an earlier run where its example still fails so."""
    groups = [group for group, failures in campaign.tally.groups.items() if failures.count > failures.accepted]
    campaign.findings |= {group: earlier[group] for group in groups if group in earlier}
    asked = []
    for group in groups:
        if group not in campaign.findings:
            smallest = campaign.tally.groups[group].smallest
            digest = campaign.digests[smallest.point.subject, smallest.point.arch]
            space = next(one for one in campaign.spaces if one.has(smallest.point))
            sizes = {name: values for name, values in space.axes.items() if name not in FIXED}
            asked.append(ToExplain(campaign.setting, digest, smallest, sizes, space.requires, effort))
    progress = CampaignProgress(len(asked), failing=_failing(campaign.tally), what="failures explained")
    for done in execute(explained, asked):
        result = done.work.result
        finding = done.answer or CampaignFinding(
            result.point.subject, result.failures, result, effort=effort,
            command=explain.command(campaign.setting, result.point),
        )  # fmt: skip
        campaign.findings[group_of(result)] = finding
        journal.append({"finding": msgspec.to_builtins(finding)})
        progress.done += 1
        progress.here += 1
        tell(progress)


def here(
    function: Callable[[TaskWork], TaskAnswer], works: Iterable[TaskWork]
) -> Iterator[TaskDone[TaskWork, TaskAnswer]]:
    """Work done in this process, one piece after another: for tests, and where there is no Dask."""
    from wmmadiag.campaign.cluster import TaskDone

    for one in works:
        yield TaskDone(one, function(one))


def journal_path(plan: Path) -> Path:
    """Where a plan's journal lies if nobody says otherwise."""
    return plan.with_suffix(".journal")
