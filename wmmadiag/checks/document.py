"""Writes docs/checks.md from the checks' own words: `python -m wmmadiag.checks.document [FILE]`."""

from __future__ import annotations

import importlib
import pkgutil

from wmmadiag.checks.registry import Check
from wmmadiag.docstrings import prose_and_examples, write_page

_HEAD = """\
# Checks

`wmmadiag check --checks NAMES` runs these besides comparing numbers: `all`, `default`, `none`, or names with commas.
An *error* makes the case fail: results are wrong, or can be with another schedule or placement of the same run. A
*warning* is undefined or fragile, and harmless in this run. *Advice* is about speed.

This page is made by `python -m wmmadiag.checks.document`.
"""


def page() -> str:
    """The page as Markdown."""
    package = importlib.import_module("wmmadiag.checks")
    parts = [_HEAD]
    sections: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"wmmadiag.checks.{info.name}")
        check = getattr(module, "CHECK", None)
        if isinstance(check, Check):
            sections[check.name] = section(check, module.__doc__ or "")
    return "\n".join([*parts, *(sections[name] for name in sorted(sections))])


def section(check: Check, docstring: str) -> str:
    """One check's part of the page."""
    text, code = prose_and_examples(docstring)
    levels = "".join(f"- {level.value}: {when}\n" for level, when in check.levels.items())
    cost = {"free": "costs nothing", "low": "slows the run a little", "high": "slows the run noticeably"}[check.cost]
    usual = "by default" if check.default else "when asked for"
    return f"## {check.name}\n\n{check.summary}; runs {usual}, {cost}.\n\n{text}\n\n{levels}{code}"


def main() -> None:
    """Write the page."""
    write_page(page(), "docs/checks.md")


if __name__ == "__main__":
    main()
