"""For every hypothesis a kernel that it must flag, and its nearest neighbours, which it must not state as the cause.

What is asked is what evidence alone says: each kernel is run once, no change is tried. A kernel is flagged where the
hypothesis claims it; it is stated where a diagnosis that could try nothing would print it as proven or reproduced. The
neighbours show the same symptoms (the same findings and disagreements) for another reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from operation_kernels import wrong_card

from wmmadiag.diagnose.claim import Claim, NotSo
from wmmadiag.diagnose.describe import Step, _covering, _without_proof
from wmmadiag.diagnose.engine import failing_evidence
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.diagnose.search import Found, ask, ordered
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"


@dataclass(frozen=True)
class Row:
    """Wrong kernels ("family/name"; "operations/name" in `operation_kernels.py`) of one hypothesis.

    Attributes:
        flags: it claims them; `suspects`: evidence cannot name it, but sends the trials to it.
        not_: neighbours that it is not stated of.
        still: neighbours that it is stated of, though another fault is the truth: once mended, they move to `not_`.
    """

    flags: str = ""
    not_: str = ""
    suspects: str = ""
    still: str = ""


TABLE = {
    "accumulator-init": Row(
        "gemm/no_zero_fill attention/first_accumulator_kept", "gemm/zeroed_in_k_loop gemm/bf16_k_accum_inside"
    ),
    "accumulator-reset": Row(
        "gemm/zeroed_in_k_loop gemm/bf16_k_accum_inside",
        "attention/bshd_pv_overwrites pv/pv_tiles_overwrite gemm/no_zero_fill",
    ),
    "alignment": Row(
        "qkt/kt_align16_only gemm/bf16_copy_misaligned", "gemm/a_ldm_is_m gemm/async_cg_eight_bytes qkt/kt_out_pitch"
    ),
    "async-copy-order": Row(
        "gemm/async_wait_one_always gemm/async_epilogue_too_early",
        "gemm/async_half_the_bytes gemm/async_no_barrier_after_wait gemm/barrier_at_loop_end_gone",
    ),
    "async-copy-size": Row("gemm/async_cg_eight_bytes", "gemm/async_half_the_bytes gemm/bf16_copy_misaligned"),
    "causal-mask": Row(
        "attention/gqa_causal_off_by_one attention/gqa_causal_top_left operations/no_window "
        "operations/window_too_short",
        "attention/bshd_mask_not_in_p attention/gqa_masked_row_weights attention/gqa_nan_rows",
    ),
    "divergent-barrier": Row(
        "attention/pipe_divergent_barrier attention/pipe_early_return",
        "attention/packed_no_first_barrier gemm/barrier_at_loop_end_gone",
    ),
    "element-type": Row("", "gemm/blas_c_row_major gemm/a_ldm_is_m", suspects="gemm/stored_as_half"),
    "epilogue": Row(
        "operations/bias_gone operations/no_activation operations/scale_forgotten operations/bias_before_alpha",
        "operations/bias_by_row operations/bias_in_tile operations/scales_exchanged gemm/zeroed_in_k_loop "
        "gemm/no_zero_fill gemm/k_tail_dropped",
    ),
    "exp-base": Row(
        "attention/bshd_exp2", "attention/twopass_scale_missing attention/twopass_scale_twice qkt/qk_scale_by_d"
    ),
    "fragment-footprint": Row(
        "gemm/linear_tail_tile_stored_whole qkt/qk_patch_eight_rows",
        "gemm/tn_a_row_major gemm/a_ldm_is_m gemm/b_tile_offset qkt/qk_no_guard gemm/warp_past_the_end",
    ),
    "fragment-map": Row(
        "gemm/frag_x_guessed_store gemm/splitk_atomic_guessed_map",
        "gemm_mma/mma_b_without_trans attention_fused/fa2_v_not_transposed gemm/blas_c_row_major",
    ),
    "guard-condition": Row(
        "", "gemm/b_tile_offset gemm_mma/mma_columns_not_stored", suspects="gemm/linear_swapped_guard qkt/qk_no_guard"
    ),
    "half-accumulation": Row(
        "pv/pv_fp16_running_sum qkt/qk_half_scores",
        "attention/first_scores_rounded attention/gqa_masked_row_weights qkt/qk_scale_by_d",
    ),
    "illegal-shape": Row(
        "gemm/operands_exchanged qkt/qk_frag_float_out", "gemm/async_cg_eight_bytes gemm/tiled_slice_too_long"
    ),
    "index-arithmetic": Row(
        "gemm/b_tile_offset attention/bshd_k_not_advanced gemm/tn_warp_number attention/pipe_scores_alias",
        "gemm/warp_past_the_end attention/first_wrong_operand gemm/tn_a_row_major",
    ),
    "launch-coverage": Row(
        "pv/pv_sixteen_rows", "gemm/linear_tail_rows_dropped gemm/int8_partial_tiles gemm_mma/mma_columns_not_stored"
    ),
    "ldmatrix-address": Row(
        "gemm_mma/mma_ldmatrix_row_of_lane attention_fused/fa2_ldmatrix_k_rows",
        "gemm_mma/mma_a_registers attention_fused/fa2_swizzle_v_reader",
    ),
    "leading-dimension": Row(
        "gemm/a_ldm_is_m gemm/blas_ldb_is_n",
        "gemm/b_tile_offset gemm/tn_a_row_major gemm/blas_c_row_major",
        still="gemm/tf32_b_row_major",
    ),
    "local-array": Row(
        "attention/local_array gemm/splitk_lane_array", "qkt/kt_out_pitch gemm/frag_x_guessed_store gemm/stored_as_half"
    ),
    "loop-extent": Row(
        "gemm/k_loop_starts_late gemm/k_tail_dropped",
        "gemm/zeroed_in_k_loop gemm/async_half_the_bytes",
        still="gemm/splitk_overwrites",
    ),
    "masked-row": Row(
        "attention/gqa_masked_row_weights attention/gqa_nan_rows",
        "attention/pipe_p_before_max attention/gqa_causal_off_by_one attention/twopass_probs_overlap",
    ),
    "missing-barrier": Row(
        "gemm/async_buffer_reused attention/gqa_v_over_k_early",
        "gemm/pitch_in_the_address gemm/result_half_covered gemm/int8_tile_offset gemm_mma/mma_columns_not_stored "
        "attention_fused/fa2_quarter_rows_too_few pv/pv_one_buffer_short",
    ),
    "normalisation": Row(
        "attention/first_divides_twice attention/bshd_no_final_division",
        "attention/bshd_mask_not_in_p attention/bshd_sum_one_lane attention/bshd_sum_not_rescaled "
        "softmax/softmax_tail_stride",
    ),
    "operand-layout": Row(
        "attention/bshd_kt_read_col attention/first_qk_not_qkt",
        "attention_fused/fa2_swizzle_v_reader gemm/a_ldm_is_m gemm/int8_wrong_sign",
    ),
    "operand-order": Row(
        "attention/first_wrong_operand", "qkt/qk_store_col attention/bshd_k_not_advanced gemm/blas_b_offset"
    ),
    "out-of-bounds": Row("gemm/warp_past_the_end", "gemm/a_ldm_is_m gemm/tn_a_row_major gemm/b_tile_offset"),
    "p-precision": Row(
        "attention/pipe_p_before_max attention/first_scores_rounded",
        "pv/pv_fp16_running_sum attention/twopass_probs_overlap attention/gqa_nan_rows",
    ),
    "partial-fill": Row(
        "attention/gqa_stat_threads gemm/async_half_the_bytes",
        "qkt/qk_half_of_the_tiles qkt/qk_warps_counted_double gemm/async_no_barrier_after_wait "
        "attention/pipe_v_wrong_stage",
        still="attention/bshd_o_not_cleared",
    ),
    "reduction": Row(
        "attention/bshd_sum_one_lane attention/first_shuffle_width",
        "attention/bshd_mask_not_in_p attention/bshd_no_final_division attention/first_divides_twice",
    ),
    "rescale-missing": Row(
        "attention/bshd_alpha_missing_on_o attention/bshd_sum_not_rescaled",
        "attention/bshd_sum_one_lane attention/bshd_no_final_division",
    ),
    "row-statistic": Row(
        "attention/bshd_wrong_row_sum attention/first_row_of_thread",
        "attention/gqa_nan_rows attention/bshd_alpha_missing_on_o attention/twopass_reduction_from_8",
    ),
    "score-terms": Row(
        "operations/score_bias_gone operations/score_bias_scaled operations/no_softcap operations/no_alibi",
        "operations/score_bias_first_head operations/alibi_of_batch operations/no_window operations/lengths_ignored "
        "attention/twopass_scale_missing attention/bshd_exp2 qkt/qk_scale_by_d",
    ),
    "shared-memory-limit": Row(
        "gemm/tiled_slice_too_long attention/pipe_static_over_48k", "gemm/bf16_copy_misaligned qkt/kt_out_pitch"
    ),
    "softmax-scale": Row(
        "qkt/qk_scale_by_d attention/twopass_scale_missing", "attention/bshd_exp2 qkt/qk_half_scores qkt/qk_store_col"
    ),
    "stale-tile": Row(
        "attention/pipe_v_wrong_stage gemm/async_wrong_stage",
        "attention/bshd_o_not_cleared gemm/b_tile_offset gemm/async_wait_one_always",
        suspects="gemm/int8_stale_tail",
    ),
    "swizzle-mismatch": Row(
        "attention_fused/fa2_swizzle_v_reader attention_fused/fa2_v_swizzled_twice",
        "attention_fused/fa2_v_not_transposed attention_fused/fa2_ldmatrix_k_rows",
    ),
    "tail-masking": Row(
        "attention/bshd_mask_not_in_p operations/lengths_ignored operations/lengths_too_long",
        "attention/bshd_no_final_division attention/first_divides_twice attention/gqa_masked_row_weights",
    ),
    "tensor-strides": Row(
        "attention/bshd_row_stride attention/first_head_stride",
        "gemm/frag_x_guessed_store attention/first_wrong_operand",
    ),
    "tile-overwritten": Row(
        "attention/bshd_pv_overwrites pv/pv_tiles_overwrite",
        "gemm/zeroed_in_k_loop gemm/bf16_k_accum_inside gemm/splitk_plain_store",
    ),
    "too-few-warps": Row(
        "qkt/qk_warps_counted_double pv/pv_half_columns attention/too_few_warps",
        "attention/bshd_o_not_cleared gemm/pitch_in_the_address gemm/async_half_the_bytes attention/pipe_scores_alias "
        "attention/twopass_v_garbage_tail",
    ),
    "uninitialised-memory": Row(
        "attention/first_sum_uninitialised", "gemm/no_zero_fill attention/gqa_stat_threads attention/bshd_sum_one_lane"
    ),
    "unwritten-output": Row(
        "gemm/linear_tail_rows_dropped gemm_mma/mma_columns_not_stored",
        "gemm/map_of_another_pitch gemm/c_ldm_wrong attention/first_head_stride",
    ),
    "write-conflict": Row(
        "gemm/splitk_plain_store gemm/tf32_stage_overlap",
        "gemm/async_buffer_reused gemm/barrier_at_loop_end_gone gemm/c_ldm_wrong",
    ),
}

RIGHT = [
    "attention/lookalike/flash_bshd", "attention_fused/lookalike/fa2_mma", "gemm/lookalike/cp_async_wmma",
    "gemm/lookalike/half_acc", "gemm/lookalike/row_tail", "qkt/lookalike/transposed_product",
]  # fmt: skip
"""Right kernels: nothing may be stated of them, by any hypothesis."""


def _kernels() -> list[str]:
    return sorted({name for row in TABLE.values() for part in vars(row).values() for name in part.split()})


def _claims(evidence: Evidence) -> tuple[tuple[Claim, ...], set[str]]:
    """(all claims, hypotheses that a diagnosis without trials states)."""
    answers = ask(evidence)
    claims = ordered(answers, evidence)
    step = Step(evidence, Found(answers, claims, claims[0] if claims else None, None, 0))
    chosen = _covering(step) if claims else []
    return claims, {one.hypothesis for one in map(_without_proof, chosen) if one.verdict != "undecided"}


@pytest.mark.parametrize("name", _kernels())
def test_a_wrong_kernel(name: str, tmp_path: Path) -> None:
    family, stem = name.split("/")
    if family == "operations":
        card = wrong_card(stem, tmp_path)
    else:
        card = load_card(KERNELS / family / "wrong" / f"{stem}.toml")
    evidence = failing_evidence(card)
    assert evidence is not None
    claims, stated = _claims(evidence)
    claimed = {one.hypothesis for one in claims}
    sent_to = {hypothesis for one in claims for hypothesis in one.edit_hypotheses}

    def of(part: str) -> set[str]:
        return {hypothesis for hypothesis, row in TABLE.items() if name in getattr(row, part).split()}

    assert of("flags") - claimed == set(), "must be flagged"
    assert of("suspects") - sent_to == set(), "must be tried"
    assert of("not_") & stated == set(), "must not be stated"
    assert of("still") - stated == set(), "is told apart now: move it to not_"


@pytest.mark.parametrize("name", RIGHT)
def test_of_a_right_kernel_nothing_is_stated(name: str) -> None:
    evidence = failing_evidence(load_card(KERNELS / f"{name}.toml"), passing=True)
    assert evidence is not None
    assert evidence.run.passed
    assert _claims(evidence)[1] == set()


INPUTS = {
    "as they are": (lambda k: k, "refuted"),
    "ones": (np.ones_like, "undecided"),
    "rows alike": (lambda k: 0 * k + k[..., :1, :], "undecided"),
    "columns alike": (lambda k: 0 * k + k[..., :1], "undecided"),
    "rows alike in pairs": (lambda k: k[..., np.arange(k.shape[-2]) // 2, :], "refuted"),
}


@pytest.mark.parametrize(("change", "verdict"), INPUTS.values(), ids=INPUTS)
def test_inputs_that_tell_nothing(change: Callable[[NDArray[Any]], NDArray[Any]], verdict: str) -> None:
    evidence = failing_evidence(load_card(KERNELS / "qkt/wrong/qk_scale_by_d.toml"))
    assert evidence is not None and evidence.run.bound is not None
    keys = evidence.run.bound.inputs()["k"]
    keys[...] = change(keys.copy())
    answer = all_hypotheses()["weak-inputs"].test(evidence)
    assert isinstance(answer, NotSo)
    assert answer.verdict == verdict


@pytest.mark.parametrize(("name", "flagged"), [("qkt/wrong/qk_half_scores", True), ("qkt/wrong/qk_scale_by_d", False)])
def test_a_card_that_says_less_than_the_kernel_does(name: str, flagged: bool) -> None:
    evidence = failing_evidence(load_card(KERNELS / f"{name}.toml"))
    assert evidence is not None
    claims, stated = _claims(evidence)
    assert ("card-mismatch" in {one.hypothesis for one in claims}) == flagged
    assert "card-mismatch" not in stated  # it explains what the kernel's own fault explains better


def test_every_hypothesis_has_kernels_of_both_kinds() -> None:
    assert set(all_hypotheses()) == {*TABLE, "weak-inputs", "card-mismatch"}
    for hypothesis, row in TABLE.items():
        assert row.flags or row.suspects, hypothesis
        assert row.not_, hypothesis
