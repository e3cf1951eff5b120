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
from wmmadiag.campaign.points import _sampled, counted, key_of, points, spaces
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


def pairs(found):
    """What values of sizes meet in points."""
    rows = [sorted(one.sizes.items()) for one in found]
    return {pair for row in rows for pair in itertools.combinations(row, 2)}


@pytest.mark.parametrize("required", ["M >= 2 * N", "M == N", "M % K == 0", "M + N > K"])
def test_every_two_values_meet_that_may(plan, required):
    subjects = replace(plan.subjects[0], requires=(required,))
    some = replace(plan, subjects=(subjects,), inputs=("normal",), seeds=(0,))
    _, full = of(replace(some, how="full"))
    space, found = of(some)
    assert all(space.allowed(one) for one in found)
    assert pairs(found) == pairs(full)
    assert len({str(one) for one in found}) == len(found)


def test_a_part_of_all_is_spread_over_them(plan):
    space, found = of(replace(plan, how="full", cases=24))
    assert len(found) == 24 < len(space)
    assert {one.sizes["M"] for one in found} == {16, 32, 48, 64}


def test_nothing_is_tried_where_nothing_is_launched(plan):
    subjects = replace(plan.subjects[0], sizes={"M": (0, 16), "N": (16,), "K": (0, 16)})
    _, found = of(replace(plan, subjects=(subjects,), inputs=("normal",), seeds=(0,), how="full"))
    assert [(one.sizes["M"], one.sizes["K"]) for one in found] == [(16, 0), (16, 16)]
    subjects = replace(subjects, sizes={"M": (0, 16, 32, 48), "N": (0, 16, 32), "K": (0, 16)})
    _, found = of(replace(plan, subjects=(subjects,)))
    assert {0} <= {one.sizes["K"] for one in found} and 0 not in {one.sizes["M"] for one in found}
    assert len({str(one) for one in found}) == len(found) < 2 * 3 * 2 * 2 * 2


def test_how_many_there_are_is_about_right(plan):
    for how in ("pairwise", "full"):
        space, found = of(replace(plan, how=how))
        assert abs(counted(replace(plan, how=how), space) - len(found)) <= len(found) / 4
    subjects = replace(plan.subjects[0], requires=("M >= 2 * N",))
    some = replace(plan, subjects=(subjects,), how="full")
    space, found = of(some)
    assert abs(counted(some, space) - len(found)) <= len(found) / 4
    assert counted(replace(some, cases=3), space) == 3


def test_which_points_a_plan_has(plan):
    space, found = of(replace(plan, how="full"))
    narrow, _ = of(replace(plan, subjects=(replace(plan.subjects[0], requires=("M > 16",)),)))
    assert all(map(space.has, found))
    assert [one for one in found if narrow.has(one)] == [one for one in found if one.sizes["M"] > 16]
    assert not space.has(replace(found[0], seed=9))
    assert not space.has(replace(found[0], sizes={"M": 16}))


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
