"""A campaign as one self-contained page: findings, a map of any two axes, and the failing cases with a search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.campaign.explain import command, one_each
from wmmadiag.report.campaign.terminal import counts, numbered
from wmmadiag.report.html import page
from wmmadiag.report.html.views import RawMarkup

if TYPE_CHECKING:
    from wmmadiag.campaign.run import Campaign

_HERE = Path(__file__).parent
_STATUSES = ("passed", "failed", "undecided", "error", "accepted")


def render(campaign: Campaign) -> str:
    """The page as text."""
    tally = campaign.tally
    findings = [
        {"first": first, "others": others, "failures": tally.groups.get(first.group)}
        for first, others in one_each(campaign.findings.values())
    ]
    subjects = [
        (subject, [found[status] for status in _STATUSES], sum(found.values()))
        for subject, found in sorted(tally.subjects.items(), key=lambda item: (-item[1]["failed"], item[0]))
    ]
    return page(
        _HERE / "campaign.html", _HERE / "campaign.js", _HERE / "campaign.css",
        name=campaign.plan.name, counts=counts(campaign), numbered=numbered, tally=tally, findings=findings,
        subjects=subjects, unlisted=tally.unaccepted - len(tally.listed), since=campaign.since,
        status={0: "passed", 1: "failed", 2: "error", 3: "undecided"}[tally.exit_code], data=RawMarkup(_data(campaign)),
    )  # fmt: skip


def _data(campaign: Campaign) -> str:
    """What the page's script draws maps of and searches: axes, cells, failing cases."""
    tally = campaign.tally
    axes = tally.axes()
    places = {axis: {value: at for at, value in enumerate(values)} for axis, values in axes.items()}
    names = list(axes)
    cells = [
        [names.index(a), places[a][x], names.index(b), places[b][y], count, tally.failing[a, x, b, y]]
        for (a, x, b, y), count in tally.cells.items()
        if a in places and b in places
    ]
    failing = [
        [
            one.point.name(),
            one.status,
            ", ".join(one.failures),
            one.message,
            {axis: value for axis, value in tally.places(one.point) if axis in axes},
            command(campaign.setting, one.point),
        ]
        for one in tally.listed
    ]
    data: dict[str, Any] = {"axes": axes, "cells": cells, "failing": failing, "shown": _telling(cells)}
    # "<" would end the script element that this stands in.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _telling(cells: Sequence[Sequence[int]]) -> list[int]:
    """The two axes that tell failing cases from others best: by the variance between their map's cells."""
    between: dict[tuple[int, int], float] = {}
    every = sum(cell[4] for cell in cells) or 1
    mean = sum(cell[5] for cell in cells) / every
    for a, _, b, _, count, bad in cells:
        between[a, b] = between.get((a, b), 0.0) + count * (bad / count - mean) ** 2
    best = max(between.items(), key=lambda one: (one[1], one[0]), default=((0, 1), 0.0))
    return list(best[0])
