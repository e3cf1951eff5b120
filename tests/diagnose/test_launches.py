"""A launch that does not fit its kernel is a cause like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.engine import case_bench
from wmmadiag.diagnose.launches import launches, mending_launches, tried_launches
from wmmadiag.diagnose.suspicion import Suspicion
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.place import Place
from wmmadiag.subject.bench import Workbench
from wmmadiag.subject.card import Case, LaunchShape
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"


def bench_of(name: str, **changed: object) -> Workbench:
    card = load_card(KERNELS / f"{name}.toml")
    assert card.launch is not None
    card = replace(card, launch=replace(card.launch, **changed))
    return case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)


def failing(bench: Workbench) -> Case:
    return next(case for case in bench.cases() if bench.run(case).wrong_count)


def answers(bench: Workbench) -> list[Confirmed]:
    case = failing(bench)
    trials = TrialBench(bench.card, bench.variant, case)
    assert bench.card.launch is not None
    found = mending_launches(tried_launches(trials, bench.card.launch), Suspicion({}), bench.card.launch)
    cases = sorted(bench.cases(), key=lambda one: one.name != case.name)
    baseline = {one.name: bench.run(one) for one in cases}
    return confirmed(bench, cases, baseline, [], (), trials.texts, 8, found)


@pytest.mark.parametrize(
    ("name", "changed", "note"),
    [
        ("rmsnorm/kernel", {"grid": ("ceil_div(M, 16)",)}, "twice ceil_div(M, 16) in x of the grid"),
        ("softmax/kernel", {"grid": ("batch", "ceil_div(M, 4)")}, "x and y of the grid exchanged"),
    ],
)
def test_a_launch_that_does_not_fit_is_mended(name: str, changed: dict[str, object], note: str) -> None:
    bench = bench_of(name, **changed)
    best = answers(bench)[0]
    assert best.right and best.tried.ranked.change.note == note
    assert bench.card.launch is not None and best.line == (bench.card.launch.place.file, bench.card.launch.place.line)
    assert best.tried.ranked.change.edits == () and best.tried.ranked.change.role == "launch"


def test_no_launch_mends_a_kernel_that_is_wrong_itself() -> None:
    assert answers(bench_of("gemm/wrong/blas_ldb_is_n")) == []


def test_every_extent_and_the_shared_memory_are_varied() -> None:
    shape = LaunchShape(("N / 64", "M"), (128,), "96 * D", Place("card.toml", 3))
    made = list(launches(shape))
    assert all(one.shape != shape and one.shape.place == shape.place for one in made)
    grids = {one.shape.grid for one in made}
    assert {("ceil_div(N, 64)", "M"), ("M", "N / 64"), ("2 * (N / 64)", "M")} <= grids
    assert {one.shape.shared for one in made} == {"96 * D", "2 * (96 * D)"}
    assert all(one.shape.shared == 0 for one in launches(replace(shape, shared=0)))
