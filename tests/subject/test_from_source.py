from __future__ import annotations

import numpy as np
import pytest
from small_kernels import RIGHT

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.derive import drafted_text
from wmmadiag.subject.drafts.guess import DraftParameter, roles_for, symbol_for, value_for
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

SOURCE = """
#define BM 64
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
template <int D, typename T>
__global__ void attn(const T* Q, const T* K, const T* V, T* O, int B, int H, int len, float sc, int tiles) {}
void launch(half* dq, half* dk, half* dv, half* out, int batch, int nheads, int n) {
  dim3 grid(CEIL_DIV(n, BM), batch * nheads);
  const int tiles = CEIL_DIV(n, BM);
  attn<32, half><<<grid, 128, 2 * BM * 32 * sizeof(half)>>>(dq, dk, dv, out, batch, nheads, n, 0.125f, tiles);
}
"""


def pointer(name, const=True, dtype="f16"):
    return DraftParameter(name, "half", True, const, dtype)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "my_kernel.cu"
    path.write_text(SOURCE)
    return path


def test_a_card_from_the_source_alone(source):
    card = open_subject(source, SubjectOptions(computes="attention"))
    assert card.entry == "attn<32, half>"
    assert [v.role for a in card.arguments for v in a.views] == ["q", "k", "v", "o"]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((2, 6, 1), (128, 1, 1), 8192)
    assert bound.symbols["D"] == 32
    assert [int(a) for a in bound.launch.arguments[4:7]] == [2, 3, 128]
    assert float(bound.launch.arguments[7]) == 0.125 == bound.parameters["scale"], "what the host passes"
    assert int(bound.launch.arguments[8]) == 2
    assert card.command == f"wmmadiag check {source} --entry 'attn<32, half>' --computes attention"


def test_options_replace_what_the_source_does_not_say(source):
    source.write_text(SOURCE.partition("void launch")[0].replace(", int tiles", ""))
    options = {"grid": ("ceil_div(S, 64)", "B*H"), "block": ("256",), "shared": "1024", "symbols": {"S": "96"}}
    card = open_subject(source, SubjectOptions(entry="attn<32, half>", computes="attention", **options))
    bound = bind(card, card.cases[0], card.variants[0])
    assert (bound.launch.grid, bound.launch.block, bound.launch.shared_bytes) == ((2, 1, 1), (256, 1, 1), 1024)
    assert "--grid 'ceil_div(S, 64),B*H' --block 256 --shared 1024 --symbol S=96" in card.command


def test_what_cannot_be_derived_is_said(source):
    kernel = SOURCE.partition("void launch")[0].replace(", int tiles", "")
    source.write_text(
        kernel.replace("float sc", "float sc, Strange* mystery, int mode").replace("{}", "{ O[mode] = Q[0]; }")
    )
    with pytest.raises(ConfigurationError) as caught:
        open_subject(source, SubjectOptions(computes="attention"))
    text = str(caught.value)
    for part in ("role of 'mystery'", "dtype of 'mystery'", "value of 'mode'", "grid", "block", "wmmadiag init"):
        assert part in text
    source.write_text(kernel)
    with pytest.raises(ConfigurationError, match="give --grid … --block …"):
        open_subject(source, SubjectOptions(entry="attn<32,half>", computes="attention"))
    with pytest.raises(ConfigurationError, match="did you mean 'attention'"):
        open_subject(source, SubjectOptions(computes="attenton"))


def test_a_draft_loads_or_says_what_to_fill_in(source):
    def drafted():
        return drafted_text(source, source.with_suffix(".toml"), SubjectOptions(computes="attention"))

    card = parse_card(drafted(), source.parent / "kernel.toml")
    assert len(card.arguments) == 9
    unsaid = SOURCE.replace(", int tiles) {}", ", int mode) { O[mode] = Q[0]; }").replace("tiles);", "strange());")
    source.write_text(unsaid)
    todo = drafted()
    assert "#   the value of 'mode'" in todo
    with pytest.raises(ConfigurationError, match="still to be filled in"):
        parse_card(todo, source.parent / "kernel.toml")


@pytest.mark.parametrize(("names", "roles"), [
    (["Q", "K", "V", "O"], ["q", "k", "v", "o"]), (["d_q", "d_k", "d_v", "d_out"], ["q", "k", "v", "o"]),
    (["query", "key", "value", "output"], ["q", "k", "v", "o"]), (["a", "b", "c", "r"], ["q", "k", "v", "o"]),
    (["out", "q_ptr", "k_ptr", "v_ptr"], ["o", "q", "k", "v"]), (["qkv", "out"], ["qkv", "o"]),
    (["Q", "K", "V", "O", "L"], ["q", "k", "v", "o", "lse"]), (["Q", "K", "V", "O", "tmp"], ["q", "k", "v", "o", None]),
])  # fmt: skip
def test_roles_by_name_and_order(names, roles):
    assert roles_for([pointer(name, False) for name in names], "attention") == roles


def test_roles_by_constness():
    unnamed = [pointer("r", False), pointer("x"), pointer("y"), pointer("z")]
    assert roles_for(unnamed, "attention") == ["o", "q", "k", "v"]
    assert roles_for([pointer("A"), pointer("B"), pointer("C", False)], "gemm") == ["a", "b", "d"]
    assert roles_for([pointer("A"), pointer("B"), pointer("C"), pointer("D", False)], "gemm") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("name", "operation", "symbol"), [
    ("seq_len", "attention", "S"), ("N", "attention", "S"), ("N", "gemm", "N"), ("head_dim", "attention", "D"),
    ("num_kv_heads", "attention", "Hkv"), ("kv_len", "attention", "Skv"), ("BH", "attention", "B*H"),
    ("foo", "attention", None),
])  # fmt: skip
def test_symbols_by_name(name, operation, symbol):
    assert symbol_for(name, operation) == symbol


def test_values_by_name():
    assert value_for("softmax_scale", "attention") == "1/sqrt(D)"
    assert value_for("is_causal", "attention") == "causal"
    assert value_for("ldb", "gemm") == "K if transpose_b else N"
    assert value_for("other", "gemm") is None


WORKSPACES = """
__global__ void fwd(const float* Q, const float* K, const float* V, int N, int d, int Tc, float* l,
                    float* m, float* O) {}
torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  const int B = Q.size(0); const int nh = Q.size(1); const int N = Q.size(2); const int d = Q.size(3);
  const int Tc = ceil((float) N / 32);
  auto O = torch::zeros_like(Q);
  auto l = torch::zeros({B, nh, N});
  auto m = torch::full({B, nh, N}, -INFINITY);
  dim3 grid(B, nh); dim3 block(32);
  fwd<<<grid, block, 3 * 32 * d * sizeof(float)>>>(Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), N, d,
      Tc, l.data_ptr<float>(), m.data_ptr<float>(), O.data_ptr<float>());
}
"""


def test_workspaces_and_initial_values_come_from_host_code(tmp_path):
    path = tmp_path / "fwd.cu"
    path.write_text(WORKSPACES)
    card = open_subject(path, SubjectOptions(computes="attention"))
    bound = bind(card, card.case("tiles"), card.variants[0])
    running_sum, running_max, out = (bound.arguments[i] for i in (6, 7, 8))
    assert running_sum.spec.direction == "workspace"
    assert running_sum.storage.shape == (2 * 3 * 128,)
    assert (running_sum.storage == 0).all()
    assert np.isneginf(running_max.storage).all()
    assert (out.storage == 0).all()
    assert bound.launch.grid == (2, 3, 1)
    assert bound.launch.shared_bytes == 3 * 32 * 64 * 4
    assert int(bound.launch.arguments[5]) == 4


TEMPLATED = """
template <int HEAD_DIM, int BLOCK, bool CAUSAL, typename T>
__global__ void __launch_bounds__(BLOCK) attn(T* out, const T* q, const T* k, const T* v, int heads, int q_len,
                                              int kv_len, float sm_scale) {}
template <int D, typename T>
void launch(T* o, T* q, T* k, T* v, int b, int h, int lq, int lk, float sc, cudaStream_t st) {
  constexpr int NT = 64;
  dim3 g((lq + NT - 1) / NT, b * h);
  attn<D, NT, true, T><<<g, NT, 0, st>>>(o, q, k, v, h, lq, lk, sc);
}
"""


def templated(tmp_path, more, entry="attn"):
    path = tmp_path / "templated.cu"
    path.write_text(TEMPLATED + more)
    return open_subject(path, SubjectOptions(entry=entry, computes="attention"))


def test_template_arguments_come_from_the_launchers_caller(tmp_path):
    card = templated(tmp_path, "int main() { launch<32, half>(0, 0, 0, 0, 1, 1, 64, 64, 1.f, 0); }\n")
    assert card.entry == "attn<32, 64, true, half>"
    assert card.arguments[0].element.name == "f16"
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.symbols["D"], bound.parameters["causal"]) == (32, True)
    assert (bound.launch.grid, bound.launch.block) == ((2, 3, 1), (64, 1, 1))


def test_open_template_arguments_become_symbols_or_are_asked_for(tmp_path):
    with pytest.raises(ConfigurationError, match=r"what are the template arguments T\?") as caught:
        templated(tmp_path, "")
    assert "attn<{D}, 64, true, T>" in str(caught.value) and "the dtype of 'out'" in caught.value.detail


def test_an_entry_that_the_user_instantiates(tmp_path):
    card = templated(tmp_path, "", "attn<128,64,false,__nv_bfloat16>")
    assert card.arguments[1].element.name == "bf16"
    assert bind(card, card.cases[0], card.variants[0]).symbols["D"] == 128


def test_a_host_name_passed_for_several_extents_makes_them_one(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(
        "#include <cuda_fp16.h>\n"
        "__global__ void mm(half* a, half* b, float* c, int m_total, int n_total, int k_total) {}\n"
        "int main() { int SIDE = 4096; mm<<<SIDE / 16, 32>>>(pa, pb, pc, SIDE, SIDE, SIDE); }\n"
    )
    card = open_subject(path, SubjectOptions(computes="gemm"))
    for case in card.cases:
        bound = bind(card, case, card.variants[0])
        sizes = [int(a) for a in bound.launch.arguments[3:]]
        assert len(set(sizes)) == 1 and bound.launch.grid == (sizes[0] // 16, 1, 1)
    assert sizes[0] < 4096


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


def test_scales_of_rows_and_columns_are_known_by_their_names():
    names = [pointer("x"), pointer("w"), pointer("x_scale"), pointer("w_scale"), pointer("out", False)]
    assert roles_for(names, "gemm") == ["a", "b", "scale_a", "scale_b", "d"]


SCORES = """
__global__ void attn(const half* q, const half* k, const half* v, %s* attn_mask, const float* alibi_slopes,
                     const int* seqlens_k, half* o, int B, int H, int S, int D, float softcap, int window_size) {
  if (B + H + S + D > window_size * softcap) o[0] = q[seqlens_k[0]];
}
void launch(half* a, float* f, int* n, int b, int h, int s, int d) {
  attn<<<dim3(s / 64, b * h), 128>>>(a, a, a, n, f, n, a, b, h, s, d, 20.0f, 32);
}
"""


@pytest.mark.parametrize(("dtype", "role"), [("half", "bias"), ("float", "bias"), ("int", "mask"), ("bool", "mask")])
def test_terms_of_scores_are_drafted_and_what_their_names_leave_open_is_asked(tmp_path, dtype, role):
    path = tmp_path / "attn.cu"
    path.write_text(SCORES % dtype)
    text = drafted_text(path, path.with_suffix(".toml"), SubjectOptions(computes="attention"))
    with pytest.raises(ConfigurationError, match="layout of 'attn_mask' is still to be filled in"):
        parse_card(text, tmp_path / "attn.toml")
    open_ = [line for line in text.splitlines() if line.startswith("#   ")]
    told = ("the layout of 'attn_mask'", "the role of 'seqlens_k'", "the value of 'window_size'")
    assert all(any(what in line for line in open_) for what in told)
    assert any("the meaning of 'attn_mask'" in line for line in open_) == (role == "mask")
    text = text.replace('layout = "TODO"', 'layout = "BSK"').replace('value = "TODO"', "value = 32")
    card = parse_card(text, tmp_path / "attn.toml")
    roles = [view.role for one in card.arguments for view in one.views]
    assert roles == ["q", "k", "v", role, "alibi_slopes", "lengths", "o"]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.parameters["softcap"] == 1.5
    assert bound.inputs()[role].shape == (2, 1, 128, 128)
    assert bound.inputs()["alibi_slopes"].shape == (1, 3)
    lengths = bound.inputs()["lengths"]
    assert ((lengths >= 1) & (lengths < 128)).all() and lengths[0] != lengths[1]


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


def test_a_symbol_of_an_option_that_nothing_knows_is_told_as_that(tmp_path):
    path = tmp_path / "gemm.cu"
    path.write_text(RIGHT)
    with pytest.raises(ConfigurationError, match=r"what is the value of `Q`\?\n  it stands in --grid"):
        open_subject(path, SubjectOptions(grid=("N // 16", "Q // 16"), block=("32",)))
