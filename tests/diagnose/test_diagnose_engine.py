"""The engine from a card to a diagnosis: wrong kernels of many classes, look-alikes, and kernels held out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from trial_changes import OF_TWICE

from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.subject.card_files.read import load_card

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "kernels"
sys.path[:0] = [str(ROOT / "benchmarks"), str(Path(__file__).parent / "unseen")]

from diagnosis import right_source, scored  # noqa: E402 - not a package
from expand import expand  # noqa: E402

NAMED = [
    # The same is asked of it below.
    pytest.param("gemm/wrong/blas_ldb_is_n", marks=pytest.mark.rest),
    "gemm/wrong/k_loop_starts_late",
    "gemm/wrong/early_exit_and",
]
HELD_OUT = [
    "rows_in_shared/wrong/only_last_slice",
    pytest.param("rows_in_shared/wrong/value_rows_of_keys", marks=pytest.mark.rest),
    pytest.param("rows_in_shared/wrong/key_tiles_floor", marks=pytest.mark.rest),
]
LOOKALIKES = ["attention/lookalike/no_max_bounded", "qkt/lookalike/transposed_product"]


@pytest.fixture(scope="session")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unseen")
    expand(folder)
    return folder


def judged(folder: Path, name: str):
    path = folder / f"{name}.toml"
    truth = tomllib.loads((folder / f"{name}.truth.toml").read_text("utf-8"))
    card = load_card(path)
    return scored(f"{name}.toml", truth, diagnose_card(card), 0.0, right_source(card.source, truth))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_a_wrong_kernel_is_named_at_its_line_and_mended(name):
    one = judged(KERNELS, name)
    assert (one.outcome, one.cause, one.line, one.fixed, one.undone) == ("diagnosed", True, True, True, True), one


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD_OUT)
def test_a_kernel_held_out_is_named_at_its_line_and_mended(held_out, name):
    """Whether its share reaches "proven" depends on every change that mends, and on the fit; the rest does not."""
    one = judged(held_out, name)
    assert (one.outcome, one.cause or one.likely, one.line, one.fixed) == ("diagnosed", True, True, True), one


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_lookalike_is_right(name):
    found = diagnose_card(load_card(KERNELS / f"{name}.toml"))
    assert (found.outcome, found.causes, found.exit_code) == ("right", (), 0)


def test_a_diagnosis_says_how_it_knows_and_what_it_is_not():
    found = diagnose_card(load_card(KERNELS / "gemm/wrong/blas_ldb_is_n.toml"))
    (cause,) = found.causes
    assert found.exit_code == 1 and found.headline.startswith(cause.place)
    assert "where the changed kernel reads" in cause.sentence and cause.name in ("index", "leading-dimension")
    assert cause.fix is not None and cause.fix.status == "verified" and cause.fix.wrong_after == 0
    assert cause.explains == cause.of > 0
    assert any("this change alone" in line for line in cause.evidence)
    assert {"races", "async", "barriers"} <= {one.name for one in found.tested if one.verdict == "refuted"}
    assert found.work.effort == "normal" and found.work.changes > 0 and found.work.instructions > 0


def test_the_answer_does_not_depend_on_threads():
    card = load_card(KERNELS / "gemm/wrong/blas_ldb_is_n.toml")
    one, two = (diagnose_card(card, effort="quick", threads=threads) for threads in (1, 2))
    assert one.causes == two.causes and one.work == two.work and one.tested == two.tested


def test_nothing_is_proven_where_something_was_assumed():
    from dataclasses import replace

    card = replace(load_card(KERNELS / "gemm/wrong/blas_ldb_is_n.toml"), assumed=("B is taken as K×N",))
    found = diagnose_card(card)
    assert found.outcome == "undecided" and found.exit_code == 3
    assert found.causes[0].verdict == "likely" and found.assumed == ("B is taken as K×N",)


TWICE = """__global__ void twice(const float* x, float* y) {
    int t = threadIdx.x;
    y[t] = x[t] * 2.0f;
}
"""


@pytest.mark.slow
def test_what_no_change_mends_is_undecided(tmp_path):
    """No small change makes a softmax of a product."""
    (tmp_path / "k.cu").write_text(TWICE, "utf-8")
    (tmp_path / "k.toml").write_text(OF_TWICE, "utf-8")
    found = diagnose_card(load_card(tmp_path / "k.toml"), effort="quick")
    assert (found.outcome, found.exit_code) == ("undecided", 3)
    (cause,) = found.causes
    assert (cause.name, cause.verdict, cause.of, cause.fix) == ("unknown", "undecided", 0, None)
    assert cause.place and "no change that was tried mends it" in found.headline
    assert any(one.verdict == "undecided" and "none mends" in one.reason for one in found.tested)
