"""Every hypothesis keeps to the contract, and its page is made of its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.diagnose.document import page
from wmmadiag.diagnose.faults.registry import all_fault_models
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.docstrings import prose_and_examples

PAGE = Path(__file__).parents[2] / "docs/hypotheses.md"


@pytest.mark.parametrize("name", all_hypotheses())
def test_each_hypothesis_has_a_title_words_and_examples(name: str) -> None:
    hypothesis = all_hypotheses()[name]
    assert hypothesis.id == name
    assert hypothesis.title
    assert not hypothesis.title.endswith(".")
    section = page().split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert "\nBad:\n" in section
    assert "\nGood:\n" in section


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m wmmadiag.diagnose.document"


def test_fault_models_say_what_they_change() -> None:
    rows = page().split("\n# Fault models\n")[1].split("\n# ")[0].count("\n| ") - 1
    assert rows == len(all_fault_models())
    assert "|  |" not in page()


def test_prose_and_examples() -> None:
    prose, code = prose_and_examples("What.\n\nBad:\n    a\n      b\n\nGood:\n    c\n")
    assert prose == "What."
    assert code == "\nBad:\n\n```cuda\na\n  b\n```\n\nGood:\n\n```cuda\nc\n```\n"
    assert prose_and_examples("Only words.") == ("Only words.", "")
