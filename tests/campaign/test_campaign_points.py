"""Which cases a plan makes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_kernels import write_right

from wmmadiag.campaign.plan import Plan, Subjects
from wmmadiag.campaign.points import _sampled, key_of, points, spaces
from wmmadiag.place import Place


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    write_right(folder)
    sizes = {"M": (16, 32, 48, 64), "N": (16, 32, 48), "K": (16, 32)}
    subjects = Subjects((folder / "right.toml",), Place("", 1), sizes)
    return Plan(folder / "plan.toml", "all", (subjects,), inputs=("normal", "positive"), seeds=(0, 1))


def of(plan: Plan):
    (space,) = spaces(plan, plan.subjects[0])
    return space, list(points(plan, space))


def test_all_with_all(plan):
    space, found = of(replace(plan, how="full"))
    assert len(found) == len(space) == 4 * 3 * 2 * 2 * 2  # the two cases of the card differ in sizes only
    assert len(set(map(str, found))) == len(found)


def test_every_two_values_meet(plan):
    _, found = of(replace(plan, how="pairwise"))
    assert len(found) < 4 * 3 * 2 * 2 * 2 / 4
    axes = {"M": (16, 32, 48, 64), "N": (16, 32, 48), "K": (16, 32), "inputs": ("normal", "positive"), "seed": (0, 1)}
    rows = [{**one.sizes, "inputs": one.inputs, "seed": one.seed} for one in found]
    for (a, first), (b, second) in itertools.combinations(axes.items(), 2):
        met = {(row[a], row[b]) for row in rows}
        assert met == set(itertools.product(first, second)), (a, b)


def test_a_sample(plan):
    _, found = of(replace(plan, how="random", cases=20))
    _, again = of(replace(plan, how="random", cases=20))
    _, other = of(replace(plan, how="random", cases=20, seed=1))
    assert found == again != other
    assert len(set(map(str, found))) == 20


def test_what_is_required(plan):
    subjects = replace(plan.subjects[0], requires=("M >= 2 * N",))
    _, found = of(replace(plan, subjects=(subjects,), how="full"))
    assert found and all(one.sizes["M"] >= 2 * one.sizes["N"] for one in found)


@given(st.integers(1, 3000), st.integers(0, 5))
def test_a_sample_of_all_is_each_once(count, seed):
    assert sorted(_sampled(count, seed)) == list(range(count))


def test_a_case_has_another_key_once_its_kernel_has_changed(plan):
    _, found = of(plan)
    assert key_of(found[0], "a") == key_of(replace(found[0]), "a")
    assert len({key_of(found[0], "a"), key_of(found[0], "b"), key_of(found[1], "a")}) == 3


def test_names_are_relative_to_the_plan(plan):
    _, found = of(plan)
    assert found[0].subject == "right.toml" and Path(found[0].subject).name in found[0].name()
