from __future__ import annotations

from dataclasses import replace

import pytest
from example_runs import full, run

from wmmadiag.report.comparison import compare_runs
from wmmadiag.report.comparison_text import render, verdict
from wmmadiag.results.run import KernelRun, Unchecked

RUN = full()
RIGHT = RUN.kernels[0].report.cases[0]
WRONG = RUN.kernels[0].report.cases[1]


def of(*cases, unchecked=()):
    report = replace(RUN.kernels[0].report, cases=tuple(cases))
    return run(KernelRun(report), unchecked=unchecked)


def status(case, word):
    return replace(case, status=word, variant="v", case="c")


@pytest.mark.parametrize(
    ("before", "after", "kind", "code"),
    [
        ("passed", "passed", "right", 0),
        ("passed", "failed", "new failure", 1),
        ("failed", "passed", "fixed", 0),
        ("failed", "failed", "still failing", 0),
        ("passed", "undecided", "worse status", 3),
        ("passed", "error", "worse status", 2),
        ("undecided", "failed", "new failure", 1),
        ("error", "failed", "new failure", 1),
        ("failed", "undecided", "still failing", 0),
        ("undecided", "undecided", "still failing", 0),
        (None, "failed", "new failure", 1),
        (None, "passed", "added", 0),
        ("failed", None, "gone", 0),
        ("passed", None, "gone", 0),
    ],
)
def test_what_became_of_a_case(before, after, kind, code):
    runs = [
        of(*([] if word is None else [status(RIGHT if word == "passed" else WRONG, word)])) for word in (before, after)
    ]
    compared = compare_runs(*runs)
    assert [one.kind for one in compared.changes] == [kind] and compared.exit_code == code


def notes(before, after):
    return compare_runs(of(before), of(after)).changes[0].notes


def test_error_work_and_time():
    assert notes(RIGHT, RIGHT) == ()
    seen = replace(RIGHT.observations[0], max_in_bounds=0.9)
    assert notes(RIGHT, replace(RIGHT, observations=(seen,))) == ("error up: 0.25 to 0.9 times the bound",)
    assert notes(RIGHT, replace(RIGHT, warp_instructions=65_016)) == ("work down: 130,032 to 65,016 warp instructions",)
    assert notes(RIGHT, replace(RIGHT, seconds=0.1)) == ()  # too short to mean anything
    assert notes(RIGHT, replace(RIGHT, seconds=2.0)) == ("time up: 0.00 to 2.00 s",)
    assert notes(RIGHT, replace(RIGHT, seed=1)) == ("other inputs or sizes than before",)
    fewer = replace(WRONG.observations[0], wrong=10)
    assert notes(WRONG, replace(WRONG, observations=(fewer,))) == ("fewer wrong elements: 513 to 10",)


def test_what_could_not_be_checked():
    gone = Unchecked("a.toml", "", "a.toml:1: no\nmore")
    assert compare_runs(of(RIGHT), of(RIGHT, unchecked=[gone])).exit_code == 2
    assert compare_runs(of(RIGHT, unchecked=[gone]), of(RIGHT, unchecked=[gone])).exit_code == 0


def test_other_versions_are_said():
    other = replace(RUN, versions={**RUN.versions, "NVRTC": "12.9"})
    assert "NVRTC 13.0 before, 12.9 now" in render(compare_runs(RUN, other)).replace("\n", " ")


def test_two_cards_of_one_name_are_told_apart():
    twice = run(RUN.kernels[0], RUN.kernels[0])
    assert len(compare_runs(twice, twice).changes) == 2 * len(RUN.kernels[0].report.cases)


def test_empty_runs():
    assert verdict(compare_runs(run(), run())) == "no case in either run" and compare_runs(run(), run()).exit_code == 0
