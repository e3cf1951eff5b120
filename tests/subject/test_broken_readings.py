"""Broken kernels from their source alone: none is right by a reading that nothing but its wrong result speaks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wmmadiag.cli.main import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETS = Path(__file__).resolve().parents[1] / "reading"
LISTED = sorted(SETS.rglob("*.bugs.toml"))


@pytest.mark.parametrize("listed", LISTED, ids=lambda path: path.stem)
def test_each_bug_is_one_edit_of_its_source(listed):
    text = listed.with_name(listed.name.replace(".bugs.toml", ".cu")).read_text("utf-8")
    for name, bug in tomllib.loads(listed.read_text("utf-8")).items():
        assert text.count(bug["old"].strip("\n")) == 1, name
        assert bug["old"] != bug["new"]


@pytest.mark.parametrize(
    ("source", "bug"),
    [
        ("unseen5/dgemm_wmma_f64", "alpha_dropped"),  # a factor that nothing reads
        ("unseen3/policy_entry", "lda_for_b"),  # a leading dimension that nothing reads
        ("unseen3/driver_api_scores", "scale_dropped"),
        ("unseen5/lora_two_launches", "scale_dropped"),  # right in the first of its three launches
        ("unseen5/lora_two_launches", "accumulate_dropped"),
        ("unseen5/attention_three_kernels", "sum_without_max"),  # in the kernel without tensor cores
        ("unseen5/splitk_atomic_gemm", "overwritten"),  # right as one part alone
        ("unseen5/tf32_runner_class", "leading_dimension_of_b"),  # right where all extents are one
        ("unseen3/managed_causal_attn", "diagonal_masked"),  # its own main looks at one row
        ("unseen3/requant_s8", "bias_dropped"),  # right by a bound as large as the values
        ("unseen8/sgemm_via_split_half", "scale_back"),  # right if inputs were rounded to half, which it makes up for
        ("unseen8/conv_nchw_implicit_gemm", "filter_column"),  # right where filters are square
        ("unseen8/varlen_prefill_wmma", "keys_of_queries"),  # right where there are as many keys as queries
        ("unseen8/bert_masked_attention", "mask_turned"),  # a mask of attention keeps what is not 0
        ("unseen8/bert_masked_attention", "mask_of_first"),  # right where a mask of queries alone was all ones
        ("unseen15/gqa_decode_wmma_kvcache", "correction"),  # right where no sequence goes beyond one tile of keys
        ("unseen16/streamk_queue_hgemm", "tile"),  # right where there are as many tiles of rows as of columns
        ("unseen17/depthwise_pointwise_block", "padding"),  # in a kernel of another operation beside it
        ("unseen17/hgemm_all_versions_pybind", "naive"),  # in a kernel beside that with tensor cores
        ("unseen18/gqa_decode_static_kv_cache", "length"),  # right by exponentials or queries in f16, which it has not
        ("unseen15/tcu_row_scan", "carry"),  # right in two tiles
        ("unseen15/swiglu_interleaved_ffn", "swapped"),  # w_gate_up has the gate first
        ("unseen27/linear_backward_tc", "dw_without_transpose"),  # in one of three launches that share inputs
        ("unseen27/linear_backward_tc", "bias_partials_from_two"),
        ("unseen22/add_rmsnorm_qkv_gemm", "no_residual"),  # right by a formula of what it reads alone
        ("unseen25/rmsnorm_qkv_rope", "rotation_backwards"),  # in a kernel behind the one that a formula is of
        ("unseen28/w8a16_group_gemm", "weights_taken_as_signed"),  # bytes that are declared unsigned
        ("unseen21/splitk_gemm_reduce", "slice_end"),  # reads on where the last slice of K is no whole tile
        ("unseen29/conv_bias_relu_nhwc_ext", "row_dilation_forgotten"),  # a dilation of one shows nothing
        ("unseen30/w8a16_linear_ext", "activation_before_bias"),  # a bias near 1 is lost beside sums of bytes
    ],
)
@pytest.mark.corpus
def test_a_broken_kernel_is_not_called_right(tmp_path, capsys, source, bug):
    path = SETS / f"{source}.cu"
    change = tomllib.loads(path.with_suffix(".bugs.toml").read_text("utf-8"))[bug]
    broken = tmp_path / path.name
    broken.write_text(path.read_text("utf-8").replace(change["old"].strip("\n"), change["new"].strip("\n")))
    assert main(["check", str(broken)]) != 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "bug"),
    [
        ("attn_phases", "tail_of_probabilities"),  # wrong where a tile of 16 is not full
        ("bmm_gelu", "bias_of_first_batch"),  # nothing reads the distance between biases
        ("conv_nhwc", "pad_of_other_axis"),  # right where both axes are padded alike
        ("moe_grouped", "expert_stride_square"),  # right where a group's matrices are square
        ("moe_grouped", "next_expert_overwritten"),  # right with as many blocks as go into the tiles of a row
    ],
)
@pytest.mark.corpus
def test_nor_one_that_needs_sizes_of_its_own(tmp_path, capsys, source, bug):
    path = SETS.parent / "diagnose" / "blind2" / f"{source}.cu"
    change = tomllib.loads(path.with_suffix(".bugs.toml").read_text("utf-8"))[bug]
    broken = tmp_path / path.name
    broken.write_text(path.read_text("utf-8").replace(change["old"].strip("\n"), change["new"].strip("\n")))
    assert main(["check", str(broken)]) in (2, 3), capsys.readouterr().out


@pytest.mark.parametrize(
    "source",
    [
        "unseen5/linear_backward_torch",  # two products
        "unseen26/linear_relu_backward",  # four launches, the last three of what the first one writes
        "unseen27/linear_backward_tc",  # three that share inputs alone
    ],
)
def test_launches_of_one_result_are_judged_together(capsys, source):
    assert main(["check", str(SETS / f"{source}.cu")]) == 0
    assert "is judged as a whole" in capsys.readouterr().out
