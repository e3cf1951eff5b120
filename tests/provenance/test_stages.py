"""Intermediate values against the operation's own: right kernels fit, and the first line that departs is the root."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mutated import Edit, mutated
from traced import KERNELS, traced_card

from wmmadiag.provenance import Disagreement, ProvenanceRun

SCALED = "scale * static_cast<float>(sS[row * LD_S + col])"
EXPONENTIAL = f"__expf({SCALED} - m_new)"
STORES_P = "sP[row * LD_P + col] ="
MULTIPLIES = "wmma::mma_sync(acc, p, vf, acc)"
STORES_O = "*reinterpret_cast<half2*>(o_row + col) ="


def readings(run: ProvenanceRun) -> set[tuple[str, str]]:
    return {(stage.what, stage.reading) for stage in run.stages}


@pytest.mark.parametrize(
    ("card", "variant", "case"),
    [
        ("attention/kernel.toml", "", "tail"),
        ("attention/kernel.toml", "", "causal"),
        ("attention_fused/kernel.toml", "rows16", "tail"),
    ],
)
def test_right_attention(card: str, variant: str, case: str) -> None:
    run = traced_card(KERNELS / card, case, variant)
    assert run.notes == ()
    assert {stage.status for stage in run.stages} == {"fits"}
    assert {
        ("result of scores", "Q·Kᵀ"),
        ("operand of weights", "exp(scale·Q·Kᵀ - row reference)"),
        ("result of the output", "row factor·P·V"),
        ("store of the output", "row factor·softmax(Q·Kᵀ)·V"),
    } <= readings(run)
    assert [stage.group for stage in run.stages] == sorted(stage.group for stage in run.stages)


def test_right_gemm_with_an_addend() -> None:
    run = traced_card(KERNELS / "gemm" / "kernel.toml", "odd")
    assert readings(run) == {
        ("result of the output", "A·B"),
        ("store of the output", "A·B"),
        ("store of the output", "alpha·A·B + beta·C"),
    }


def root(tmp_path: Path, edits: list[Edit], case: str, marker: str) -> tuple[Disagreement, int, ProvenanceRun]:
    run, line = mutated(tmp_path, "attention/kernel.toml", edits, case, marker=marker)
    (one,) = run.disagreements
    assert one.place.line == line
    assert one.masks.keys() == {"o"}
    return one, line, run


@pytest.mark.parametrize(
    ("edits", "words", "marker"),
    [
        ([(SCALED, SCALED[8:])], "is not the weights, read in any known way", STORES_P),
        ([(SCALED, "scale * " + SCALED)], "is not the weights", STORES_P),
        ([("__expf(", "exp2f(")], "is not the weights", STORES_P),
        ([("(sO[row * LD_O + col]) * rescale)", "(sO[row * LD_O + col]))")], "accumulated", MULTIPLIES),
        ([("l = l * rescale + row_sum", "l = l + row_sum")], "once they are stored here", STORES_O),
        ([("* inverse;", ";")], "once they are stored here", STORES_O),
        ([("= __float2half(p);", "= __float2half(col == 7 ? 2 * p : p);")], "is not exp", STORES_P),
        ([(EXPONENTIAL, EXPONENTIAL.replace("scale * ", ""))], "in any known way", STORES_P),
    ],
    ids=["no-scale", "scale-twice", "exp2", "no-rescale", "sum-not-rescaled", "no-division", "one-key", "scale-in-max"],
)
def test_mistakes(tmp_path: Path, edits: list[Edit], words: str, marker: str) -> None:
    one, _, run = root(tmp_path, edits, "tail", marker)
    assert one.kind == "value"
    assert words in one.message
    assert one.masks["o"].any()
    assert run.explained  # the tags alone see nothing


def test_mask_one_key_too_many(tmp_path: Path) -> None:
    one, _, _ = root(tmp_path, [("key <= query", "key <= query + 1")], "causal", STORES_P)
    assert one.kind == "value"
    assert "(query, key) [0, 0, 0, 1]: 1, expected 0" in one.detail[0]
    assert not one.masks["o"][..., -1, :].any()  # the last query has no further key


def test_scores_where_weights_belong(tmp_path: Path) -> None:
    edits = [(EXPONENTIAL, EXPONENTIAL[len("__expf(") : -1])]
    one, _, run = root(tmp_path, edits, "tail", "load_matrix_sync(p, sP")
    assert one.kind == "value"
    assert one.other is not None  # where they were stored
    assert {stage.status for stage in run.stages if stage.what == "store of scores"} == {"fits"}


def test_half_of_each_row_not_rescaled(tmp_path: Path) -> None:
    edit = ("acc[i][j][2 * h + 1] *= rescale;", "")
    run, _ = mutated(tmp_path, "attention_fused/kernel.toml", [edit], "growing_max", "rows16")
    (one,) = run.disagreements
    assert one.kind == "value"
    (mask,) = one.masks.values()
    assert not mask[..., 0::2].any()


@pytest.mark.parametrize("edit", [("- m_new);", "- m_new + 1.0f);"), ("fmaxf(m, row_max(tile_max))", "0.5f")])
def test_other_references_are_as_good(tmp_path: Path, edit: Edit) -> None:
    run, _ = mutated(tmp_path, "attention/kernel.toml", [edit], "one_tile")
    assert run.disagreements == ()
    assert {stage.status for stage in run.stages} == {"fits"}


@pytest.mark.parametrize(
    ("wrong", "case", "kind", "line"),
    [
        ("attention/wrong/bshd_sum_one_lane", "heads", "value", 103),
        ("attention/wrong/first_accumulator_kept", "heads", "accumulator", 63),
        ("attention/wrong/packed_row_stride", "heads", "wrong-matrix", 69),
    ],
)
def test_wrong_kernels(wrong: str, case: str, kind: str, line: int) -> None:
    run = traced_card(KERNELS / f"{wrong}.toml", case)
    (one,) = run.disagreements
    assert (one.kind, one.place.line) == (kind, line)


def test_elements_that_nothing_stores_are_no_departure() -> None:
    run = traced_card(KERNELS / "pv" / "wrong" / "pv_half_columns.toml", "wide")
    assert run.disagreements == ()
    assert run.outputs[0].unknown == run.outputs[0].elements // 2


def test_no_leading_dimension_without_all_lines() -> None:
    # Scores were stored with the wrong pitch; no pitch of P makes them agree.
    run = traced_card(KERNELS / "attention" / "wrong" / "bshd_two_bugs.toml", "two_tiles")
    assert "leading-dimension" not in {one.kind for one in run.disagreements}


def test_masks_are_exact(tmp_path: Path) -> None:
    run = traced_card(KERNELS / "attention" / "wrong" / "too_few_warps.toml", "tail")
    (one,) = run.disagreements
    mask = one.masks["o"]
    tiles = np.arange(mask.shape[-2]) // 16
    assert (mask == (tiles % 2 == 1)[None, None, :, None]).all()
    (reach,) = one.reach
    assert reach.elements == mask.sum()


@pytest.mark.parametrize(("masked", "status"), [("-10000.0f", "fits"), ("-100.0f", "unknown")])
def test_what_stands_for_a_masked_score(tmp_path: Path, masked: str, status: str) -> None:
    visible = "const bool visible = key < seq_len && (!CAUSAL || key <= query);"
    stores = "sS[row * LD_S + col] += static_cast<float>(visible ? 0.0f : MASKED);".replace("MASKED", masked)
    run, line = mutated(tmp_path, "attention/kernel.toml", [(visible, f"{visible}\n{stores}")], "causal", marker=stores)
    assert run.disagreements == ()
    assert {stage.status for stage in run.stages if stage.place.line == line} == {status}
