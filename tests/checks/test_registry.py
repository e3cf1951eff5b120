"""Every check keeps to the contract, and its page is made of its own words."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from checks_page import page

from wmmadiag.checks import Finding, Level, all_checks, native_names, select
from wmmadiag.checks.registry import merged
from wmmadiag.errors import ConfigurationError
from wmmadiag.place import Place

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", all_checks())
def test_each_check_has_words_levels_and_examples(name):
    check = all_checks()[name]
    assert check.name == name == name.lower()
    assert check.summary and check.levels
    assert bool(check.native) == (check.describe is not None) or not check.native
    assert f"## {name}\n" in page()
    text = page().split(f"## {name}\n")[1].split("\n## ")[0]
    assert "\nBad:\n" in text and "\nGood:\n" in text


def test_the_page_is_up_to_date():
    written = (ROOT / "docs/checks.md").read_text("utf-8")
    assert written == page(), "run python scripts/pages"


def test_select():
    everything = {check.name for check in select("all")}
    assert {"races", "async", "barriers"} <= everything
    assert select("none") == select("") == ()
    assert [check.name for check in select("races, async")] == ["async", "races"]
    assert {check.name for check in select(["default", "races"])} <= everything
    assert native_names(select("races,async")) == ("races",)
    with pytest.raises(ConfigurationError, match="unknown check 'race'") as error:
        select("race")
    assert "races" in error.value.hint


def test_merged_adds_counts_and_puts_errors_first():
    def one(level, line, count, detail):
        return Finding("c", "k", level, "m", Place("f.cu", line), None, count, (detail,))

    found = merged([one(Level.ADVICE, 1, 1, "a"), one(Level.ERROR, 9, 2, "b"), one(Level.ERROR, 9, 3, "c")])
    assert [(f.level, f.count, f.detail) for f in found] == [(Level.ERROR, 5, ("b",)), (Level.ADVICE, 1, ("a",))]


def test_a_check_is_its_own_module():
    for name, check in all_checks().items():
        owners = [
            path.stem
            for path in (ROOT / "wmmadiag/checks").glob("*.py")
            if getattr(importlib.import_module(f"wmmadiag.checks.{path.stem}"), "CHECK", None) is check
            and not path.stem.startswith("__")
        ]
        assert len(owners) == 1, name
