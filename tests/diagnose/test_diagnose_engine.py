"""The engine from a card to a diagnosis: wrong kernels of many classes, look-alikes, and kernels held out."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from wmmadiag.diagnose import engine, search
from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.trials.trial import Budget
from wmmadiag.subject.card_files.read import load_card

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "kernels"
sys.path[:0] = [str(ROOT / "benchmarks"), str(Path(__file__).parent / "unseen")]

from diagnosis import scored  # noqa: E402 - not a package
from expand import expand  # noqa: E402

FOREVER = 1000.0
"""Seconds for trials, never used up: their number ends a search, so that the machine's speed changes nothing."""

NAMED = [
    "gemm/wrong/operands_exchanged",
    "gemm/wrong/no_zero_fill",
    "gemm/wrong/warp_past_the_end",
    "gemm/wrong/async_buffer_reused",
    "qkt/wrong/qk_patch_not_padded",
    "qkt/wrong/kt_staged_untransposed",
    "attention/wrong/pipe_divergent_barrier",
    "attention/wrong/first_divides_twice",
    "attention_fused/wrong/fa2_v_swizzled_twice",
]
HELD_OUT = [
    "rows_in_shared/wrong/only_last_slice",
    "rows_in_shared/wrong/value_rows_of_keys",
    "rows_in_shared/wrong/key_tiles_floor",
    "split_k_atomic/wrong/plain_add",
    "tall_tiles/wrong/not_zeroed",
    "bytes_dequantised/wrong/half_of_the_slice",
    "causal_skips_blocks/wrong/value_pitch",
    "causal_skips_blocks/wrong/old_output_kept",
    "gemm_prefetch/wrong/pitch_of_the_other_tile",
    "grouped_gather/wrong/token_of_the_route",
    "sparse_blocks/wrong/diagonal_hidden",
    "rotary_scores/wrong/key_positions_of_queries",
]
LOOKALIKES = [
    "attention/lookalike/flash_bshd",
    "attention/lookalike/no_max_bounded",
    "qkt/lookalike/transposed_product",
]


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_TRIALS", 60)


@pytest.fixture(scope="session")
def held_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unseen")
    expand(folder)
    return folder


def judged(folder: Path, name: str):
    path = folder / f"{name}.toml"
    truth = tomllib.loads((folder / f"{name}.truth.toml").read_text("utf-8"))
    return scored(f"{name}.toml", truth, diagnose_card(load_card(path), seconds=FOREVER), 0.0)


@pytest.mark.parametrize("name", NAMED)
def test_a_wrong_kernel_is_named_at_its_line_and_mended(name):
    one = judged(KERNELS, name)
    assert (one.outcome, one.cause, one.line, one.fixed or not one.one_edit) == ("diagnosed", True, True, True), one


@pytest.mark.parametrize("name", HELD_OUT)
def test_a_kernel_held_out_is_named_at_its_line_and_mended(held_out, name):
    one = judged(held_out, name)
    assert (one.outcome, one.cause, one.line, one.fixed) == ("diagnosed", True, True, True), one


@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_lookalike_is_right(name):
    found = diagnose_card(load_card(KERNELS / f"{name}.toml"), seconds=FOREVER)
    assert (found.outcome, found.causes, found.exit_code) == ("right", (), 0)


def test_kernels_held_out_are_right_before_they_are_broken(held_out):
    outcomes = {path.parent.name: diagnose_card(load_card(path)).outcome for path in held_out.glob("*/kernel.toml")}
    assert len(outcomes) >= 9
    assert set(outcomes.values()) == {"right"}


def test_every_hypothesis_gets_a_verdict(held_out):
    from wmmadiag.diagnose.registry import all_hypotheses

    found = diagnose_card(load_card(held_out / "tall_tiles/wrong/not_zeroed.toml"), seconds=FOREVER)
    assert {one.hypothesis for one in found.tested} == set(all_hypotheses())
    assert all(one.reason for one in found.tested)
    assert {one.verdict for one in found.tested} >= {"proven", "refuted", "not applicable"}


def test_without_trials_a_line_alone_is_no_proof_of_a_fault(held_out):
    """The maximum of one of two lanes looks like a missing rescaling to provenance; only a trial could tell."""
    found = diagnose_card(load_card(held_out / "causal_skips_blocks/wrong/max_of_one_side.toml"), seconds=0.0)
    assert found.outcome == "undecided"
    assert all(one.verdict == "undecided" for one in found.causes)


def test_padding_that_is_read_is_a_pitch_and_no_missing_warp(held_out):
    found = diagnose_card(load_card(held_out / "bytes_dequantised/wrong/epilogue_pitch.toml"), seconds=FOREVER)
    assert found.causes[0].hypothesis in ("leading-dimension", "index-arithmetic")
    assert found.causes[0].place.split(":")[1] == "45"


def test_right_numbers_do_not_hide_a_race_between_the_lanes_of_a_warp(held_out):
    found = diagnose_card(load_card(held_out / "split_k_atomic/wrong/lane_reads_too_soon.toml"), seconds=FOREVER)
    (cause,) = found.causes
    assert (found.outcome, cause.hypothesis, cause.verdict) == ("diagnosed", "missing-barrier", "proven")
    assert set(found.cases.values()) == {"passed"}
    assert cause.fix.status == "verified"
    assert "+  __syncwarp();" in cause.fix.diff


def test_another_launch_that_happens_to_help_is_not_the_cause(held_out):
    """More blocks take the slices that a share rounded down leaves out; without trials of the source it is no cause."""
    found = diagnose_card(load_card(held_out / "split_k_atomic/wrong/floor_of_the_share.toml"), seconds=0.0)
    assert found.causes[0].hypothesis == "loop-extent"
    assert found.causes[0].fix is None or "launch" in found.causes[0].fix.summary


def test_half_a_mend_breaks_no_case_that_was_right(monkeypatch):
    """One change helps the failing case a little and spoils the one that passed: it is no cause found."""
    claim = Claim("out-of-bounds", "proven", "read outside", exact=False)
    trial = SimpleNamespace(effect="better", texts={}, edit=SimpleNamespace(hypothesis="index-arithmetic"))
    monkeypatch.setattr(search, "ask", lambda _: {})
    monkeypatch.setattr(search, "ordered", lambda *_: (claim,))
    monkeypatch.setattr(search, "_removed", lambda *_: True)
    monkeypatch.setattr(search._Search, "through", lambda self, _: self.better.append((claim, trial)))
    kept = search.find_cause(SimpleNamespace(), Budget(1, 1), lambda _: (1, 0))
    spoilt = search.find_cause(SimpleNamespace(), Budget(1, 1), lambda _: (2, 1))
    assert (kept.trial, spoilt.trial) == (trial, None)
    assert spoilt.claim is claim
