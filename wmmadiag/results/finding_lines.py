"""Findings as lines for a terminal: by cause, then by place; errors in full, the others folded when there are many."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.results.model import ReportedFinding
from wmmadiag.results.text import wrapped

FULL = 4
"""Findings of one cause that are told in full; of the others the place and the sentence, and at last their number."""
SHORT = 8


def finding_lines(findings: Sequence[ReportedFinding], *, verbose: bool = False) -> list[str]:
    """Lines for the findings of one case, in their order. Advice is told in one line each, unless verbose."""
    lines: list[str] = []
    for cause in dict.fromkeys((one.level, one.check) for one in findings):
        group = [one for one in findings if (one.level, one.check) == cause]
        for index, one in enumerate(group):
            if verbose or (index < FULL and one.level != "advice"):
                lines += _full(one)
            elif index < SHORT:
                lines += _head(one)
        if not verbose and len(group) > SHORT:
            lines.append(f"    ({len(group) - SHORT} more {cause[0]} findings of {cause[1]}; -v shows them)")
    return lines


def _head(one: ReportedFinding) -> list[str]:
    where = f"{one.place}: " if one.place else ""
    times = f" ({one.count} times)" if one.count > 1 else ""
    return wrapped(f"{one.level} [{one.check}]: {where}{one.message}{times}", "    ", "      ")


def _full(one: ReportedFinding) -> list[str]:
    lines = _head(one)
    if one.other:
        lines.append(f"      and {one.other}")
    for line in one.detail:
        lines += wrapped(line, "      ", "        ")
    if one.hint:
        lines += wrapped(f"next: {one.hint}", "      ", "        ")
    return lines
