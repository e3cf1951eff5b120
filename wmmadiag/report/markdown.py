"""A run as GitHub-flavoured Markdown, for a comment on a pull request: short at first sight, details folded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import tabulate

from wmmadiag.report.terminal import case_text
from wmmadiag.report.terminal_diagnosis import fix_effect, how_sure, work_line
from wmmadiag.results.brief import brief
from wmmadiag.results.diagnosis import Cause, Diagnosis
from wmmadiag.results.model import CaseResult, Status
from wmmadiag.results.run import KernelRun, Run
from wmmadiag.results.text import one_line, visible

LIMIT = 60_000
"""Bytes of UTF-8. GitHub takes 65,536 characters for a comment; the rest is room for what others put around it."""
MAX_ROWS = 60

_WORDS: dict[Status, str] = {
    "passed": "✅ right",
    "failed": "❌ wrong",
    "undecided": "❔ undecided",
    "error": "⚠️ error",
}
# What has a meaning in GitHub-flavoured Markdown's text. Mentions and references are cut by an empty comment, since
# neither backslash nor entity keeps them from calling people.
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<!\w)_|_(?!\w)")
_CALLS = re.compile(r"([@#])(?=\w)|\b(GH-)(?=\d)|(https?:|www\.)")


def escaped(text: str) -> str:
    """Text as text: no markup, no mention, no line break."""
    plain = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = _SPECIAL.sub(lambda found: "\\" + found[0], plain)
    plain = _CALLS.sub(lambda found: f"{found[0]}<!-- -->", plain)
    return re.sub(r"^([-+=]|\d+[.)])", r"<!-- -->\1", plain)


def code(text: str) -> str:
    """Text as a code span, in more backticks than it holds in a row; "|" only as tables allow it."""
    plain = one_line(text)
    if not plain:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}"


def _cell(text: str) -> str:
    """A code span in a table: there even a code span's | must be escaped (GFM section 4.10)."""
    return code(text).replace("|", "\\|")


def fenced(text: str, language: str = "") -> str:
    """A code block, in a fence longer than any in the text."""
    body = visible(text).rstrip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}\n"


def tabled(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """A table without padding: it would cost bytes, and depends on what is known of the characters' widths."""
    lines = tabulate(rows, headers, "github", disable_numparse=True).split("\n")
    lines[1] = re.sub(r"-+", "---", lines[1])
    return "\n".join(re.sub(r" {2,}", " ", line) for line in lines) + "\n"


def folded(title: str, body: str) -> str:
    """A part that opens on a click; `title` is Markdown-free HTML."""
    return f"<details>\n<summary>{title}</summary>\n\n{body.rstrip()}\n\n</details>\n"


def render(run: Run, *, limit: int = LIMIT) -> str:
    """Markdown of at most `limit` bytes; what does not fit is counted."""
    head = [_headline(run), _table(run)]
    parts = [_failure(kernel, case) for kernel, case in _worth_telling(run)]
    tail = _tail(run)
    used = sum(len(part.encode()) + 1 for part in [*head, tail]) + 200
    kept: list[str] = []
    for short, full in parts:
        part = full if used + len(full.encode()) + 1 <= limit else short
        if used + len(part.encode()) + 1 > limit:
            break
        kept.append(part)
        used += len(part.encode()) + 1
    left = len(parts) - len(kept)
    rest = [f"… and {left} more that did not fit; the JSON or HTML report has them.\n"] if left else []
    return "\n".join(part for part in [*head, *kept, *rest, tail] if part)


def _headline(run: Run) -> str:
    cases = [case for kernel in run.kernels for case in kernel.report.cases]
    words: dict[Status, str] = {"failed": "wrong", "error": "in error", "undecided": "undecided", "passed": "right"}
    counts = [(sum(case.status == status for case in cases), word) for status, word in words.items()]
    counted = ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing was checked"
    if run.unchecked:
        counted += f"; {len(run.unchecked)} could not be checked"
    mark = _WORDS[run.status].split()[0]
    return f"### {mark} wmmadiag: {counted}\n"


def _table(run: Run) -> str:
    rows = []
    wanted = [(kernel, case) for kernel in run.kernels for case in kernel.report.cases]
    order: dict[Status, int] = {"failed": 0, "error": 1, "undecided": 2, "passed": 3}
    for kernel, case in sorted(wanted, key=lambda one: order[one[1].status])[:MAX_ROWS]:
        report = kernel.report
        rows.append(
            [
                _WORDS[case.status],
                _cell(report.name[:60]),
                escaped(report.arch),
                _cell(case.title[:60]),
                escaped(_cut(brief(case), 120)),
                f"{case.seconds:.3f}",
            ]
        )
    rows += [
        [_WORDS[one.status], _cell(one.path[-60:]), escaped(one.arch), "", escaped(_cut(one.first_line, 160)), ""]
        for one in run.unchecked[:MAX_ROWS]
    ]
    if not rows:
        return ""
    hidden = len(wanted) - MAX_ROWS
    table = tabled(rows, ["", "kernel", "arch", "variant / case", "", "seconds"])
    return table + (f"\n… and {hidden} more cases.\n" if hidden > 0 else "")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _worth_telling(run: Run) -> list[tuple[KernelRun, CaseResult]]:
    """One case for each thing to tell: of a variant the diagnosed or else the first wrong one, then the next."""
    found = [(kernel, case) for kernel in run.kernels for case in kernel.report.cases if case.status != "passed"]
    first: dict[tuple[int, str], int] = {}
    ranked = []
    for position, (kernel, case) in enumerate(found):
        key = (id(kernel), case.variant)
        diagnosis = kernel.diagnosis(case.variant, case.case)
        own = diagnosis is not None and diagnosis.case == case.case
        rank = 0 if own else first.get(key, 1)
        first[key] = 2
        ranked.append((rank, position))
    return [found[position] for _, position in sorted(ranked)]


def _failure(kernel: KernelRun, case: CaseResult) -> tuple[str, str]:
    """A case's part without and with its folds."""
    report = kernel.report
    title = f"#### {escaped(report.name)}, {code(case.title)}, {escaped(report.arch)}\n"
    diagnosis = kernel.diagnosis(case.variant, case.case)
    own = diagnosis is not None and diagnosis.case == case.case
    lines = [title]
    if diagnosis is not None and own:
        lines.append(_diagnosis(diagnosis))
    else:
        lines.append(escaped(_cut(brief(case), 400)) + "\n")
        place = case.problem.place if case.problem is not None else ""
        if place:
            lines.append(f"at {code(place)}\n")
    if report.assumed:
        lines.append("\n".join(f"- only if this holds: {escaped(one)}" for one in report.assumed) + "\n")
    if case.repeat:
        lines.append(f"Repeat: {code(case.repeat)}\n")
    short = "\n".join(lines)
    folds = [folded("numbers, tiles and findings", fenced(case_text(report, case), "text"))]
    if diagnosis is not None and own and diagnosis.tested:
        folds.insert(0, folded("what else was tested", _tested(diagnosis)))
    return short, "\n".join([short, *folds])


def _diagnosis(diagnosis: Diagnosis) -> str:
    parts = [f"**{escaped(diagnosis.title)}**\n"]
    for cause in diagnosis.causes:
        parts.append(_cause(cause, not diagnosis.told_by_headline))
    if not diagnosis.causes and diagnosis.symptoms:
        parts.append("\n".join(f"- {escaped(line)}" for line in diagnosis.symptoms) + "\n")
    if work_line(diagnosis):
        parts.append(escaped(work_line(diagnosis)) + "\n")
    return "\n".join(parts)


def _cause(cause: Cause, sentence: bool) -> str:
    share = f", explains {cause.explains} of {cause.of} wrong elements" if cause.of else ""
    lines = [f"{escaped(cause.sentence) + ' ' if sentence else ''}({how_sure(cause)}{share})\n"]
    if cause.place:
        lines.append(f"{code(cause.place)}" + (f" and {code(cause.other)}" if cause.other else "") + "\n")
    if cause.excerpt is not None:
        width = len(str(cause.excerpt.first + len(cause.excerpt.lines)))
        shown = [
            f"{'>' if at in cause.excerpt.marked else ' '} {at:>{width}}  {text}"
            for at, text in enumerate(cause.excerpt.lines, cause.excerpt.first)
        ]
        lines.append(fenced("\n".join(shown), "cuda"))
    if cause.evidence:
        lines.append("\n".join(f"- {escaped(line)}" for line in cause.evidence) + "\n")
    if cause.fix is not None:
        words = {"verified": "Fix, tried and right", "improves": "Helps, but not enough", "suggestion": "Suggested fix"}
        lines.append(f"**{words[cause.fix.status]}**: {escaped(cause.fix.summary)}\n")
        if cause.fix.diff:
            lines.append(fenced(cause.fix.diff, "diff"))
        more = [text for text in (fix_effect(cause.fix), cause.fix.note) if text]
        lines += [escaped(text) + "\n" for text in more]
    if cause.readings:
        lines.append(
            "These make the case right as well:\n\n" + "\n".join(f"- {escaped(line)}" for line in cause.readings) + "\n"
        )
    return "\n".join(lines)


def _tested(diagnosis: Diagnosis) -> str:
    rows = [
        [{"refuted": "ruled out"}.get(one.verdict, one.verdict), escaped(one.title), escaped(one.reason)]
        for one in diagnosis.tested
    ]
    return tabled(rows, ["", "what", "how that is known"])


def _tail(run: Run) -> str:
    found = [(escaped(name), escaped(version)) for name, version in run.versions.items()]
    for kernel in run.kernels:
        found += [(escaped(_cut(one.path, 100)), f"sha256 {one.sha256[:16]}") for one in kernel.sources]
    rows = list(dict.fromkeys(found))[:40]
    command = f"{code(_cut(run.command, 2000))}\n\n" if run.command else ""
    body = command + tabled(rows, ["what", "version"])
    return folded("what was run", body) if run.command or rows else ""
