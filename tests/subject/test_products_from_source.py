"""Products of matrices from the source alone: factors, sums, leading dimensions, epilogues."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.contradictions import contradicted
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

BLAS = """
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K, float alpha, float beta) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  C[0] = alpha * acc.x[0] + beta * C[0];
}
void run(half* a, half* b, float* c, int m, int n, int k) {
  dim3 const grid{static_cast<unsigned>(n) / 256u, (m + 127) / 128}, block(256);
  gemm<<<grid, block>>>(a, b, c, m, n, k, 1.1f, 1.2f);
}
"""


def gemm_card(tmp_path, text):
    path = tmp_path / "gemm.cu"
    path.write_text(text)
    return open_subject(path, SubjectOptions(computes="gemm"))


def test_factors_are_symbols_and_what_beta_scales_is_read(tmp_path):
    card = gemm_card(tmp_path, BLAS)
    assert (card.arguments[2].views[0].role, card.arguments[2].direction) == ("c", "inout")
    assert [case.symbols["alpha"] for case in card.cases] == [1, 2]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.parameters["alpha"], bound.parameters["beta"]) == (2.0, 3.0)
    assert [float(value) for value in bound.launch.arguments[6:]] == [2.0, 3.0]


@pytest.mark.parametrize(("passed", "told"), [("1.5f, 0.f", (1.5, 0.0)), ("scale, shift", (1.5, 0.5))])
def test_factors_that_the_kernel_ignores_are_what_the_source_passes(tmp_path, passed, told):
    text = BLAS.replace("alpha * acc.x[0] + beta * C[0]", "acc.x[0]").replace("1.1f, 1.2f", passed)
    text = text.replace("  dim3 const grid", "  float scale = 1.5f, shift = .5f;\n  dim3 const grid")
    card = gemm_card(tmp_path, text)
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.parameters["alpha"], bound.parameters["beta"]) == told
    assert [float(value) for value in bound.launch.arguments[6:]] == list(told)


ONE_SIZE = """#include <cuda_fp16.h>
__global__ void matmul(const half* A, const half* B, float* C, int n) {}
void run(half* A, half* B, float* C, int n) { matmul<<<dim3(n / 16, n / 16), 32>>>(A, B, C, n); }
"""


@pytest.mark.parametrize(("symbols", "size"), [({}, 320), ({"N": "96"}, 96)])
def test_a_kernel_that_knows_one_size_multiplies_squares(tmp_path, symbols, size):
    path = tmp_path / "matmul.cu"
    path.write_text(ONE_SIZE)
    card = open_subject(path, SubjectOptions(computes="gemm", symbols=symbols))
    for case in card.cases:
        sizes = {bind(card, case, card.variants[0]).symbols[name] for name in "MNK"}
        assert len(sizes) == 1
    assert sizes == {size}


VECTORS = """#include <cuda_fp16.h>
__global__ void gemm(const uint4* A, const float4* B, float4* C, int M, int N, int K) { BODY }
void run(const __half* one, HOST* two, float* three, int M, int N, int K) {
  gemm<<<dim3(N / 16, M / 16), 32>>>((const uint4*)one, reinterpret_cast<const float4*>(two), (float4*)three, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("body", "host", "element"),
    [("", "half", "f16"), ("", "const float", "f32"), ("auto b = reinterpret_cast<const __half*>(B);", "void", "f16")],
)
def test_vectors_carry_what_host_or_kernel_say(tmp_path, body, host, element):
    card = gemm_card(tmp_path, VECTORS.replace("BODY", body).replace("HOST", host))
    assert [argument.element.name for argument in card.arguments[:3]] == ["f16", element, "f32"]


def test_vectors_of_which_nobody_says_what_they_carry_are_asked_for(tmp_path):
    with pytest.raises(ConfigurationError, match="dtype of 'B'"):
        gemm_card(tmp_path, VECTORS.replace("BODY", "").replace("HOST", "void"))


HALF_SUMS = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
template <typename T, typename Sum>
__global__ void gemm(const T* A, const T* B, T* C, int M, int N, int K) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sum;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> b;
  wmma::fill_fragment(sum, Sum(0.f));
  wmma::load_matrix_sync(a, A, K);
  wmma::load_matrix_sync(b, B, N);
  wmma::mma_sync(sum, a, b, sum);
  for (int i = 0; i < sum.num_elements; ++i) C[threadIdx.x * 8 + i] = T(sum.x[i]);
}
void run(half* a, half* b, half* c, int m, int n, int k) { gemm<half, SUM><<<m / 16, 32>>>(a, b, c, m, n, k); }
"""


@pytest.mark.parametrize(("sums", "said"), [("half", "f16"), ("float", "auto")])
def test_sums_of_a_template_are_read_off_its_instructions(tmp_path, sums, said):
    path = tmp_path / "gemm.cu"
    path.write_text(HALF_SUMS.replace("SUM", sums))
    card = open_subject(path, SubjectOptions(computes="gemm"))
    assert bind(card, card.cases[0], card.variants[0]).parameters["accumulate"] == said


def test_extents_are_multiples_of_what_the_grid_divides_them_by(tmp_path):
    card = gemm_card(tmp_path, BLAS)
    small, tiles = (bind(card, case, card.variants[0]) for case in card.cases)
    assert (small.symbols["M"], small.symbols["N"], small.launch.grid) == (128, 256, (1, 1, 1))
    assert (tiles.symbols["M"], tiles.symbols["N"], tiles.launch.grid) == (256, 512, (2, 2, 1))


@pytest.mark.parametrize(
    ("accumulators", "expected"),
    [
        ("wmma::fragment<wmma::accumulator, 16, 16, 16, half> c;", "f16"),
        ('asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0}");', "f16"),
        ("wmma::fragment<wmma::accumulator, 16, 16, 16, half> c; fragment<accumulator, 16, 16, 16, float> d;", "auto"),
        ("// fragment<accumulator, 16, 16, 16, half>", "auto"),
        ("wmma::fragment<wmma::accumulator, 16, 16, 16, T> c;", "auto"),
    ],
)
def test_sums_are_kept_as_the_sources_accumulators_are(tmp_path, accumulators, expected):
    text = BLAS.replace("wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;", accumulators)
    card = gemm_card(tmp_path, text)
    assert bind(card, card.cases[0], card.variants[0]).parameters["accumulate"] == expected


BATCHED = """
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K, int lda, long long strideB) {}
void run(half* a, half* b, float* c, int m, int n, int k, int batch) {
  auto launch = [&](auto kernel) {
    kernel<<<dim3(n / 64, m / 64, batch), 256>>>(a, b, c, m, n, k, LDA, STRIDE);
  };
  launch(gemm);
}
"""


@pytest.mark.parametrize(("lda", "stride", "expected"), [("k", "(long long)k * n", 320 * 192), ("m", "x.y", 320 * 192)])
def test_distances_are_what_the_source_passes_else_what_their_names_say(tmp_path, lda, stride, expected):
    card = gemm_card(tmp_path, BATCHED.replace("LDA", lda).replace("STRIDE", stride))
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.launch.grid == (3, 2, 3), "three batches, launched through a lambda's parameter"
    assert [int(value) for value in bound.launch.arguments[6:]] == [bound.symbols[lda.upper()], expected]


ADDED = """
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K) {
  float* tile = C + blockIdx.x * 16;
  BODY
}
__global__ void reference(float* C) { C[0] += 1; }
void run(half* a, half* b, float* c, int m, int n, int k) { gemm<<<dim3(n / 64, m / 64), 128>>>(a, b, c, m, n, k); }
"""


@pytest.mark.parametrize(
    ("body", "added"),
    [
        ("C[threadIdx.x] += sum;", True),
        ("atomicAdd(&C[threadIdx.x * N], sum);", True),
        ("atomicAdd(tile + 3, sum);", True),
        ("C[i * N + j] = sum + C[i * N + j];", True),
        ("wmma::load_matrix_sync(acc, tile, N, wmma::mem_row_major);", True),
        ("C[threadIdx.x] = sum;", False),
        ("C[threadIdx.x] = 0; for (int k = 0; k < K; ++k) C[threadIdx.x] += x;", False),
        ("wmma::store_matrix_sync(tile, acc, N, wmma::mem_row_major);", False),
        ("wmma::load_matrix_sync(frag, A, K);", False),
        ("sum[0] += C_scale; s_C[3] += 1;", False),
    ],
)
def test_a_product_that_is_added_to_what_is_there(tmp_path, body, added):
    path = tmp_path / "gemm.cu"
    path.write_text(ADDED.replace("BODY", body))
    card = open_subject(path, SubjectOptions(entry="gemm", computes="gemm"))
    output = card.arguments[2]
    assert (output.views[0].role, output.direction) == (("c", "inout") if added else ("d", "out"))
    assert bind(card, card.cases[0], card.variants[0]).parameters["beta"] == added


LEADING = """
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K, int lda, int ldb, int ldc) {}
void run(half* a, half* b, float* c, int m, int n, int k) {
  gemm<<<dim3(n / 64, m / 64), 128>>>(a, b, c, m, n, k, LDA, LDB, LDC);
}
"""


@pytest.mark.parametrize(
    ("passed", "turned", "layout"),
    [
        (("k", "n", "n"), (False, False), ""),
        (("k", "k", "n"), (False, True), ""),
        (("m", "k", "m"), (True, True), "BNM"),
        (("k", "pitch", "n"), (False, False), ""),
    ],
)
def test_leading_dimensions_that_host_code_passes_say_how_matrices_lie(tmp_path, passed, turned, layout):
    text = LEADING.replace("LDA", passed[0]).replace("LDB", passed[1]).replace("LDC", passed[2])
    card = gemm_card(tmp_path, text)
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.parameters["transpose_a"], bound.parameters["transpose_b"]) == turned
    assert card.arguments[2].views[0].layout == layout
    assert [int(value) for value in bound.launch.arguments[6:]] == [
        bound.symbols[{"pitch": "N"}.get(one, one.upper())] for one in passed
    ]


def test_constants_templates_and_launches_in_the_users_own_headers(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "tile.h").write_text("constexpr int TILE = 64;\n")
    (tmp_path / "inc" / "kernel.cuh").write_text(
        '#include "tile.h"\n'
        "namespace tc { template <typename In, typename Out>\n"
        "__global__ void mm(const In* a, const In* b, Out* c, int m, int n, int k) {} }\n"
        "inline void run(half* a, half* b, float* c, int m, int n, int k) {\n"
        "  tc::mm<half, float><<<dim3(n / TILE, m / TILE), 32>>>(a, b, c, m, n, k); }\n"
    )
    card = gemm_card(tmp_path, '#include "inc/kernel.cuh"\nint main() {}\n')
    assert [argument.element.name for argument in card.arguments[:3]] == ["f16", "f16", "f32"]
    assert bind(card, card.case("tiles"), card.variants[0]).launch.grid == (3, 2, 1)


EPILOGUE = """
__global__ void linear(const half* x, const half* weight, const half* bias, half* y, int M, int N, int K) {
  y[0] = act(x[0]);
}
__device__ float act(float v) { return %s; }
void launch(half* a, half* b, half* c, half* d, int m, int n, int k) {
  linear<<<dim3(n / 64, m / 64), 128>>>(a, b, c, d, m, n, k);
}
"""


@pytest.mark.parametrize(("formula", "activation"), [
    ("v", "none"), ("fmaxf(v, 0.0f)", "relu"), ("v / (1.0f + __expf(-v))", "silu"),
    ("0.5f * v * (1.0f + erff(v * 0.7071f))", "gelu"),
    ("0.5f * v * (1.0f + tanhf(0.7979f * (v + 0.044715f * v * v * v)))", "gelu_tanh"),
    ("max(v, 0.0f) + erff(v)", "none"), ("v + max(M - 3, 0)", "none"),
])  # fmt: skip
def test_a_bias_and_an_activation_are_drafted(tmp_path, formula, activation):
    path = tmp_path / "linear.cu"
    path.write_text(EPILOGUE % formula)
    text = drafted_text(path, path.with_suffix(".toml"), SubjectOptions(computes="gemm"))
    assert "TODO" not in text.replace("search for TODO", "")
    card = parse_card(text, tmp_path / "linear.toml")
    views = [view for one in card.arguments for view in one.views]
    assert [view.role for view in views] == ["a", "b", "bias", "d"]
    assert views[2].layout == "N"
    assert card.computes.parameters.get("activation", "none") == activation


LARGE_TILES = """\
#include <mma.h>
using namespace nvcuda;
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K) {
  const int warp = threadIdx.x / 32, r = blockIdx.y * 128 + warp * 16, c = blockIdx.x * 128;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[8];
  for (int j = 0; j < 8; j++) wmma::fill_fragment(sum[j], 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, A + r * K + k, K);
    for (int j = 0; j < 8; j++) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(b, B + k * N + c + 16 * j, N);
      wmma::mma_sync(sum[j], a, b, sum[j]);
    }
  }
  for (int j = 0; j < 8; j++) wmma::store_matrix_sync(C + r * N + c + 16 * j, sum[j], N, wmma::mem_row_major);
}
void launch(half* a, half* b, float* c, int M, int N, int K) {
  gemm<<<dim3(N / 128, M / 128), 256>>>(a, b, c, M, N, K);
}
"""


@pytest.mark.parametrize("right", [True, False])
def test_extents_that_tiles_would_make_alike_differ(tmp_path, right):
    path = tmp_path / "k.cu"
    path.write_text(LARGE_TILES if right else LARGE_TILES.replace("dim3(N / 128, M / 128)", "dim3(M / 128, N / 128)"))
    report = check(path)
    assert (report.status == "passed") == right
    last = report.cases[-1].symbols
    assert len({last["M"], last["N"], last["K"]}) == 3


PADDED = """
__global__ void gemm(const half* a, int lda, const half* b, int ldb, float* c, int ldc,
                     int M, int N, int K, float alpha, float beta) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  c[0] = alpha * acc.x[0] + %s c[0];
}
int main() {
  const int m = 64, n = 96, k = 80;
  const int lda = m + 8, ldb = k + 8, ldc = %s;
  half *a, *b; float* c;
  cudaMalloc(&a, lda * k * 2); cudaMalloc(&b, ldb * n * 2); cudaMalloc(&c, ldc * n * 4);
  gemm<<<dim3(m / 16, n / 16), 32>>>(a, lda, b, ldb, c, ldc, m, n, k, 2.0f, 0.5f);
}
"""


@pytest.mark.parametrize(("ldc", "strides"), [("m + 16", (1, 80)), ("m", (1, 64))])
def test_rows_are_padded_as_host_code_passes_their_leading_dimension(tmp_path, ldc, strides):
    card = gemm_card(tmp_path, PADDED % ("beta *", ldc))
    bound = bind(card, card.case("small"), card.variants[0])
    placed = {view.role: one.placements[view.role] for one in bound.arguments for view in one.spec.views}
    assert (placed["a"].strides[-2:], placed["b"].strides[-2:]) == ((72, 1), (88, 1))  # K×M and N×K, a row of 8 more
    assert placed["c"].strides[-2:] == strides
    assert card.computes.parameters["transpose_a"] == card.computes.parameters["transpose_b"] == "1"


def test_a_factor_that_no_line_reads_is_what_host_code_passes(tmp_path):
    """That C is added as it is, is then no reading but the mistake."""
    card = gemm_card(tmp_path, PADDED % ("", "m"))
    added = replace(card, computes=replace(card.computes, parameters={**card.computes.parameters, "beta": "1"}))
    assert card.computes.parameters["beta"] == "0.5"
    assert not contradicted(card) and contradicted(added)
