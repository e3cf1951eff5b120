"""A campaign beside earlier ones: what fails now and did not, what no longer does; its numbers as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from wmmadiag.campaign.journal import held, read_journal
from wmmadiag.campaign.work import PointResult

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Campaign

_MOST = 20
_RIGHT = "passed"


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since an earlier campaign; cases are the same where their points are."""

    earlier: str  # its journal, and how many results that has
    judged: int
    # new, gone: names of cases that fail and did not, and that no longer do
    new: tuple[str, ...]
    gone: tuple[str, ...]
    untried: int = 0  # cases that fail and were not tried then
    left_out: int = 0  # cases that failed then and are not tried now

    @property
    def head(self) -> str:
        """In one line."""
        said = f"since {self.earlier} ({self.judged:,} cases): {len(self.new):,} fail that did not"
        said += f", {len(self.gone):,} no longer fail"
        said += f", {self.untried:,} fail that were not tried then" if self.untried else ""
        return said + (f", {self.left_out:,} that failed are not tried now" if self.left_out else "")

    def lines(self) -> list[str]:
        """For the terminal: the head, and the first of each kind."""
        listed = [f"  new: {name}" for name in self.new[:_MOST]] + [f"  gone: {name}" for name in self.gone[:_MOST]]
        left = len(self.new) + len(self.gone) - len(listed)
        return [self.head, *listed, *([f"  … and {left:,} more"] if left else [])]


def changes(campaign: Campaign, journal: Path, earlier: Path) -> Changes:
    """What changed since an earlier campaign.

    Args:
        journal: of the campaign.
        earlier: of the other one.

    Raises:
        ConfigurationError: there is no such journal.
    """
    judged, failed = _statuses(earlier, _any, ())
    _, now = _statuses(journal, campaign.holds, failed)
    _, before = _statuses(earlier, _any, now)
    new = tuple(sorted(name for name, status in now.items() if status != _RIGHT and before.get(name) == _RIGHT))
    gone = tuple(sorted(name for name in failed if now.get(name) == _RIGHT))
    untried = sum(status != _RIGHT and name not in before for name, status in now.items())
    left_out = sum(name not in now for name in failed)
    return Changes(str(earlier), judged, new, gone, untried, left_out)


def _any(_: PointResult) -> bool:
    return True


def _statuses(path: Path, holds: Callable[[PointResult], bool], wanted: Container[str]) -> tuple[int, dict[str, str]]:
    """How many results a journal has, and the last status of each case that fails or is wanted, by name.

    In memory of these alone: cases that are right are many.
    """
    found: dict[str, str] = {}
    judged = 0
    for _, record in read_journal(path):
        result = held(record or {}, "case", PointResult)
        if result is None or not holds(result):
            continue
        judged += 1
        name = result.point.name()
        if result.status != _RIGHT or name in wanted:
            found[name] = result.status
        else:
            found.pop(name, None)
    return judged, found


def trend_line(campaign: Campaign, seconds: float) -> str:
    """A campaign's numbers as one line of JSON, for a file that grows by one each night."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat()
    numbers = {
        "when": now, "name": campaign.plan.name, **dict(sorted(campaign.tally.statuses.items())),
        "cases": campaign.tally.cases, "findings": len(campaign.findings), "seconds": round(seconds, 1),
        "instructions": campaign.tally.instructions,
    }  # fmt: skip
    return json.dumps(numbers) + "\n"


def as_json(campaign: Campaign) -> str:
    """Numbers, findings and failing cases."""
    tally = campaign.tally
    found: dict[str, Any] = {
        "format": "wmmadiag-campaign", "format_version": 1, "name": campaign.plan.name, "cases": tally.cases,
        "exit_code": tally.exit_code, "statuses": dict(tally.statuses),
        "subjects": {subject: dict(counts) for subject, counts in tally.subjects.items()},
        "findings": [
            {**msgspec.to_builtins(one), "cases": tally.groups[group].count} for group, one in campaign.findings.items()
        ],
        "failing": [msgspec.to_builtins(one) for one in tally.listed],
        **({"since": msgspec.to_builtins(campaign.since)} if campaign.since is not None else {}),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
