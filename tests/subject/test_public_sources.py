"""Whole files as people publish them, from the source alone: what is found, and that it is exercised."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS, Assumed, readings
from wmmadiag.subject.drafts.code_facts import told_by_formulas

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

READING = Path(__file__).parents[1] / "reading" / "unseen3"
LATER = READING.parent / "unseen4"
LAST = READING.parent / "unseen5"
NEWEST = READING.parent / "unseen8"
LAST_ROUND = READING.parent / "unseen9"
PUBLIC = READING.parent / "unseen10"
LATER_PUBLIC = READING.parent / "unseen11"
SEARCHED = READING.parent / "unseen12"
AGAIN = READING.parent / "unseen13"
THIRD = READING.parent / "unseen14"
FOURTH = READING.parent / "unseen15"
FIFTH = READING.parent / "unseen16"
SIXTH = READING.parent / "unseen17"
SEVENTH = READING.parent / "unseen18"
EIGHTH = READING.parent / "unseen19"
KERNELS = Path(__file__).parents[2] / "kernels"
BLIND = Path(__file__).parents[1] / "diagnose" / "blind3"


def symbols(report):
    return [dict(case.symbols) for case in report.cases]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (BLIND / "swiglu_w13.cu", "gate and up in one tensor stored as 2NK"),
        (BLIND / "gptq_linear.cu", "eight zero points in an element, along N and zero points stored less 1"),
        (BLIND / "streamk_gemm.cu", "streamk::gemm_streamk<streamk::DefaultShape>"),
        (BLIND / "matmul_dweight.cu", "taken as linear_backward"),
        (BLIND.parent / "blind27" / "awq_gemm_cuda.cu", "values packed along N and values in AWQ's order"),
        (BLIND.parent / "blind27" / "conv2d_igemm_nhwc.cu", "images as NHWC and filters as KRSC"),
        (READING.parent / "unseen20" / "flash_fwd_params.cu", "aligned to the bottom-right corner"),
        (READING / "thrust_bias_gemm.cu", "judged by what a comment says, y = x w + b"),
        (LATER / "multistage_bare.cu", "kM = 64, kN = 64"),
        (LATER / "alibi_attention_bare.cu", "kDim = 64"),
        (LATER / "swiglu_ffn_torch.cu", "dim is K, hidden is N and weights stored as N×K"),
        (READING.parent / "unseen" / "rmsnorm_linear.cu", "B stored as N×K, as nn.Linear has it"),
        (LATER / "rmsnorm_qkv_proj.cu", "taken as norm_gemm"),
        (LAST / "ln_linear_fused.cu", "a LayerNorm of rows and B stored as N×K"),
        (LAST / "scores_kt_comment.cu", "as a comment of the source has it"),
        (NEWEST / "tf32_strided_batched.cu", "tf32_gemm_strided_batched<>"),
        (NEWEST / "bert_masked_attention.cu", "mask has the axes BK, what is not 0 in the mask keeps a key"),
        (NEWEST / "conv_nchw_implicit_gemm.cu", "u is stride_h, v is stride_w, p is pad_h, q is pad_w"),
        (LAST_ROUND / "w4_symmetric_bytes.cu", "weights stored as N×K"),  # two in a byte
        (LAST_ROUND / "sgemm_fp32_in_register_prefetch.cu", "inputs rounded to f16 first"),
        (LAST_ROUND / "gemm_transpose_flags.cu", "not judged: gemm_flags<false, false>, gemm_flags<true, false>"),
        (PUBLIC / "flash_fwd_headdim_switch.cu", "a causal mask aligned to the bottom-right corner"),
        (
            PUBLIC / "scaled_upper_triang_masked_softmax.cu",
            "float, 8> is one that the source launches",
        ),  # of 256 columns
        (PUBLIC / "splitk_semaphore_gemm.cu", "split_k = 2 and parts of the sum added in the output's f16"),
        (PUBLIC / "fp8_scaled_mm_rowwise.cu", "B stored as N×K, as nn.Linear has it, as the host code shows"),
        (PUBLIC / "pos_encoding_kernels.cu", "steps in the type of the elements"),
        (LATER_PUBLIC / "hgemm_ptx_swizzle_bench.cu", "the grid has one block along z; --symbol M=2560 gives it more"),
        (LATER_PUBLIC / "batched_32_tf32.cu", "batch is batch, N32 is M N K"),
        (LATER_PUBLIC / "gemv_int8_per_channel.cu", "y[n] = scale[n] * sum_k x[k] * W[n, k] + bias[n]"),
        (SEARCHED / "linear_bias_act_ext.cu", "the activation gelu_tanh"),  # the tightest of what fits
        (SEVENTH / "conv_param_struct_igemm.cu", "u is stride_h, v is stride_w, p is pad_h, q is pad_w"),
        (SEVENTH / "fp8_e4m3_scaled_linear.cu", "'scale_a' is one number, as the kernel reads no other"),
        (SEARCHED / "one_tile_readme.cu", "one tile of 16x16x16 and A stored as K×M"),
        (SEARCHED / "w8a16_linear.cu", "weights stored as N×K, as nn.Linear has them and one scale for each column"),
        (SEARCHED / "wmma_edges_half_lda.cu", "a grid of (ceil_div(N, 64), ceil_div(M, 64))"),  # BS is no batch
        (SEARCHED / "hgemm_strided_batched.cu", "the result stored by columns"),
        (SEARCHED / "wmma_row_sums_layernorm.cu", "normalised values kept in f16"),
        (AGAIN / "conv1x1_bias_relu_nhwc.cu", "filter is b, pixels is M, channels is K, filters is N"),
        (AGAIN / "dweight_ldmatrix_trans_bf16.cu", "taken as linear_backward"),
        (AGAIN / "gemm_class_wrapper.cu", "tc_gemm_kernel<half, 64, 64>"),  # std::make_unique
        (THIRD / "tcgemm_header_only.cu", "taken as gemm, T = half"),  # Config<T, …> in a template that nobody calls
        (THIRD / "tensor_core_new_forward.cu", "Map_out is K, K is R"),  # and no padding, of which nothing speaks
        (THIRD / "segment_sum_ones_wmma.cu", "taken as reduce, numSegments is M, 256 is N"),
        (FOURTH / "moe_expert_offsets_wmma.cu", "hidden is K, inter is N, total_tokens is M"),  # of the launch alone
        (FOURTH / "group_norm_silu_nhwc.cu", "images with channels last"),
        (FIFTH / "depthwise_conv3x3_nchw.cu", "a filter of its own for each channel"),
        (FIFTH / "split_qkv_bias_gemm_transpose.cu", "q, k and v stored as BHSD"),
        (SIXTH / "triangle_multiplication_outgoing.cu", "z[c, i, j] = sum_k a[c, i, k] * b[c, j, k]"),
        (SIXTH / "w13_block_interleaved_swiglu.cu", "stored as 2NK, blocks of 16 by turns"),
        (EIGHTH / "adaln_modulate_linear.cu", "taken as modulated_gemm, b_ is bias"),
        (EIGHTH / "fmha_varlen_kvpacked.cu", "taken as packed_attention"),  # keys and values in one array
        (EIGHTH / "lm_head_xent_fwd.cu", "its own name says linear_cross_entropy"),
        (EIGHTH / "paged_prefill_block_table.cu", "a window that counts a query's own key"),
        (EIGHTH / "sgmv_lora_segments.cu", "the narrow product kept in bf16"),
        (EIGHTH / "w4a8_group_mma.cu", "taken as quantized_gemm, b is bias"),
        (LATER_PUBLIC / "fused_moe_kernel.cu", "taken as routed_gemm"),
        (LATER_PUBLIC / "group_norm_nchw.cu", "taken as group_norm"),
        (KERNELS / "reduce" / "kernel.cu", "launched with a grid of (M)"),
        (LATER / "lora_fused.cu", "the narrow product kept in bf16"),
        (KERNELS / "lora" / "kernel.cu", "taken as lora"),
        (KERNELS / "paged_attention" / "kernel.cu", "pages of heads, rows within"),
        (KERNELS / "packed_attention" / "kernel.cu", "taken as packed_attention"),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
@pytest.mark.corpus
def test_a_published_kernel_is_right_by_what_its_result_fits(source, found):
    report = wmmadiag.check(source)
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert found in " ".join(report.assumed)


def test_a_header_that_is_not_there_is_said():
    report = wmmadiag.check(SEARCHED / "hgemm_mma_async_stage3.cu")
    assert report.exit_code == 0, [case.problem for case in report.cases]
    told = " ".join(note for variant in report.compiled for note in variant.notes)
    assert "hgemm_mma_async_stage3.cu:5: common.h was not found and is taken as empty" in told


def test_guards_of_a_kernel_that_nobody_launches_are_tried():
    report = wmmadiag.check(SEARCHED / "wmma_edges_half_lda.cu")
    assert [(one["M"], one["N"]) for one in symbols(report)][-1] == (80, 80)


def test_batched_products_get_a_pointer_to_each_matrix():
    report = wmmadiag.check(PUBLIC / "batched_gemm_pointer_arrays.cu")
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert [one["batch"] for one in symbols(report)] == [1, 3, 3]  # the last with rows and columns to spare


@pytest.mark.slow
def test_one_instantiation_of_two_adds_to_what_is_there(capsys):
    from wmmadiag.cli.main import main

    assert main(["check", str(LATER_PUBLIC / "mlp_backward_dx_dw_launcher.cu")]) == 0
    assert capsys.readouterr().out.count("the result is added to 'dweight'") == 1


@pytest.mark.parametrize(("arch", "sums"), [("sm_90", ""), ("sm_89", "sums kept in 13 bits")])
def test_bytes_are_summed_as_the_target_does(arch, sums):
    report = wmmadiag.check(PUBLIC / "fp8_scaled_mm_rowwise.cu", arch=arch)
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert sums in " ".join(report.assumed)
    assert bool(sums) == ("13 bits" in " ".join(report.assumed))


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("../unseen11/hgemm_splitk_half2_atomics", "cleared"),  # half of the output
        ("../unseen12/one_tile_readme", "twice"),
        ("../unseen12/hgemm_strided_batched", "beta"),
        ("../unseen12/w8a16_linear", "sign"),
        ("../unseen12/wmma_row_sums_layernorm", "eps"),  # added to 0.25, too
        ("../unseen12/three_kernel_attention", "sum"),  # of rows that are longer than a block
        ("splitk_semaphore_gemm", "order"),
        ("fp8_scaled_mm_rowwise", "half"),
    ],
)
@pytest.mark.corpus
def test_a_mistake_in_a_published_kernel_is_not_called_right(tmp_path, capsys, name, bug):
    from wmmadiag.cli.main import main

    change = tomllib.loads((PUBLIC / f"{name}.bugs.toml").read_text("utf-8"))[bug]
    text = (PUBLIC / f"{name}.cu").read_text("utf-8")
    assert change["old"].strip("\n") in text
    path = tmp_path / "k.cu"
    path.write_text(text.replace(change["old"].strip("\n"), change["new"].strip("\n")))
    assert main(["check", str(path)]) != 0, capsys.readouterr().out


CHANGED = [
    ("linear_backward_torch", "w::load_matrix_sync(fb, x + b * I", "w::load_matrix_sync(fb, x + b * O"),
    ("linear_backward_torch", "dweight + o * I + i, acc, I", "dweight + i * O + o, acc, O"),
    ("conv_implicit_nhwc", "oh * param.u - param.p", "oh * param.u"),
    ("ln_linear_fused", "(__half2float(row[i]) - mean) * rstd", "__half2float(row[i]) * rstd"),
    ("scores_kt_comment", "sS[i] * scale", "sS[i]"),
    ("conv_implicit_nhwc", "ow * param.v - param.q", "ow * param.v + param.q"),
]


def test_numbers_that_only_host_code_tells_are_taken_for_what_the_result_fits():
    report = wmmadiag.check(LAST / "linear_backward_torch.cu", entry="linear_backward_weight", computes="gemm")
    assert report.exit_code == 0 and "dweight is d" in " ".join(report.assumed)
    assert "B is K, O is N, I is M and A stored as K×M" in " ".join(report.assumed)


@pytest.mark.slow
def test_what_host_code_has_a_word_for_is_not_what_one_letter_says():
    report = wmmadiag.check(LAST / "conv_implicit_nhwc.cu")  # member p is passed pad: it is not the height of outputs
    assert report.exit_code == 0
    assert {one["pad"] for one in symbols(report)} == {1}


@pytest.mark.parametrize(("name", "old", "new"), CHANGED)
@pytest.mark.corpus
def test_a_wrong_one_is_right_by_no_other_meaning(tmp_path, name, old, new):
    text = (LAST / f"{name}.cu").read_text()
    assert old in text
    path = tmp_path / "k.cu"
    path.write_text(text.replace(old, new))
    assert max(one.exit_code for one in reports(path)) == 3


def reports(path):
    """One for each kernel that the source launches."""
    names = re.findall(r"__global__[^(]*?(\w+)\s*\(", re.sub(r"__launch_bounds__\(\w+\)", "", path.read_text()))
    return [wmmadiag.check(path, entry=kernel) for kernel in names if "backward_input" not in kernel]


def test_a_fragments_shape_is_no_size_of_the_matrix():
    report = wmmadiag.check(READING / "dmma_f64.cu")  # const int M = 8, N = 8, K = 4;
    assert report.exit_code == 0
    assert min(one["K"] for one in symbols(report)) >= 64


@pytest.mark.slow
def test_a_window_hides_keys_in_every_case():
    report = wmmadiag.check(BLIND / "swa_fwd.cu")
    assert report.exit_code == 0
    assert all(one["window_left"] <= one["S"] / 2 for one in symbols(report))


@pytest.mark.parametrize("taken", [True, False])
def test_a_window_is_read_in_several_ways_where_the_kernel_takes_one(taken):
    assumed = Assumed(
        {"q": "f16", "k": "f16", "v": "f16", "o": "f16"},
        {"window_left": "window_left"} if taken else {},
        symbols=frozenset({"window_left"} if taken else ()),
    )
    found = {one.parameters.get("window_left") for one in readings(OPERATIONS["attention"], assumed, changes=1)}
    assert ({"window_left - 1", "window_left // 2"} <= found) == taken


def test_an_optional_array_is_there():
    report = wmmadiag.check(READING / "at_dispatch_linear.cu")
    assert report.exit_code == 0
    assert "null" not in " ".join(report.assumed)


@pytest.mark.slow
def test_a_bias_that_only_the_name_has_is_asked_for(tmp_path):
    text = (READING / "thrust_bias_gemm.cu").read_text()
    path = tmp_path / "k.cu"
    path.write_text(text.replace("start[warp][i] = b[col + i % 16]", "start[warp][i] = 0.f"))
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):
        wmmadiag.check(path)


def test_a_kernel_of_another_operation_is_asked_for_that():
    report = wmmadiag.check(BLIND / "conv_wgrad.cu")
    assert report.exit_code == 3
    assert all("nobody said what the kernel computes" in case.problem.message for case in report.cases)
    assert "'wgrad'" in report.cases[0].problem.message


ROWS = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void project(float* out, const half* input, const half* weight, int batch, int n, int k) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    size_t z = blockIdx.z;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a, input + (z * ROWS + row) * k + i, k);
        wmma::load_matrix_sync(b, weight + (z * n + col) * k + i, k);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(out + (z * ROWS + row) * n + col, c, n, wmma::mem_row_major);
}
void run(float* out, const half* input, const half* weight, int batch, int n, int k) {
    project<<<dim3(n / 16, GRID), 32>>>(out, input, weight, batch, n, k);
}
"""


@pytest.mark.parametrize(
    ("rows", "grid", "extents"),
    [("0", "batch / 16", {"M", "N", "K"}), ("64", "64 / 16, batch", {"batch", "M", "N", "K"})],
)
def test_a_batch_is_one_of_rows_where_nothing_else_counts_these(tmp_path, rows, grid, extents):
    path = tmp_path / "k.cu"
    path.write_text(ROWS.replace("ROWS", rows).replace("GRID", grid))
    report = wmmadiag.check(path, symbols={"M": 64} if rows == "64" else {})
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert {name for name in symbols(report)[-1] if name in {"batch", "M", "N", "K"}} == extents


def test_a_constant_that_the_grid_divides_rows_by_is_a_tile():
    report = wmmadiag.check(EIGHTH / "sgmv_lora_segments.cu")  # constexpr int kRows = 16
    assert symbols(report)[-1]["M"] > 16


def test_an_array_that_host_code_may_leave_out_is_judged():
    report = wmmadiag.check(
        EIGHTH / "paged_prefill_block_table.cu"
    )  # alibi_slopes ? alibi_slopes->data_ptr() : nullptr
    assert "null" not in " ".join(report.assumed)


def test_each_kernel_that_a_source_launches_is_checked(tmp_path, capsys):
    from wmmadiag.cli.main import main

    first = ROWS.replace("ROWS", "0").replace("GRID", "batch / 16")
    second = first[first.index("__global__") :].replace("project", "project_gelu").replace("run", "run_gelu")
    path = tmp_path / "k.cu"
    path.write_text(first + second)
    assert main(["check", str(path)]) == 2
    told = capsys.readouterr()
    assert "default: project\n" in told.out and "ok: all" in told.out
    assert "its name has 'gelu', and nothing else shows it" in told.err


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("y[i] = T(v > 0.f ? v : 0.f);", "relu"),
        ("if (acc.x[i] < 0.0f) acc.x[i] = 0.0f;", "relu"),
        ("int begin = start > 0 ? start : 0;", None),
        ("y[i] = v > 0.f ? w : 0.f;", None),
        ("y[i] = v > 0.f ? v : 0.1f * v;", None),
    ],
)
def test_a_comparison_with_zero_is_an_activation(code, word):
    assert told_by_formulas("gemm", code).get("activation") == word


@pytest.mark.slow
def test_a_number_that_host_code_counts_is_what_it_counts(tmp_path):
    text, counted = (LAST / "splitk_atomic_gemm.cu").read_text(), "int kPerSplit = ((K + splits - 1) / splits"
    report = wmmadiag.check(LAST / "splitk_atomic_gemm.cu")
    assert report.exit_code == 0
    assert "kPerSplit is" not in " ".join(report.assumed)
    assert counted in text
    path = tmp_path / "k.cu"
    path.write_text(text.replace(counted, "int kPerSplit = ((K - 64) / splits"))
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):  # not right with another extent
        wmmadiag.check(path)
