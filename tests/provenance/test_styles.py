"""Small kernels in styles that the shipped ones do not have; and each kind of disagreement, at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from traced import line_of, traced_source

from wmmadiag.provenance import ProvenanceRun

GEMM = "a a f16, b b f16, d d f32, m = M, n = N, kk = K"

WMMA = """
extern "C" __global__ void k(const half* a, const half* b, float* d, int m, int n, int kk) {
    int i = blockIdx.x * 16, j = blockIdx.y * 16;
    Acc acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < kk; k += 16) {
        %s
        FragA fa;
        RowB fb;
        wmma::load_matrix_sync(fa, a + %s, %s);
        wmma::load_matrix_sync(fb, b + %s, %s);
        wmma::mma_sync(acc, fa, fb, acc);
        %s
    }
    wmma::store_matrix_sync(d + i * n + j, acc, n, wmma::mem_row_major);
}
"""


def wmma(
    tmp_path: Path,
    *,
    first: str = "",
    a: str = "i * kk + k",
    lda: str = "kk",
    b: str = "k * n + j",
    ldb: str = "n",
    last: str = "",
    case: str = "M = 32, N = 48, K = 64",
) -> tuple[ProvenanceRun, str]:
    source = WMMA % (first, a, lda, b, ldb, last)
    return traced_source(tmp_path, source, "gemm", GEMM, case, grid='"M/16", "N/16"'), source


def test_plain(tmp_path: Path) -> None:
    run, _ = wmma(tmp_path)
    assert run.explained
    assert run.disagreements == ()


def test_leading_dimension_n_for_k(tmp_path: Path) -> None:
    run, source = wmma(tmp_path, lda="n", case="M = 16, N = 32, K = 64")
    first = run.disagreements[0]
    assert first.kind == "leading-dimension"
    assert first.place.line == line_of(source, "load_matrix_sync(fa")
    assert first.hint == "pass 64 as the leading dimension"


def test_accumulator_zeroed_in_the_loop(tmp_path: Path) -> None:
    run, source = wmma(tmp_path, first="wmma::fill_fragment(acc, 0.0f);")
    (one,) = run.disagreements
    assert one.kind == "lost-sums"
    assert one.place.line == line_of(source, "mma_sync(acc")
    assert one.detail == ("d[0, 0] has [48, 64) of [0, 64)",)


def test_slice_added_twice(tmp_path: Path) -> None:
    run, _ = wmma(tmp_path, last="if (k == 16) wmma::mma_sync(acc, fa, fb, acc);")
    assert {one.kind for one in run.disagreements} == {"repeated"}


def test_slice_dropped(tmp_path: Path) -> None:
    run, source = wmma(tmp_path, first="if (k == 16) continue;")
    (one,) = run.disagreements
    assert one.kind == "incomplete"
    assert one.place.line == line_of(source, "mma_sync(acc")
    assert one.detail == ("d[0, 0] has [0, 16), [32, 64) of [0, 64)",)


def test_k_step_behind(tmp_path: Path) -> None:
    run, source = wmma(tmp_path, b="(k ? k - 16 : 0) * n + j")
    first = run.disagreements[0]
    assert first.kind == "shifted"
    assert "16 apart" in first.message
    assert first.place.line == line_of(source, "load_matrix_sync(fb")


def test_neighbouring_tile_stored(tmp_path: Path) -> None:
    run, _ = wmma(tmp_path, a="(i ^ 16) * kk + k")
    assert {one.kind for one in run.disagreements} == {"misplaced"}
    assert run.outputs[0].explained == 0


def test_fragment_elements_scaled_and_shifted(tmp_path: Path) -> None:
    run, _ = wmma(
        tmp_path, last="if (k + 16 >= kk) for (int e = 0; e < acc.num_elements; ++e) acc.x[e] = acc.x[e] * 2.0f + 1.0f;"
    )
    assert run.explained


def test_b_loaded_as_its_transpose(tmp_path: Path) -> None:
    source = (WMMA % ("", "i * kk + k", "kk", "k * n + j", "n", "")).replace("RowB fb", "ColB fb")
    run = traced_source(tmp_path, source, "gemm", GEMM, "M = 32, N = 32, K = 32", grid='"M/16", "N/16"')
    kinds = {one.kind for one in run.disagreements}
    assert kinds <= {"transposed", "wrong-axis"}
    assert kinds
    assert run.outputs[0].explained == 0


SPLIT_K = """
extern "C" __global__ void k(const half* a, const half* b, float* d, int m, int n, int kk) {
    __shared__ __align__(32) float tile[256];
    int i = blockIdx.x * 16, j = blockIdx.y * 16, k = blockIdx.z * 16;
    Acc acc;
    wmma::fill_fragment(acc, 0.0f);
    FragA fa;
    RowB fb;
    wmma::load_matrix_sync(fa, a + i * kk + k, kk);
    wmma::load_matrix_sync(fb, b + k * n + j, n);
    wmma::mma_sync(acc, fa, fb, acc);
    wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < 256; e += 32) %s;
}
"""


@pytest.mark.parametrize("right", [True, False])
def test_split_k_through_atomics(tmp_path: Path, right: bool) -> None:
    element = "d[(i + e / 16) * n + j + e % 16]"
    store = f"atomicAdd(&{element}, tile[e])" if right else f"{element} = tile[e]"
    source = SPLIT_K % store
    run = traced_source(tmp_path, source, "gemm", GEMM, "M = 16, N = 32, K = 64", grid='"M/16", "N/16", "K/16"')
    if right:
        assert run.explained, run
        assert run.disagreements == ()
        return
    (one,) = run.disagreements
    assert one.kind == "lost-sums"
    assert one.place.line == line_of(source, "threadIdx.x; e < 256")


# A by pairs of halves that are packed by hand, B transposed by shuffles: m16n8k8 by inline assembly.
PACKED = """
extern "C" __global__ void k(const half* a, const half* b, float* d, int m, int n, int kk) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, j = blockIdx.x * 8;
    float c[4] = {0, 0, 0, 0};
    for (int k = 0; k < kk; k += 8) {
        half2 low = __halves2half2(a[g * kk + k + 2 * t], a[g * kk + k + 2 * t + 1]);
        unsigned high = (unsigned)__half_as_ushort(a[(g + 8) * kk + k + 2 * t]) |
                        (unsigned)__half_as_ushort(a[(g + 8) * kk + k + 2 * t + 1]) << 16;
        // Each lane reads two elements of a row of B; the column that it needs comes from other lanes.
        unsigned pair = *(const unsigned*)(b + (k + g) * n + j + 2 * t);
        unsigned from0 = __shfl_sync(~0u, pair, (2 * t) * 4 + g / 2);
        unsigned from1 = __shfl_sync(~0u, pair, (2 * t + 1) * 4 + g / 2);
        unsigned fb = FB;
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(*(unsigned*)&low), "r"(high), "r"(fb));
    }
    for (int e = 0; e < 4; ++e) d[(g + e / 2 * 8) * n + j + 2 * t + e % 2] = c[e];
}
"""


def test_packing_and_shuffles_by_hand(tmp_path: Path) -> None:
    source = PACKED.replace("FB", "g & 1 ? (from0 >> 16) | (from1 & 0xffff0000u) : (from0 & 0xffffu) | (from1 << 16)")
    run = traced_source(tmp_path, source, "gemm", GEMM, "M = 16, N = 16, K = 24", grid='"N/8"')
    assert run.explained, run
    assert run.disagreements == ()


def test_halves_of_a_pair_exchanged(tmp_path: Path) -> None:
    source = PACKED.replace("FB", "g & 1 ? __byte_perm(from0, from1, 0x3276) : __byte_perm(from0, from1, 0x1054)")
    run = traced_source(tmp_path, source, "gemm", GEMM, "M = 16, N = 16, K = 24", grid='"N/8"')
    assert not run.explained
    assert run.disagreements[0].kind == "shifted"


ATTENTION = """
extern "C" __global__ void k(const half* q, const half* k, const half* v, half* o, int s, int d) {
    __shared__ __align__(32) float sS[16 * 32];
    __shared__ __align__(32) half sP[16 * 32];
    __shared__ __align__(32) float sO[16 * 16];
    __shared__ float rowMax[16], rowSum[16];
    const int lane = threadIdx.x, head = blockIdx.x;
    q += head * s * d; k += %s * s * d; v += head * s * d; o += head * s * d;
    FragA fa; ColB fk; RowB fv; Acc acc;
    for (int j = 0; j < 32; j += 16) {
        wmma::fill_fragment(acc, 0.0f);
        wmma::load_matrix_sync(fa, q, d);
        wmma::load_matrix_sync(fk, k + j * d, d);
        wmma::mma_sync(acc, fa, fk, acc);
        for (int e = 0; e < acc.num_elements; ++e) acc.x[e] *= 0.25f * 1.44269504f;
        wmma::store_matrix_sync(sS + j, acc, 32, wmma::mem_row_major);
    }
    __syncwarp();
    for (int row = 0; row < 16; ++row) {
        float x = %s;
        float largest = x;
        for (int w = 16; w > 0; w /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, w));
        if (lane == 0) rowMax[row] = largest;
    }
    __syncwarp();
    for (int row = 0; row < 16; ++row) {
        float p = exp2f(sS[row * 32 + lane] - rowMax[%s]);
        sP[row * 32 + lane] = __float2half(p);
        float sum = p;
        for (int w = 16; w > 0; w /= 2) sum += __shfl_xor_sync(~0u, sum, w);
        if (lane == 0) rowSum[row] = sum;
    }
    __syncwarp();
    wmma::fill_fragment(acc, 0.0f);
    for (int j = 0; j < 32; j += 16) {
        wmma::load_matrix_sync(fa, sP + j, 32);
        wmma::load_matrix_sync(fv, v + j * d, d);
        wmma::mma_sync(acc, fa, fv, acc);
    }
    wmma::store_matrix_sync(sO, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = lane; e < 256; e += 32)
        o[e] = __float2half(sO[e] / rowSum[%s]);
}
"""


def attention_square(tmp_path: Path, **how: str) -> tuple[ProvenanceRun, str]:
    """One tile of 16 queries and 32 keys per head."""
    source = ATTENTION % (
        how.get("head", "head"),
        how.get("x", "sS[row * 32 + lane]"),
        how.get("maximum", "row"),
        how.get("total", "e / 16"),
    )
    source = source.replace("q += head * s * d;", "q += head * 16 * d;").replace(
        "o += head * s * d;", "o += head * 16 * d;"
    )
    arguments = "q q f16, k k f16, v v f16, o o f16, s = Skv, d = D"
    run = traced_source(tmp_path, source, "attention", arguments, "B = 1, H = 2, Sq = 16, Skv = 32, D = 16", grid='"H"')
    return run, source


def test_row_statistics(tmp_path: Path) -> None:
    run, _ = attention_square(tmp_path)
    assert run.explained, run
    assert run.disagreements == ()


@pytest.mark.parametrize(("where", "index"), [("maximum", "row ^ 1"), ("total", "e % 16")])
def test_statistic_of_another_row(tmp_path: Path, where: str, index: str) -> None:
    run, source = attention_square(tmp_path, **{where: index})
    first = run.disagreements[0]
    assert first.kind == "row-statistic"
    assert first.place.line == line_of(source, "rowMax[row ^ 1]" if where == "maximum" else "rowSum[e % 16]")


def test_keys_of_another_head(tmp_path: Path) -> None:
    run, source = attention_square(tmp_path, head="0")
    (one,) = run.disagreements
    assert one.kind == "wrong-matrix"
    assert "Q[0,1]·K[0,0]ᵀ" in one.message
    assert one.place.line == line_of(source, "mma_sync(acc, fa, fk, acc)")
    assert one.reach[0].elements == 16 * 16  # the second head only
    assert one.reach[0].first == (0, 1, 0, 0)


def test_tail_rows_that_hold_garbage_are_harmless(tmp_path: Path) -> None:
    # Rows past the end are multiplied uninitialised, and never stored.
    source = """
extern "C" __global__ void k(const half* a, const half* b, float* d, int m, int n, int kk) {
    __shared__ __align__(32) half tile[16 * 16];
    __shared__ __align__(32) float out[16 * 16];
    Acc acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < kk; k += 16) {
        for (int e = threadIdx.x; e < m * 16; e += 32) tile[e] = a[e / 16 * kk + k + e % 16];
        __syncwarp();
        FragA fa;
        RowB fb;
        wmma::load_matrix_sync(fa, tile, 16);
        wmma::load_matrix_sync(fb, b + k * n, n);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncwarp();
    }
    wmma::store_matrix_sync(out, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x; e < m * 16; e += 32) d[e] = out[e];
}
"""
    run = traced_source(tmp_path, source, "gemm", GEMM, "M = 11, N = 16, K = 32")
    assert run.explained, run
    assert run.disagreements == ()


def test_operand_split_into_two_halves(tmp_path: Path) -> None:
    # A = high + low: two products per index, and no repetition.
    source = """
extern "C" __global__ void k(const float* a, const half* b, float* d, int m, int n, int kk) {
    __shared__ __align__(32) half high[256], low[256];
    Acc acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < kk; k += 16) {
        for (int e = threadIdx.x; e < 256; e += 32) {
            float x = a[e / 16 * kk + k + e % 16];
            high[e] = __float2half(x);
            low[e] = __float2half(x - __half2float(high[e]));
        }
        __syncwarp();
        FragA fa;
        RowB fb;
        wmma::load_matrix_sync(fb, b + k * n, n);
        wmma::load_matrix_sync(fa, low, 16);
        wmma::mma_sync(acc, fa, fb, acc);
        wmma::load_matrix_sync(fa, high, 16);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncwarp();
    }
    wmma::store_matrix_sync(d, acc, n, wmma::mem_row_major);
}
"""
    run = traced_source(tmp_path, source, "gemm", GEMM.replace("a a f16", "a a f32"), "M = 16, N = 16, K = 48")
    assert run.explained, run
    assert run.disagreements == ()
