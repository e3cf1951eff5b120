"""Each kind of fault, put into a correct kernel in one place: the edit that takes it back is among the first."""

# ruff: noqa: E501
from __future__ import annotations

import functools

import pytest
from edit_sources import FLASH, GEMM

from wmmadiag.compile.lexer import tokenize
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

# (id, source, hypothesis, right text, wrong text); the evidence names the first line that differs.
FAULTS = [
    ("ldm_padding", FLASH, "leading-dimension", "&keys[tc * 16][kk], KP)", "&keys[tc * 16][kk], HD)"),
    ("ldm_store", FLASH, "leading-dimension", "acc, SP, wmma", "acc, BC, wmma"),
    ("ldm_expression", FLASH, "leading-dimension", "&probs[tr * 16][kk], BC + 8)", "&probs[tr * 16][kk], BC)"),
    ("ldm_macro", GEMM, "leading-dimension", "TN + PAD);\n      for (int i", "TN);\n      for (int i"),
    ("ldm_global", GEMM, "leading-dimension", "acc[i][j], N, wmma", "acc[i][j], M, wmma"),
    ("stride_global", GEMM, "leading-dimension", "A + (row + r) * K", "A + (row + r) * N"),
    ("layout_b", FLASH, "operand-layout", "half, wmma::col_major> fk", "half, wmma::row_major> fk"),
    ("layout_alias", GEMM, "operand-layout", "FragB<wmma::row_major>", "FragB<wmma::col_major>"),
    ("layout_store", FLASH, "operand-layout", "acc, SP, wmma::mem_row_major", "acc, SP, wmma::mem_col_major"),
    ("staged_turned", FLASH, "operand-layout", "keys[r][c] =", "keys[c][r] ="),
    ("operands", FLASH, "operand-order", "mma_sync(acc, fq, fv, acc)", "mma_sync(acc, fq, fk, acc)"),
    ("wrong_array", FLASH, "operand-order", "fv, &values[kk]", "fv, &keys[kk]"),
    ("buffer", GEMM, "stale-tile", "&sa[cur][wr", "&sa[cur ^ 1][wr"),
    ("no_fill", FLASH, "accumulator-init", "      wmma::fill_fragment(acc, 0.0f);\n      for (int kk", "      for (int kk"),
    (
        "reset_in_loop", FLASH, "accumulator-reset",
        "      wmma::fill_fragment(acc, 0.0f);\n      for (int kk = 0; kk < HD; kk += 16) {\n",
        "      for (int kk = 0; kk < HD; kk += 16) {\n        wmma::fill_fragment(acc, 0.0f);\n",
    ),
    (
        "overwritten", FLASH, "tile-overwritten",
        "wmma::load_matrix_sync(acc, out, HD, wmma::mem_row_major);", "wmma::fill_fragment(acc, 0.0f);",
    ),
    ("not_added", FLASH, "tile-overwritten", "sum += p;", "sum = p;"),
    ("accumulates_elsewhere", GEMM, "operand-order", "fb[j], acc[i][j]);", "fb[j], acc[j][i]);"),
    ("barrier_gone", FLASH, "missing-barrier", "    __syncthreads();\n    for (int r = warp", "    for (int r = warp"),
    ("barrier_end", GEMM, "missing-barrier", "acc[i][j]);\n    }\n    __syncthreads();", "acc[i][j]);\n    }"),
    ("barrier_weak", FLASH, "missing-barrier", "    }\n    __syncthreads();\n    for (int r", "    }\n    __syncwarp();\n    for (int r"),
    ("wait_count", GEMM, "async-copy-order", "wait_group 1;", "wait_group 2;"),
    (
        "commit_after_wait", GEMM, "async-copy-order",
        'asm volatile("cp.async.commit_group;\\n");\n      asm volatile("cp.async.wait_group 1;\\n");',
        'asm volatile("cp.async.wait_group 1;\\n");\n      asm volatile("cp.async.commit_group;\\n");',
    ),
    ("copy_cache", GEMM, "async-copy-size", "cp.async.cg", "cp.async.ca"),
    ("copy_size", GEMM, "async-copy-size", "[%1], 16;", "[%1], 8;"),
    ("and_or", GEMM, "guard-condition", "r < M && c < N", "r < M || c < N"),
    ("at_most", FLASH, "guard-condition", "row0 + r >= n", "row0 + r > n"),
    ("no_tail_mask", FLASH, "tail-masking", "keys[r][c] = j0 + r < n ?", "keys[r][c] = j0 + r <= n ?"),
    ("rounded_down", GEMM, "loop-extent", "(K + TK - 1) / TK", "K / TK"),
    ("short_loop", FLASH, "loop-extent", "kk < HD; kk += 16", "kk < HD - 16; kk += 16"),
    ("skips", FLASH, "loop-extent", "kk < BC; kk += 16", "kk < BC; kk += 32"),
    ("starts_late", GEMM, "loop-extent", "for (int kk = 0;", "for (int kk = 16;"),
    (
        "one_each", FLASH, "partial-fill",
        "for (int i = threadIdx.x; i < BC * HD; i += blockDim.x) {", "for (int i = threadIdx.x; i < BC * HD / 2; i += blockDim.x) {",
    ),
    ("quotient", FLASH, "index-arithmetic", "int lane = threadIdx.x % 32", "int lane = threadIdx.x / 32"),
    ("row_col", FLASH, "index-arithmetic", "tr = tile / (BC / 16)", "tr = tile % (BC / 16)"),
    ("wrong_index", FLASH, "index-arithmetic", "Q + base + (row0 + tr * 16)", "Q + base + (row0 + tc * 16)"),
    ("lane_for_warp", FLASH, "index-arithmetic", "for (int c = lane; c < BC; c += 32) {\n        float p", "for (int c = warp; c < BC; c += 32) {\n        float p"),
    ("tile_rows", GEMM, "index-arithmetic", "wr + i * 16][kk]", "wr + i * 8][kk]"),
    ("wrong_block", GEMM, "index-arithmetic", "blockIdx.y * TM", "blockIdx.x * TM"),
    ("no_scale", FLASH, "softmax-scale", "scores[r][c] * sm_scale", "scores[r][c]"),
    ("base_two", FLASH, "exp-base", "float p = __expf(scores[r][c] - m_new)", "float p = exp2f(scores[r][c] - m_new)"),
    ("no_rescale_sum", FLASH, "rescale-missing", "total[r] * alpha + sum", "total[r] + sum"),
    ("no_rescale_out", FLASH, "rescale-missing", "* HD + c] * alpha;", "* HD + c];"),
    ("old_max_lost", FLASH, "rescale-missing", "fmaxf(m, mine)", "mine"),
    ("wrong_exponent", FLASH, "rescale-missing", "__expf(m - m_new)", "__expf(m_new - m)"),
    ("no_division", FLASH, "normalisation", "= 1.0f / total[r]", "= 1.0f"),
    ("divides_by_best", FLASH, "normalisation", "= 1.0f / total[r]", "= 1.0f / best[r]"),
    ("causal_off", FLASH, "causal-mask", "j0 + c <= row0 + r", "j0 + c < row0 + r"),
    ("causal_turned", FLASH, "causal-mask", "j0 + c <= row0 + r", "j0 + c >= row0 + r"),
    ("zero_mask", FLASH, "tail-masking", "sm_scale : -INFINITY", "sm_scale : 0.0f"),
    ("max_from_zero", FLASH, "row-statistic", "float mine = -INFINITY;", "float mine = 0.0f;"),
    ("half_warp", FLASH, "reduction", "int step = 16; step > 0; step /= 2)\n    x", "int step = 8; step > 0; step /= 2)\n    x"),
    ("stops_early", FLASH, "reduction", "step > 0; step /= 2)\n    x", "step > 1; step /= 2)\n    x"),
    ("sum_for_max", FLASH, "reduction", "mine = fmaxf(mine, __shfl", "mine = (mine + __shfl"),
    ("half_sums", FLASH, "half-accumulation", "16, 16, 16, float> acc", "16, 16, 16, half> acc"),
    ("unaligned", FLASH, "alignment", "__shared__ __align__(32) half keys", "__shared__ half keys"),
    ("few_rows", FLASH, "too-few-warps", "for (int r = warp; r < BR; r += WARPS) {\n      float m", "for (int r = warp; r < BR / 2; r += WARPS) {\n      float m"),
]  # fmt: skip

FIRST = 10

SHARED_OUT = """
template <int PARTS>
__global__ void k(float* out, const float* in, int K, int tiles) {
  const int steps = gridDim.x * blockDim.x / 32;
  const int share = (K / 16 + PARTS - 1) / PARTS;
  for (int w = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; w < tiles; w += steps) {
    float sum = 0.0f;
    for (int s = 0; s < share; ++s) sum += in[w * K + s];
    out[w] = sum;
  }
}
"""
FAULTS += [
    ("leftover_slices", SHARED_OUT, "loop-extent", "(K / 16 + PARTS - 1) / PARTS", "K / 16 / PARTS"),
    ("threads_for_warps", SHARED_OUT, "loop-extent", "gridDim.x * blockDim.x / 32", "gridDim.x * blockDim.x"),
]

FILLS = """
__global__ void k(const half* a, const half* b, float* out, int n) {
  __shared__ half sa[96 * 40], sb[48 * 72];
  for (int i = threadIdx.x; i < 96 * 32; i += 128) sa[i / 32 * 40 + i % 32] = a[i];
  for (int j = threadIdx.x; j < 48 * 64; j += 128) sb[j / 64 * 72 + j % 64] = b[j];
  for (int j = threadIdx.x; j < 48 * 64; j += 128) __pipeline_memcpy_async(&sb[j * 8], b + j * 8, 8 * sizeof(half));
  __syncthreads();
}
"""
FAULTS += [
    ("half_the_bytes", GEMM, "partial-fill", "[%1], 16;", "[%1], 4;"),
    ("half_the_rows", FILLS, "partial-fill", "i < 96 * 32", "i < 48 * 32"),
    ("other_tile", FILLS, "partial-fill", "i < 96 * 32", "i < 31 * 8"),
    ("half_the_elements", FILLS, "partial-fill", "8 * sizeof(half)", "4 * sizeof(half)"),
]

BYTES = """
__global__ void k(const signed char* a, const signed char* b, int* c, int n) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);
  wmma::load_matrix_sync(fa, a, n);
  wmma::load_matrix_sync(fb, b, n);
  wmma::mma_sync(acc, fa, fb, acc);
}
"""
FAULTS += [
    ("no_such_shape", BYTES, "illegal-shape", "16, signed char, wmma::col_major", "16, float, wmma::col_major"),
    ("bytes_of_other_sign", BYTES, "element-type", "16, signed char, wmma::col", "16, unsigned char, wmma::col"),
]


@functools.cache
def words(text: str) -> tuple[str, ...]:
    return tuple(token.text for token in tokenize(text))


@pytest.mark.parametrize(
    ("source", "hypothesis", "right", "wrong"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_the_mend_is_among_the_first(source: str, hypothesis: str, right: str, wrong: str) -> None:
    assert source.count(right) == 1
    broken = source.replace(right, wrong)
    at = broken.index(wrong, source.index(right))
    same = next((i for i, (a, b) in enumerate(zip(right, wrong, strict=False)) if a != b), 0)
    line = broken.count("\n", 0, at + same) + 1
    found = edits(read_source(broken), hypotheses={hypothesis}, lines={line})
    assert len(found) < 200
    mended = [words(apply(broken, edit)) for edit in found]
    equal = {words(source)} | ALIKE.get(wrong, set())
    ranks = [i for i, text in enumerate(mended) if text in equal]
    assert ranks, [edit.summary for edit in found[:FIRST]]
    assert ranks[0] < FIRST, [edit.summary for edit in found[: ranks[0] + 1]]


# Mends that are as good as the original, spelled otherwise.
ALIKE: dict[str, set[tuple[str, ...]]] = {}
for _, _source, _, _right, _wrong in FAULTS:
    for _other in {
        "fb[j], acc[j][i]);": ["fb[j], acc[i][j]);"],
        "4 * sizeof(half)": ["16"],
        "i < 31 * 8": ["i < 48 * 64"],
        "gridDim.x * blockDim.x": ["(gridDim.x * blockDim.x) / 32"],
        "K / TK": ["(K + TK - 1) / TK"],
        "kk < HD - 16; kk += 16": ["kk < HD - 16 + 16; kk += 16"],
        "kk < BC; kk += 32": ["kk < BC; kk += 16", "kk < BC; kk += (32) / 2", "kk < BC; kk += 32 / 2"],
        "i < BC * HD / 2;": [],
        "for (int i = threadIdx.x; i < BC * HD / 2; i += blockDim.x) {": [
            "for (int i = threadIdx.x; i < BC * KP; i += blockDim.x) {",
            "for (int i = threadIdx.x; i < 2 * (BC * HD / 2); i += blockDim.x) {",
        ],
        "total[r] + sum": ["total[r] * __expf(m - m_new) + sum"],
        "= 1.0f": ["= (1.0f) / total[r]"],
        "mine = (mine + __shfl": [],
        "float p = exp2f(scores[r][c] - m_new)": ["float p = exp2f((scores[r][c] - m_new) * 1.44269504f)"],
        "for (int r = warp; r < BR / 2; r += WARPS) {\n      float m": [
            "for (int r = warp; r < 2 * (BR / 2); r += WARPS) {\n      float m"
        ],
        "float mine = 0.0f;": ["float mine = -1e30f;"],
    }.get(_wrong, []):
        ALIKE.setdefault(_wrong, set()).add(words(_source.replace(_right, _other)))
