"""Writes docs/checks.md from the checks' own words: `python -m wmmadiag.checks.document [FILE]`.

The table of what they find in small kernels, right and wrong, is made by `benchmarks/check_table.py`, and kept.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

from wmmadiag.checks.docstrings import prose_and_examples, write_page
from wmmadiag.checks.registry import Check

PAGE = "docs/checks.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- end of the table -->)", re.DOTALL)

_HEAD = """\
# Checks

`wmmadiag check --checks NAMES` runs these besides comparing numbers: `all`, `default`, `none`, or names with commas.
An *error* makes the case fail: results are wrong, or can be with another schedule or placement of the same run. A
*warning* is undefined or fragile, and harmless in this run. *Advice* is about speed.

This page is made by `python -m wmmadiag.checks.document`.

## What they find

Small kernels after the classes of public suites for race, memory and synchronisation checkers, written anew, with a bug
planted or right but tricky (`tests/checks/corpus/`), under the checks that run by default. *Flagged*: a finding names a
line of the bug; *false*: a finding in a right kernel. Measured by `python benchmarks/check_table.py --write`.

<!-- table -->

<!-- end of the table -->
"""


def with_table(text: str, table: str) -> str:
    """The page with this table in its place."""
    return _TABLE.sub(lambda _: table, text)


def table_of(text: str) -> str:
    """The table that a page holds, or ""."""
    found = _TABLE.search(text)
    return found[0] if found is not None else ""


def page(table: str = "") -> str:
    """The page as Markdown, with a table of what the checks find."""
    package = importlib.import_module("wmmadiag.checks")
    parts = [_HEAD]
    sections: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"wmmadiag.checks.{info.name}")
        check = getattr(module, "CHECK", None)
        if isinstance(check, Check):
            sections[check.name] = section(check, module.__doc__ or "")
    return with_table("\n".join([*parts, *(sections[name] for name in sorted(sections))]), table)


def section(check: Check, docstring: str) -> str:
    """One check's part of the page."""
    text, code = prose_and_examples(docstring)
    levels = "".join(f"- {level.value}: {when}\n" for level, when in check.levels.items())
    cost = {"free": "costs nothing", "low": "slows the run a little", "high": "slows the run noticeably"}[check.cost]
    usual = "by default" if check.default else "when asked for"
    return f"## {check.name}\n\n{check.summary}; runs {usual}, {cost}.\n\n{text}\n\n{levels}{code}"


def main() -> None:
    """Write the page."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else PAGE)
    write_page(page(table_of(path.read_text("utf-8")) if path.is_file() else ""), PAGE)


if __name__ == "__main__":
    main()
