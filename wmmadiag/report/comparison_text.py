"""A comparison of two runs as text for a terminal, and as Markdown."""

from __future__ import annotations

from wmmadiag.report.comparison import CaseChange, ChangeKind, RunComparison
from wmmadiag.report.markdown import LIMIT, escaped, folded, tabled
from wmmadiag.results.text import wrapped_line

_TITLES: dict[ChangeKind, str] = {
    "new failure": "new failures",
    "worse status": "not right any more (undecided, or in error)",
    "fixed": "fixed",
    "still failing": "still failing",
    "gone": "gone",
    "added": "new and right",
    "right": "right in both",
}
_QUIET: tuple[ChangeKind, ...] = ("right", "added")
_COLOURS: dict[ChangeKind, str] = {"new failure": "31;1", "worse status": "33;1", "fixed": "32"}


def verdict(compared: RunComparison) -> str:
    """All of it in one line."""
    counts = [(len(compared.of(kind)), title) for kind, title in _TITLES.items()]
    words = [
        f"{count} {title if count > 1 else title.replace('failures', 'failure')}" for count, title in counts if count
    ]
    return ", ".join(words) or "no case in either run"


def render(compared: RunComparison, *, colour: bool = False, verbose: bool = False) -> str:
    """Text of 80 columns, ending with a newline; of cases that are right in both only those that changed."""
    lines: list[str] = []
    for kind, title in _TITLES.items():
        shown = [one for one in compared.of(kind) if verbose or kind not in _QUIET or one.notes]
        if not shown:
            continue
        code = _COLOURS.get(kind, "")
        lines.append(f"\x1b[{code}m{title}\x1b[0m" if colour and code else title)
        for one in shown:
            lines += wrapped_line(_name(one), "  ", "      ")
            for text in [one.what, *one.notes]:
                lines += wrapped_line(text, "      ", "        ") if text else []
        lines.append("")
    lines += [line for remark in compared.remarks for line in wrapped_line(f"note: {remark}", "", "  ")]
    lines += wrapped_line(verdict(compared), "", "  ")
    return "\n".join(lines) + "\n"


def render_markdown(compared: RunComparison) -> str:
    """Markdown for a comment on a pull request; what is right in both is folded."""
    mark = {0: "✅", 1: "❌", 2: "⚠️", 3: "❔"}[compared.exit_code]
    parts = [f"### {mark} wmmadiag, what changed: {escaped(verdict(compared))}\n"]
    for kind, title in _TITLES.items():
        table = _table(compared.of(kind), kind)
        if table:
            fold = kind in _QUIET
            parts.append(folded(f"{title}: {len(compared.of(kind))}", table) if fold else f"#### {title}\n\n{table}")
    parts += [f"Note: {escaped(remark)}\n" for remark in compared.remarks]
    text = ""
    for part in parts:
        if len((text + part).encode()) > LIMIT:
            return text + "\n… the rest did not fit.\n"
        text += part + "\n"
    return text


def _table(changes: tuple[CaseChange, ...], kind: ChangeKind) -> str:
    if not changes:
        return ""
    rows = [
        [escaped(_name(one)), escaped("; ".join(text for text in (one.what, *one.notes) if text))] for one in changes
    ]
    shown = rows[:100]
    titles = ["case", "what it was" if kind in ("fixed", "gone") else "what"]
    more = f"\n… and {len(rows) - len(shown)} more.\n" if len(rows) > len(shown) else ""
    return tabled(shown, titles) + more


def _name(change: CaseChange) -> str:
    kernel, arch, variant, case = change.key
    about = f", {variant} / {case}" if case else ""
    return f"{kernel}{about}" + (f", {arch}" if arch else "")
