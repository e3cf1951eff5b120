"""A campaign beside earlier ones: what fails now and did not, what no longer does; its numbers as JSON."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import msgspec

from wmmadiag.campaign.journal import read_journal
from wmmadiag.campaign.run import Campaign
from wmmadiag.campaign.work import from_record

_MOST = 20


def changes(campaign: Campaign, earlier: Path) -> list[str]:
    """What changed since an earlier campaign, one line each; cases are the same where their points are.

    Raises:
        ConfigurationError: there is no such journal.
    """
    before: dict[str, str] = {}
    judged = 0
    for _, record in read_journal(earlier):
        result = from_record(record or {})
        if result is None:
            continue
        judged += 1
        if result.status != "passed":
            before[result.point.name()] = result.status
        else:
            before.pop(result.point.name(), None)
    now = {one.point.name(): one.status for one in campaign.tally.listed}
    new = sorted(name for name in now if name not in before)
    gone = sorted(name for name in before if name not in now)
    told = [f"since {earlier} ({judged:,} cases): {len(new):,} fail that did not, {len(gone):,} no longer fail"]
    told += [f"  new: {name}" for name in new[:_MOST]] + [f"  gone: {name}" for name in gone[:_MOST]]
    left = len(new) + len(gone) - len(told) + 1
    return [*told, f"  … and {left:,} more"] if left > 0 else told


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
        "format": "wmmadiag-campaign", "version": 1, "name": campaign.plan.name, "cases": tally.cases,
        "exit_code": tally.exit_code, "statuses": dict(tally.statuses),
        "subjects": {subject: dict(counts) for subject, counts in tally.subjects.items()},
        "findings": [
            {**msgspec.to_builtins(one), "cases": tally.groups[group].count} for group, one in campaign.findings.items()
        ],
        "failing": [msgspec.to_builtins(one) for one in tally.listed],
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"
