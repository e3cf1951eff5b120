"""A kernel of each operation is right, and wrong with one mistake of the kinds that such kernels have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.check import check_card

KERNELS = Path(__file__).parents[2] / "kernels"

# Kernel, case, what is wrong; the right text, and the wrong one.
MISTAKES = [
    (
        "conv2d", "small", "padding forgotten",
        "* shape.stride - shape.pad + r",
        "* shape.stride + r",
    ),
    (
        "conv2d", "odd", "stride along one axis",
        "place % shape.q * shape.stride",
        "place % shape.q",
    ),
    (
        "conv2d", "odd", "filters as CRSK",
        "((filter * shape.r + r) * shape.s + s) * shape.c + channel",
        "((channel * shape.r + r) * shape.s + s) * shape.k + filter",
    ),
    (
        "conv2d", "small", "edge not zero",
        "if (h >= 0 && h < shape.h && w >= 0 && w < shape.w)",
        "if (h >= 0 && h < shape.h && w < shape.w)",
    ),
    (
        "conv2d", "odd", "ReLU before the bias",
        "fmaxf(sums[i / TILE][i % TILE] + bias[filter], 0.0f)",
        "fmaxf(sums[i / TILE][i % TILE], 0.0f) + bias[filter]",
    ),
    (
        "gated_gemm", "odd", "halves taken for interleaved",
        "gate_up + (n + col) * k + i, k",
        "gate_up + (col + 1) * k + i, k",
    ),
    (
        "gated_gemm", "odd", "the other factor gated",
        "gate.x[i] / (1.0f + __expf(-gate.x[i])) * up.x[i]",
        "up.x[i] / (1.0f + __expf(-up.x[i])) * gate.x[i]",
    ),
    (
        "gated_gemm", "tile", "a sigmoid alone",
        "gate.x[i] / (1.0f + __expf(-gate.x[i]))",
        "1.0f / (1.0f + __expf(-gate.x[i]))",
    ),
    (
        "lora", "odd", "the update not scaled",
        "__float2half(scaling * tile",
        "__float2half(tile",
    ),
    (
        "lora", "odd", "the first rows of B for every tile",
        "lora_b + col * RANK, RANK",
        "lora_b, RANK",
    ),
    (
        "lora", "odd", "A read untransposed",
        "lora_a + i, k",
        "lora_a + i * RANK, RANK",
    ),
    (
        "norm_gemm", "tile", "the mean not subtracted from what is multiplied",
        "const float value = (__half2float(row[i]) - mean) * rstd;",
        "const float value = __half2float(row[i]) * rstd;",
    ),
    (
        "norm_gemm", "odd", "eps outside the root",
        "rsqrtf(summed(squares) / k + eps)",
        "1.0f / (sqrtf(summed(squares) / k) + eps)",
    ),
    (
        "norm_gemm", "odd", "the next column's bias",
        "bias[col + i % 16]",
        "bias[col + (i + 1) % 16]",
    ),
    (
        "norm_gemm", "odd", "beta scaled, too",
        "value * __half2float(gamma[i]) + __half2float(beta[i])",
        "(value + __half2float(beta[i])) * __half2float(gamma[i])",
    ),
    (
        "grouped_gemm", "odd", "the next group's matrix",
        "b + (group * k + depth) * n",
        "b + ((group + 1) % 4 * k + depth) * n",
    ),
    (
        "grouped_gemm", "odd", "rows of the next group overwritten",
        "if (first + i / 16 < end) d[",
        "d[",
    ),
    (
        "quantized_gemm", "odd", "zero points as they are stored",
        "& 15) + 1;",
        "& 15);",
    ),
    (
        "quantized_gemm", "odd", "values from the highest bits on",
        "(word >> (at % 8 * 4)) & 15",
        "(word >> (28 - at % 8 * 4)) & 15",
    ),
    (
        "quantized_gemm", "odd", "one group too early",
        "of_group = at / group",
        "of_group = (at + 16) / group",
    ),
    (
        "layernorm", "odd", "unbiased variance",
        "of_warps) / cols + eps",
        "of_warps) / (cols - 1) + eps",
    ),
    (
        "layernorm", "tiny_rows", "eps outside the root",
        "rsqrtf(sum_of_block(squares, of_warps) / cols + eps)",
        "1.0f / (sqrtf(sum_of_block(squares, of_warps) / cols) + eps)",
    ),
    (
        "layernorm", "odd", "bias before the weight",
        "(row[i] - m) * r * __half2float(weight[i]) + __half2float(bias[i])",
        "((row[i] - m) * r + __half2float(bias[i])) * __half2float(weight[i])",
    ),
    (
        "rmsnorm", "odd", "the residual left out",
        "const half2 sum = __hadd2(x[i], residual[i]);",
        "const half2 sum = x[i];",
    ),
    (
        "rmsnorm", "odd", "the sum not kept",
        "residual[i] = sum;",
        "",
    ),
    (
        "rmsnorm", "tiny_rows", "eps forgotten",
        "rsqrtf(squares / cols + eps)",
        "rsqrtf(squares / cols)",
    ),
    (
        "softmax", "odd", "the mask one off",
        "min(row + 1, cols)",
        "min(row + 2, cols)",
    ),
    (
        "softmax", "odd", "the mask of every matrix",
        "mask += static_cast<size_t>(row) * cols;",
        "mask += (static_cast<size_t>(blockIdx.y) * rows + row) % rows / 2 * cols;",
    ),
    (
        "softmax", "growing_max", "the mask scaled, too",
        "scores[i] * scale + __half2float(mask[i])",
        "(scores[i] + __half2float(mask[i])) * scale",
    ),
    (
        "adam", "odd", "the root of an uncorrected moment",
        "sqrtf(second / correction2)",
        "sqrtf(second)",
    ),
    (
        "adam", "small", "the decay scaled, too",
        "+ decay * p[i])",
        "+ decay)",
    ),
    (
        "cross_entropy", "odd", "the largest logit not added",
        "logf(sum) + most -",
        "logf(sum) -",
    ),
    (
        "cross_entropy", "small", "not rescaled",
        "sum * expf(most - larger) + expf",
        "sum + expf",
    ),
    (
        "elementwise", "odd", "the bias of the row",
        "bias[i % cols]",
        "bias[i / cols]",
    ),
    (
        "elementwise", "small", "no cube",
        "z * z * z",
        "z * z",
    ),
    (
        "embedding", "odd", "positions run on",
        "positions + static_cast<size_t>(blockIdx.x)",
        "positions + static_cast<size_t>(at % (length - 1))",
    ),
    (
        "embedding", "small", "the next token",
        "tokens[at]",
        "tokens[(at + 1) % length]",
    ),
    (
        "gemv", "odd", "half a warp",
        "int step = 16; step",
        "int step = 8; step",
    ),
    (
        "gemv", "small", "one of two columns",
        " + left.y * right.y",
        "",
    ),
    (
        "glu", "odd", "the other half gated",
        "gate / (1.0f + __expf(-gate)) * up",
        "up / (1.0f + __expf(-up)) * gate",
    ),
    (
        "glu", "small", "neighbours",
        "x[i]), up = __half2float(x[width + i])",
        "x[2 * i]), up = __half2float(x[2 * i + 1])",
    ),
    (
        "group_norm", "odd", "weights of the first group for all",
        "channel = first + i % depth",
        "channel = i % depth",
    ),
    (
        "group_norm", "large_eps", "eps outside the root",
        "rsqrtf(sum_of_block(squares) / count + eps)",
        "1.0f / (sqrtf(sum_of_block(squares) / count) + eps)",
    ),
    (
        "group_norm", "small", "activated where it is not asked for",
        "if (silu) value",
        "value",
    ),
    (
        "qkv_projection", "odd", "values by the weights of keys",
        "part = {wv, bv, v,",
        "part = {wk, bv, v,",
    ),
    (
        "qkv_projection", "odd", "heads of queries for keys",
        "part = {wk, bk, k, kv_heads,",
        "part = {wk, bk, k, heads,",
    ),
    (
        "histogram", "odd", "the last one left out",
        "i < n; i +=",
        "i < n - 1; i +=",
    ),
    (
        "histogram", "small", "counts of a block get lost",
        "atomicAdd(&bins[i], own[i])",
        "bins[i] = own[i]",
    ),
    (
        "quantize", "odd", "cut off",
        "rintf(",
        "truncf(",
    ),
    (
        "quantize", "small", "signs not dropped",
        "fabsf(x[i])",
        "x[i]",
    ),
    (
        "reduce", "odd", "one warp left out",
        "i < blockDim.x / 32; i++",
        "i < blockDim.x / 32 - 1; i++",
    ),
    (
        "reduce", "small", "a lane twice",
        "int step = 16; step > 0",
        "int step = 16; step > 1",
    ),
    (
        "routed_gemm", "odd", "rows taken by slots",
        "slot / topk) * k",
        "slot % topk) * k",
    ),
    (
        "routed_gemm", "one", "padding stored",
        "        if (slot < num_slots)\n            out",
        "        out",
    ),
    (
        "rope", "odd", "turned the other way",
        "second * cosine + first * sine",
        "second * cosine - first * sine",
    ),
    (
        "rope", "small", "twice the angle",
        "-2.0f * pair / width",
        "-1.0f * pair / width",
    ),
    (
        "scan", "odd", "without the first",
        "i >= step ?",
        "i > step ?",
    ),
    (
        "scan", "small", "a step too few",
        "step < blockDim.x; step",
        "step < blockDim.x / 2; step",
    ),
    (
        "topk_softmax", "odd", "the same again",
        "if (lane == which) own = -1.0f;",
        "",
    ),
    (
        "topk_softmax", "small", "not divided",
        "best / sum",
        "best",
    ),
    (
        "transpose", "odd", "not turned",
        "tile[threadIdx.x][threadIdx.y];",
        "tile[threadIdx.y][threadIdx.x];",
    ),
    (
        "transpose", "small", "no barrier",
        "    __syncthreads();\n",
        "",
    ),
    (
        "decode_attention", "grouped", "heads taken in turn",
        "head / (heads / kv_heads)",
        "head % kv_heads",
    ),
    (
        "decode_attention", "small", "keys beyond the length",
        "key < lengths[sequence]",
        "key < longest",
    ),
    (
        "linear_cross_entropy", "odd", "classes that do not exist counted",
        "i < 16 && from + i < vocab;",
        "i < 16;",
    ),
    (
        "linear_cross_entropy", "odd", "not rescaled",
        "sum * __expf(most - larger)",
        "sum",
    ),
    (
        "linear_cross_entropy", "odd", "ignored tokens counted",
        "target == ignore_index ? 0.0f : most",
        "most",
    ),
    (
        "modulated_gemm", "odd", "the first image's for all",
        "shift[image * k + i]",
        "shift[i]",
    ),
    (
        "modulated_gemm", "odd", "scaled without the one",
        "1.0f + __half2float(scale",
        "__half2float(scale",
    ),
    (
        "segmented_lora", "odd", "the segment's number for its adapter's",
        "lora_b + (adapter * num_layers",
        "lora_b + (blockIdx.y % 3 * num_layers",
    ),
    (
        "segmented_lora", "odd", "the first layer's matrix",
        "(adapter * num_layers + layer) * d_out",
        "(adapter * num_layers) * d_out",
    ),
    (
        "segmented_lora", "odd", "the update not scaled",
        "+ scale * tile",
        "+ tile",
    ),
    (
        "paged_prefill", "odd", "the first place of a page",
        "page * page_size + key % page_size",
        "page * page_size",
    ),
    (
        "paged_prefill", "odd", "queries from the sequence's first place on",
        "min(length - 1, before + first + lane)",
        "min(length - 1, first + lane)",
    ),
    (
        "paged_prefill", "odd", "another sequence's pages",
        "block_table[sequence * max_pages",
        "block_table[head % 2 * max_pages",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "case", "right", "wrong"),
    [(kernel, case, right, wrong) for kernel, case, _, right, wrong in MISTAKES],
    ids=[f"{kernel}-{what}" for kernel, _, what, *_ in MISTAKES],
)
@pytest.mark.corpus
def test_a_mistake_is_seen(tmp_path, kernel, case, right, wrong):
    shutil.copy(KERNELS / kernel / "kernel.toml", tmp_path)
    source = (KERNELS / kernel / "kernel.cu").read_text()
    assert right in source
    (tmp_path / "kernel.cu").write_text(source.replace(right, wrong))
    (result,) = check_card(load_card(tmp_path / "kernel.toml"), cases=[case]).cases
    assert result.status == "failed", result.problem


def test_each_operation_has_a_kernel_that_is_right():
    """`test_kernels.py` runs them all."""
    shown = {load_card(path).computes.operation for path in KERNELS.glob("*/kernel.toml")}
    assert shown == {name for name, one in OPERATIONS.items() if one.oracle is not None}
