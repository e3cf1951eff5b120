"""A campaign as GitHub-flavoured Markdown: for a job's summary, or a comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from wmmadiag.campaign.explain import one_each
from wmmadiag.report.campaign.terminal import counts, numbered
from wmmadiag.report.markdown import code, escaped

if TYPE_CHECKING:
    from wmmadiag.campaign.changes import Changes
    from wmmadiag.campaign.run import Campaign

_ROWS = 60
_CHANGED = 20
_STATUSES = ("passed", "failed", "undecided", "error", "accepted")


def render(campaign: Campaign) -> str:
    """The whole campaign, ending with a newline."""
    tally = campaign.tally
    mark = {0: "✅", 1: "❌", 2: "⚠️", 3: "❔"}[tally.exit_code]
    parts = [f"## {mark} {escaped(campaign.plan.name)}: {counts(campaign)}"]
    if campaign.since is not None:
        parts.append(_since(campaign.since))
    for first, others in one_each(campaign.findings.values()):
        failures = tally.groups.get(first.group)
        said = [f"### {code(first.subject)}: {escaped(', '.join(first.failures))}"]
        alike = f", and {numbered(len(others), 'group')} alike" if others else ""
        said.append(numbered(failures.count if failures else 1, "case") + alike)
        said.append(f"Smallest: {code(first.example.point.name())}: {escaped(first.example.message)}")
        if first.sentence:
            said.append(f"**{escaped(first.verdict or 'seen')}**: {escaped(first.sentence)} ({code(first.place)})")
        if first.change:
            said.append(
                f"<details><summary>a change that mends it</summary>\n\n```diff\n{first.change}\n```\n</details>"
            )
        said.append(code(first.command))
        parts.append("\n\n".join(said))
    rows = [
        [code(subject), *(f"{found[status]:,}" if found[status] else "" for status in _STATUSES)]
        for subject, found in sorted(tally.subjects.items(), key=lambda item: (-item[1]["failed"], item[0]))
    ]
    heads = ["subject", "right", "wrong", "undecided", "error", "known"]
    parts.append(str(tabulate(rows[:_ROWS], headers=heads, tablefmt="github", disable_numparse=True)))
    if len(rows) > _ROWS:
        parts.append(f"… and {len(rows) - _ROWS} more subjects")
    return "\n\n".join(parts) + "\n"


def _since(since: Changes) -> str:
    rows = [f"- {what}: {code(name)}" for what, names in (("new", since.new), ("gone", since.gone)) for name in names]
    more = [f"- … and {len(rows) - _CHANGED:,} more"] if len(rows) > _CHANGED else []
    return "\n".join([f"{escaped(since.head)}", *([""] if rows else []), *rows[:_CHANGED], *more])
