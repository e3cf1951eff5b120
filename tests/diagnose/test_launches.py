"""A launch that does not fit its kernel is a cause like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.engine import case_bench, diagnose_card
from wmmadiag.diagnose.launches import launches, mending_launches, tried_launches
from wmmadiag.diagnose.suspicion import Suspicion
from wmmadiag.diagnose.trials.setting import Setting
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
    trials = TrialBench(Setting(bench.card, bench.variant, case))
    assert bench.card.launch is not None
    found = mending_launches(tried_launches(trials, bench.card.launch), Suspicion({}), bench.card.launch, fewer=False)
    cases = sorted(bench.cases(), key=lambda one: one.name != case.name)
    baseline = {one.name: bench.run(one) for one in cases}
    return confirmed(bench, cases, baseline, [], trials.texts, 8, found)


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


@pytest.mark.slow
def test_a_launch_that_does_not_fit_is_the_cause() -> None:
    card = bench_of("softmax/kernel", grid=("batch", "ceil_div(M, 4)")).card
    causes = diagnose_card(card).causes
    assert card.launch is not None
    assert [one.name for one in causes] == ["launch"]
    assert causes[0].place == f"{card.launch.place.file}:{card.launch.place.line}"
    assert causes[0].verdict == "likely" and causes[0].fix is not None and causes[0].fix.status == "verified"


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


HALVES = """__global__ void halves(const float* x, float* y) {
    int t = threadIdx.x;
    y[t] = blockIdx.x == 0 ? x[t] / 4.0f : x[t] * 4.0f;
}
"""


@pytest.mark.slow
def test_fewer_threads_are_no_answer_where_a_change_of_the_source_is(tmp_path: Path) -> None:
    """One block alone would hide what the second one overwrites; the source says what it should have computed."""
    (tmp_path / "k.cu").write_text(HALVES, "utf-8")
    (tmp_path / "ref.py").write_text("def quarter(arrays, sizes):\n    return {'y': arrays['x'] / 4.0}\n", "utf-8")
    arguments = "".join(
        f'[[arguments]]\nrole = "{role}"\ndtype = "f32"\ndirection = "{way}"\nshape = ["M"]\n'
        for role, way in (("x", "in"), ("y", "out"))
    )
    (tmp_path / "k.toml").write_text(
        'format = 1\nsource = "k.cu"\nentry = "halves"\ntolerance = { atol = 1e-6, rtol = 1e-6 }\n'
        '[computes]\npython = "ref.py:quarter"\n'
        f'{arguments}[launch]\ngrid = ["2"]\nblock = ["M"]\n[[cases]]\nname = "one"\nM = 32\n',
        "utf-8",
    )
    card = load_card(tmp_path / "k.toml")
    assert card.launch is not None
    bench = case_bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    outcomes = tried_launches(TrialBench(Setting(card, bench.variant, failing(bench))), card.launch)
    assert mending_launches(outcomes, Suspicion({}), card.launch, fewer=False) == []
    fewer = mending_launches(outcomes, Suspicion({}), card.launch, fewer=True)
    assert "half of 2 in x of the grid" in {tried.ranked.change.note for tried, _ in fewer}
    first = diagnose_card(card, threads=1).causes[0]
    assert first.name != "launch" and first.place.endswith("k.cu:3")
