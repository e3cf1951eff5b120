"""What the benchmark of the diagnosis counts."""

from __future__ import annotations

import difflib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.results.diagnosis import Cause, Diagnosis, Fix

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from diagnosis import cards, line_of, scored, summary, tables  # noqa: E402 - not a package

TRUTH = {"cause": "leading-dimension", "lines": [7, 8], "one_edit": True}
CAUSE = Cause("leading-dimension", "proven", "wrong pitch", place="/k/a.cu:7:3", fix=Fix("pass LD", status="verified"))
FOUND = Diagnosis(
    name="k",
    card="a.toml",
    source="/k/a.cu",
    operation="gemm",
    arch="sm_90",
    backend="emulator",
    variant="",
    case="one",
    outcome="diagnosed",
    headline="",
    causes=(CAUSE,),
)


def judged(*, outcome="diagnosed", truth=TRUTH, **changes):
    found = replace(FOUND, outcome=outcome, causes=(replace(CAUSE, **changes),))
    return scored("gemm/wrong/a.toml", truth, found, 1.5)


def test_all_is_well():
    one = judged()
    assert (one.family, one.truth, one.said) == ("gemm", "leading-dimension", "leading-dimension")
    assert (one.detected, one.cause, one.misled, one.line, one.fixed) == (True, True, False, True, True)
    assert "<" not in line_of(one)


@pytest.mark.parametrize(
    ("changes", "cause", "likely", "misled", "line", "fixed"),
    [
        ({"name": "another-name"}, True, False, False, True, True),
        ({"verdict": "likely"}, False, True, False, True, True),
        ({"verdict": "undecided"}, False, False, False, True, True),
        ({"place": "/k/a.cu:9:3"}, False, False, True, False, True),
        ({"place": "/k/a.cu:9:3", "verdict": "likely"}, False, False, False, False, True),
        ({"place": "/k/other.cuh:7:3"}, False, False, True, False, True),
        ({"place": ""}, False, False, True, False, True),
        ({"place": "/k/a.cu:9", "other": "/k/a.cu:8"}, True, False, False, True, True),
        ({"fix": None}, True, False, False, True, False),
        ({"fix": Fix("pass LD", status="improves")}, True, False, False, True, False),
    ],
)
def test_each_column_on_its_own(changes, cause, likely, misled, line, fixed):
    one = judged(**changes)
    assert (one.cause, one.likely, one.misled, one.line, one.fixed) == (cause, likely, misled, line, fixed)
    assert ("< leading-dimension" in line_of(one)) == (not (cause and line and fixed))


def test_either_of_two_bugs_may_come_first_and_both_count_where_both_are_named():
    truth = {**TRUTH, "second": {"cause": "condition", "lines": [20]}}
    one = judged(truth=truth, place="/k/a.cu:20:1")
    assert one.cause and one.line and one.two and not one.both
    both = replace(FOUND, causes=(replace(CAUSE, place="/k/a.cu:20:1"), CAUSE))
    assert scored("gemm/wrong/a.toml", truth, both, 1.5).both
    open_ = replace(FOUND, causes=(replace(CAUSE, place="/k/a.cu:20:1"), replace(CAUSE, verdict="undecided")))
    assert not scored("gemm/wrong/a.toml", truth, open_, 1.5).both


@pytest.mark.parametrize(
    ("line", "new", "undone"),
    [(2, "a = 2;  // right", True), (2, "a = 3;", False), (1, "int x = 2;", False), (7, "int g = 9;", True)],
)
def test_a_change_undoes_a_bug_if_the_source_is_right_again_or_the_truths_lines_alone_changed(
    tmp_path, line, new, undone
):
    wrong = ["int x;", "a = 1;", "int c;", "int d;", "int e;", "int f;", "int g;", "int h;"]
    path = tmp_path / "a.cu"
    path.write_text("\n".join(wrong), "utf-8")
    made = [*wrong[: line - 1], new, *wrong[line:]]
    diff = "\n".join(difflib.unified_diff(wrong, made, "a/a.cu", "b/a.cu", lineterm="")) + "\n"
    cause = replace(CAUSE, place=f"{path}:{line}", fix=Fix("", diff, "verified"))
    found = replace(FOUND, source=str(path), causes=(cause,))
    right = "\n".join([wrong[0], "a = 2;", *wrong[2:]])
    assert scored("gemm/wrong/a.toml", TRUTH, found, 1.0, right).undone == undone


def test_right_kernels_raise_alarms():
    right, alarm = (judged(truth=None, outcome=outcome) for outcome in ("right", "undecided"))
    assert summary([right, alarm])[-3] == "1/2 (50%)"
    assert line_of(right).startswith("ok")
    assert line_of(alarm).startswith("ALARM")


def test_sums():
    scores = [judged(), judged(fix=None), judged(truth={**TRUTH, "one_edit": False}, fix=None, place="")]
    row = summary([*scores, replace(scores[0], outcome="right", detected=False, seconds=9.0)])
    shares = ["3/4 (75%)", "3/4 (75%)", "0/4 (0%)", "1/4 (25%)", "3/4 (75%)", "-", "2/3 (67%)", "0/2 (0%)"]
    assert row == ["4", *shares, "-", "1.5, 9.0", "0, 0"]
    assert "leading-dimension" in tables(scores)


def test_every_card_is_found_once():
    found = list(cards(ROOT / "kernels", ()))
    assert len(found) == len(set(found))
    assert not [path for path in found if path.name.endswith(".truth.toml")]
    shown = {path.relative_to(ROOT / "kernels").as_posix() for path in found}
    assert {"gemm/kernel.toml", "gemm/tf32.toml", "qkt/lookalike/direct.toml", "gemm/wrong/a_ldm_is_m.toml"} <= shown
    assert [path.stem for path in cards(ROOT / "kernels", ["gemm/wrong/a_ldm"])] == ["a_ldm_is_m"]
