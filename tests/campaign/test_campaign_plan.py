"""Plans: what they say, and what is said of their mistakes."""

from __future__ import annotations

import pytest
from small_kernels import write_right

from wmmadiag.campaign.plan import read_plan
from wmmadiag.campaign.points import spaces
from wmmadiag.campaign.sizes import SizeRange
from wmmadiag.errors import ConfigurationError


def planned(folder, text):
    path = folder / "plan.toml"
    path.write_text(text)
    return read_plan(path)


def test_what_a_plan_says(tmp_path):
    plan = planned(
        tmp_path,
        """
        name = "all"
        [[subjects]]
        paths = ["right.toml"]
        sizes = { M = { range = "16..64", multiple_of = 16 }, N = "1..9", K = [16, "M"] }
        requires = ["M >= N"]
        [axes]
        arch = ["sm_80", "sm_90"]
        inputs = ["normal", "positive"]
        seeds = 3
        schedules = [0, 2]
        [cover]
        how = "random"
        cases = 10
        """,
    )
    (subjects,) = plan.subjects
    assert subjects.sizes == {"M": SizeRange(16, 64, 16), "N": SizeRange(1, 9), "K": (16, "M")}
    assert (plan.name, plan.arches, plan.seeds, plan.schedules) == ("all", ("sm_80", "sm_90"), range(3), (0, 2))
    assert (plan.how, plan.cases, subjects.requires) == ("random", 10, ("M >= N",))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("name = 'x'", 1, "names no subjects"),
        ("[[subjects]]\nsizes = {}", 1, "paths"),
        ("[[subjects]]\npaths = []", 2, "empty"),
        ("[[subjects]]\npaths = ['a']\nsize = {}", 3, "unknown key 'size'"),
        ("[[subjects]]\npaths = ['a']\nsizes = { M = '9..1' }", 3, "no size lies in 9..1"),
        ("[[subjects]]\npaths = ['a']\nsizes = { M = 'all' }", 3, "no range"),
        ("[[subjects]]\npaths = ['a']\nsizes = { M = 3 }", 3, "which sizes"),
        ("[[subjects]]\npaths = ['a']\nwrong = 1", 3, "true or false"),
        ("[[subjects]]\npaths = ['a']\nmain = 'no'", 3, "true or false"),
        ("[[subjects]]\npaths = ['a']\n[axes]\ninputs = ['normal', 'norml']", 4, "unknown inputs 'norml'"),
        ("[[subjects]]\npaths = ['a']\nsizes = { M = ['N*'] }", 3, "no.* arithmetic expression"),
        ("[[subjects]]\npaths = ['a']\nrequires = ['M %']", 3, "no.* arithmetic expression"),
        ("[[subjects]]\npaths = ['a']\n[axes]\narch = []", 4, "'arch' is empty"),
        ("[[subjects]]\npaths = ['a']\n[run]\nchecks = 'raices'", 4, "unknown check 'raices'"),
        ("[[subjects]]\npaths = ['a']\n[axes]\nseeds = [-1]", 4, "whole numbers"),
        ("[[subjects]]\npaths = ['a']\n[cover]\nhow = 'random'", 4, "needs its size"),
        ("[[subjects]]\npaths = ['a']\n[axes]\ndisplaced = [16]\n[run]\nbackend = 'gpu'", 4, "emulator only"),
    ],
)
def test_a_mistake_has_its_line(tmp_path, text, line, words):
    with pytest.raises(ConfigurationError, match=words) as told:
        planned(tmp_path, text)
    assert told.value.place is not None and told.value.place.line == line


def test_a_size_that_no_subject_has(tmp_path):
    write_right(tmp_path)
    plan = planned(tmp_path, "[[subjects]]\npaths = ['right.toml']\nsizes = { S = '1..9' }")
    with pytest.raises(ConfigurationError, match="no case of these subjects has a symbol 'S'") as told:
        spaces(plan, plan.subjects[0])
    assert "K, M, N" in told.value.hint
