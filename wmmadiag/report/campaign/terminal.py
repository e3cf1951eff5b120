"""A campaign for the terminal: its numbers, then what is wrong, each cause once."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from wmmadiag.campaign.explain import one_each

if TYPE_CHECKING:
    from wmmadiag.campaign.explain import CampaignFinding
    from wmmadiag.campaign.run import Campaign

_WORDS = {"passed": "right", "failed": "WRONG", "undecided": "undecided", "error": "in error", "accepted": "known"}


def counts(campaign: Campaign) -> str:
    """ "1,204 cases: 1,190 right, 14 WRONG"."""
    found = campaign.tally.statuses
    parts = [f"{found[status]:,} {word}" for status, word in _WORDS.items() if found[status]]
    return f"{numbered(campaign.tally.cases, 'case')}: {', '.join(parts) or 'none'}"


def numbered(number: int, what: str) -> str:
    """ "1,204 cases", "1 case"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def render(campaign: Campaign, *, verbose: bool = False) -> str:
    """The whole campaign, 80 columns, ending with a newline.

    Args:
        verbose: every failing case that a report lists, too, and how many cases of each kernel are right.
    """
    lines = []
    for number, (first, others) in enumerate(one_each(campaign.findings.values()), 1):
        lines += [f"{number}. {line}" if at == 0 else f"   {line}" for at, line in enumerate(_finding(first, campaign))]
        failing = sum(campaign.tally.groups[one.group].count for one in others)
        if others:
            lines.append(f"   the same in {numbered(failing, 'case')} of {numbered(len(others), 'other group')}")
        lines.append("")
    if campaign.damaged:
        lines.append(f"{len(campaign.damaged)} damaged lines of the journal were not counted; their cases ran again")
    if campaign.repeated:
        lines.append(f"{campaign.repeated:,} results of earlier kernels, plans or versions were not counted")
    if verbose:
        for one in campaign.tally.listed:
            lines += _wrapped(f"{_WORDS[one.status]}: {one.point.name()}: {one.message}", 80, "  ")
        by_name = sorted(campaign.tally.subjects.items())
        lines += [f"{name}: {found['passed']:,} of {sum(found.values()):,} right" for name, found in by_name]
    since = campaign.since.lines() if campaign.since is not None else []
    return "\n".join([*lines, *since, counts(campaign)]) + "\n"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines in which paths and commands stay whole."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _finding(one: CampaignFinding, campaign: Campaign) -> list[str]:
    failures = campaign.tally.groups.get(one.group)
    count = failures.count if failures is not None else 1
    lines = [f"{one.subject}: {', '.join(one.failures)} in {numbered(count, 'case')}"]
    lines += _wrapped(f"smallest: {one.example.point.name()}: {one.example.message}", 77)
    if one.sentence:
        lines += _wrapped(f"{one.verdict or 'seen'}: {one.sentence} [{one.cause}]", 77)
    if one.place:
        lines.append(f"at {one.place}")
    lines.append(f"repeat: {one.command}")
    return lines
