"""docs/checks.md, from the checks' own words: prose, then sections "Bad:" and "Good:" with an example each.

The table of what they find in small kernels, right and wrong, is made by `benchmarks/check_table.py`, and kept.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path

from wmmadiag.checks.registry import Check

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
_TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- end of the table -->)", re.DOTALL)

_HEAD = """\
# Checks

`wmmadiag check --checks NAMES` runs these besides comparing numbers: `all`, `default`, `none`, or names with commas.
An *error* makes the case fail: results are wrong, or can be with another schedule or placement of the same run. A
*warning* is undefined or fragile, and harmless in this run. *Advice* is about speed.

This page is made by `python scripts/pages`.

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


def page(table: str | None = None) -> str:
    """The page as Markdown, with a table of what the checks find; None: the one that it holds."""
    package = importlib.import_module("wmmadiag.checks")
    sections: dict[str, str] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"wmmadiag.checks.{info.name}")
        check = getattr(module, "CHECK", None)
        if isinstance(check, Check):
            sections[check.name] = section(check, module.__doc__ or "")
    found = _TABLE.search(PAGE.read_text("utf-8")) if table is None else None
    kept = table or (found[0] if found is not None else "")
    return with_table("\n".join([_HEAD, *(sections[name] for name in sorted(sections))]), kept)


def section(check: Check, docstring: str) -> str:
    """One check's part of the page."""
    text, *examples = re.split(r"^(Bad|Good):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    code = "".join(
        f"\n{word}:\n\n```cuda\n{textwrap.dedent(body).strip()}\n```\n"
        for word, body in zip(examples[::2], examples[1::2], strict=True)
    )
    levels = "".join(f"- {level.value}: {when}\n" for level, when in check.levels.items())
    cost = {"free": "costs nothing", "low": "slows the run a little", "high": "slows the run noticeably"}[check.cost]
    usual = "by default" if check.default else "when asked for"
    return f"## {check.name}\n\n{check.summary}; runs {usual}, {cost}.\n\n{text.strip()}\n\n{levels}{code}"
