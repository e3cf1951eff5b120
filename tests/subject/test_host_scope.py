"""Drafts of kernels whose launches need more than plain names."""

from __future__ import annotations

import pytest

from wmmadiag.subject.binding import bind
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

KERNEL = """
template <typename Traits, int kHeadDim, bool kCausal>
__global__ void attn(const half* q, const half* k, const half* v, half* o, long q_batch_stride, long q_row_stride,
                     int seqlen_q, int seqlen_k, float scale_log2) {}
"""
TRAITS = (
    """
#include <cuda_fp16.h>
namespace lib {
template <int M, int N> struct Traits { static constexpr int kThreads = M * 2; half tile[M][N + 8]; };
"""
    + KERNEL
    + """
template <int kHeadDim, bool kCausal>
void run(at::Tensor q, at::Tensor k, at::Tensor v, at::Tensor out, float softmax_scale) {
  using T = Traits<64, kHeadDim>;
  const int batch = q.size(0), seqlen_q = q.size(1), heads = q.size(2);
  dim3 grid((q.size(1) + 63) / 64, heads, batch), block(T::kThreads);
  attn<T, kHeadDim, kCausal><<<grid, block, sizeof(T)>>>(
      reinterpret_cast<const half*>(q.data_ptr()), (const half*)k.data_ptr(), (half*)v.data_ptr(),
      (half*)out.data_ptr(), q.stride(0), q.stride(1), seqlen_q, k.size(1), softmax_scale * M_LOG2E);
}
}
void any(at::Tensor q, at::Tensor k, at::Tensor v, at::Tensor out) { lib::run<32, true>(q, k, v, out, 1.f); }
"""
)


def subject(tmp_path, text, computes="attention", **options):
    path = tmp_path / "kernel.cu"
    path.write_text(text)
    return open_subject(path, SubjectOptions(computes=computes, **options))


def test_traits_tensor_sizes_and_a_layout(tmp_path):
    card = subject(tmp_path, TRAITS)
    assert card.entry.replace(" ", "") == "lib::attn<lib::Traits<64,32>,32,true>"
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert (bound.launch.grid, bound.launch.block) == ((2, 3, 2), (128, 1, 1))
    assert bound.launch.shared_bytes == 64 * 40 * 2
    assert [int(value) for value in bound.launch.arguments[4:8]] == [128 * 3 * 32, 3 * 32, 128, 256]
    assert float(bound.launch.arguments[8]) == pytest.approx(1.4426950408889634), "as the caller says"
    assert bound.parameters["scale"] == pytest.approx(1.0)
    assert bound.symbols["causal"] == 1 and bound.symbols["D"] == 32
    views = [argument.views[0] for argument in card.arguments[:4]]
    assert [view.layout for view in views] == ["BSHD"] * 4


PLAIN = """
#include <cuda_fp16.h>
__global__ void attn(const half* q, const half* k, const half* v, half* o, int B, int H, int seq_len) {}
void run(half* q, half* k, half* v, half* o, int B, int H, int n) {
  attn<<<dim3(n / 64, B * H), 128>>>(q, k, v, o, B, H, n); }
"""


def test_a_head_dimension_that_nothing_tells_is_assumed_and_said(tmp_path):
    assumed = [one for one in subject(tmp_path, PLAIN).assumed if "head dimension" in one]
    assert len(assumed) == 1 and "--symbol D=" in assumed[0]
    card = subject(tmp_path, PLAIN, symbols={"D": "128"})
    assert bind(card, card.case("tiles"), card.variants[0]).symbols["D"] == 128


def test_a_fixed_sequence_length_counts_as_told(tmp_path):
    text = "#define HEAD_DIM 32\nconst int SEQ_LEN = 256;\n" + PLAIN.replace(", int seq_len", "").replace(
        "n / 64", "SEQ_LEN / 64"
    ).replace(", n);", ");")
    card = subject(tmp_path, text)
    assert bind(card, card.cases[0], card.variants[0]).symbols["S"] == 256


def test_the_same_expression_as_grid_and_argument(tmp_path):
    path = tmp_path / "softmax.cu"
    path.write_text(
        "__global__ void sm(const float* x, float* y, int rows, int cols) {}\n"
        "void run(float* x, float* y, int a, int b, int c) { sm<<<a * b, 256>>>(x, y, a  * b, c); }\n"
    )
    card = open_subject(path, SubjectOptions(computes="softmax"))
    bound = bind(card, card.cases[0], card.variants[0])
    assert bound.launch.grid[0] == bound.symbols["M"]


PACKED = """
#define HEAD_DIM 64
__global__ void attn(const half* qkv, half* out, int B, int S, int H) {}
void run(at::Tensor qkv) {
  const int B = qkv.size(0), S = qkv.size(1), H = qkv.size(3);
  auto out = torch::empty({B, S, H, HEAD_DIM}, qkv.options());
  attn<<<dim3(S / 64, H, B), 128>>>((half*)qkv.data_ptr(), (half*)out.data_ptr(), B, S, H);
}
"""


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (PACKED, "BSHD"),
        (PACKED.replace("{B, S, H, HEAD_DIM}", "{B, H, S, HEAD_DIM}"), "BHSD"),
        (PACKED.replace("torch::empty({B, S, H, HEAD_DIM}, qkv.options())", "make(qkv)"), "BSHD"),
    ],
    ids=["sizes", "other sizes", "unknown"],
)
def test_the_output_of_packed_operands(tmp_path, text, layout):
    card = subject(tmp_path, text)
    assert [view.role for view in card.arguments[0].views] == ["q", "k", "v"]
    assert (card.arguments[1].views[0].layout or "BHSD") == layout


TILED = """
#include <cuda_fp16.h>
#define HEAD_DIM 64
__global__ void attn(const half* q, const half* k, const half* v, half* o, int H, int Hkv, int seq_q, int seq_k) {
  for (int j = 0; j < seq_k; j += 32) { BODY }
}
void run(half* q, half* k, half* v, half* o, int B, int H, int Hkv, int seq_q, int seq_k) {
  attn<<<dim3((seq_q + 63) / 64, H, B), 128>>>(q, k, v, o, H, Hkv, seq_q, seq_k); }
"""


@pytest.mark.parametrize(
    ("body", "tail"),
    [
        ("if (threadIdx.x < seq_q) o[0] = q[0];", True),
        ("int row = 64 * blockIdx.x + threadIdx.x; x = row >= seq_q ? 0.f : 1.f;", True),
        ("int row = 64 * blockIdx.x; x = row >= seq_q ? 0.f : 1.f;", False),
        ("", False),
        ("assert(seq_q <= seq_k);", False),
        ("if (seq_q % 64 != 0) return; if (threadIdx.x < seq_q) o[0] = q[0];", False),
    ],
)
def test_a_tail_is_tried_where_the_kernel_guards_it(tmp_path, body, tail):
    text = TILED.replace("BODY", body).replace("seq_", "seqlen_")
    card = subject(tmp_path, text)
    names = [case.name for case in card.cases]
    assert names == ["small", "tiles", *(["tail"] if tail else [])]
    if tail:
        bound = bind(card, card.case("tail"), card.variants[0])
        assert (bound.symbols["Sq"], bound.symbols["Skv"], bound.launch.grid[0]) == (80, 256, 2)


FLAGGED = """
#include <cuda_fp16.h>
TEMPLATE
__global__ void attn(const half* q, const half* k, const half* v, half* o, int heads, int seqlen_q,
                     int seqlen_k FLAG) {}
void run(half* q, half* k, half* v, half* o, int batch, int heads, int seqlen_q, int seqlen_k, bool is_causal) {
  attnGIVEN<<<dim3(seqlen_q / 64, heads, batch), 128>>>(q, k, v, o, heads, seqlen_q, seqlen_k PASSED);
}
"""


@pytest.mark.parametrize(
    ("template", "flag", "given", "passed"),
    [("", ", bool causal", "", ", is_causal"), ("template <bool kCausal>", "", "<is_causal>", "")],
)
def test_where_a_flag_masks_a_case_has_the_mask(tmp_path, template, flag, given, passed):
    text = FLAGGED.replace("TEMPLATE", template).replace("FLAG", flag).replace("GIVEN", given).replace("PASSED", passed)
    card = subject(tmp_path, text, symbols={"D": "64"})
    flags = {case.name: bind(card, case, card.variants[0]).parameters["causal"] for case in card.cases}
    assert flags == {"small": False, "tiles": False, "causal": True}
    masked = bind(card, card.case("causal"), card.variants[0]).symbols
    assert masked["Sq"] == masked["Skv"] > 64
    card = subject(tmp_path, text, symbols={"D": "64", "causal": "1"})
    assert [case.name for case in card.cases] == ["small", "tiles"]


def test_strides_of_keys_do_not_mean_fewer_heads(tmp_path):
    card = subject(tmp_path, TRAITS.replace("q.stride(0)", "k.stride(0)"))
    symbols = bind(card, card.case("tiles"), card.variants[0]).symbols
    assert symbols["H"] == symbols["Hkv"] == 3


def test_extents_that_a_kernel_takes_apart_differ(tmp_path):
    card = subject(tmp_path, TILED.replace("BODY", "").replace("seq_", "seqlen_"))
    symbols = bind(card, card.case("tiles"), card.variants[0]).symbols
    assert (symbols["H"], symbols["Hkv"], symbols["Sq"], symbols["Skv"]) == (8, 2, 128, 256)


GROUPED = """
#include <mma.h>
#include <cuda_fp16.h>
__global__ void varlen_attn(const half* q, const half* k, const half* v, half* out, const int* cu_seqlens,
                            int num_heads, int num_kv_heads) {
  int kv_head = blockIdx.y / (num_heads / num_kv_heads);
  if (threadIdx.x == 0 && cu_seqlens[blockIdx.z] == 0) out[kv_head] = __float2half(expf(__half2float(q[0])));
}
void run(half* q, half* k, half* v, half* o, int* cu, int B, int max_seqlen, int num_heads, int num_kv_heads) {
  varlen_attn<<<dim3((max_seqlen + 31) / 32, num_heads, B), 128>>>(q, k, v, o, cu, num_heads, num_kv_heads); }
"""


def test_heads_of_keys_that_a_kernel_takes_differ_from_heads_and_their_groups_for_packed_sequences_too(tmp_path):
    card = subject(tmp_path, GROUPED, computes="packed_attention", symbols={"D": "64"})
    symbols = bind(card, card.case("tiles"), card.variants[0]).symbols
    heads, of_keys = symbols["H"], symbols["Hkv"]
    assert 1 < of_keys < heads and heads // of_keys != of_keys


PACKED = """
#include <torch/extension.h>
#include <mma.h>
#include <cuda_fp16.h>
__global__ void w4a16_gemm(const half* x, const uint32_t* qweight, const half* scales, const uint32_t* qzeros, half* y,
                           int M, int N, int K, int group_size) {
  float w = (qweight[0] & 0xF) - (float)(qzeros[0] & 0xF);
  if (threadIdx.x == 0) y[0] = __float2half(__half2float(x[0]) * w * (K / group_size));
}
void run(half* x, uint32_t* qweight, half* scales, uint32_t* qzeros, half* y, int M, int N, int K, int group_size) {
  TORCH_CHECK(group_size % 8 == 0 && K % group_size == 0);
  TORCH_CHECK((K / group_size) % 8 == 0);
  w4a16_gemm<<<dim3((N + 63) / 64, (M + 31) / 32), 128>>>(x, qweight, scales, qzeros, y, M, N, K, group_size);
}
"""


def test_sizes_obey_what_host_code_asks_of_groups_and_of_their_number_twice(tmp_path):
    card = subject(tmp_path, PACKED, computes="quantized_gemm")
    groups = [bind(card, card.case(one), card.variants[0]).symbols for one in ("small", "tiles")]
    assert [one["K"] // one["group"] for one in groups] == [8, 16]
    assert all(one["K"] % one["group"] == one["group"] % 8 == 0 for one in groups)


OF_PARTS = """
#include <torch/extension.h>
#include <mma.h>
#include <cuda_fp16.h>
__global__ void w8a16_gemm(const half* x, const int8_t* qweight, const half* scales, half* y,
                           int M, int N, int K, int group) {
  if (threadIdx.x == 0) y[0] = __float2half(__half2float(x[0]) * qweight[0] * __half2float(scales[K / group]));
}
torch::Tensor run(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales) {
  const int M = x.size(0), K = x.size(1), N = qweight.size(AXIS_OF_N);
  TORCH_CHECK(qweight.size(AXIS_OF_K) == K);
  const int group = K / scales.size(AXIS_OF_K);
  auto y = torch::empty({M, N}, x.options());
  w8a16_gemm<<<dim3((N + 63) / 64, (M + 63) / 64), 128>>>(
      (const half*)x.data_ptr(), qweight.data_ptr<int8_t>(), (const half*)scales.data_ptr(), (half*)y.data_ptr(),
      M, N, K, group);
  return y;
}
"""


@pytest.mark.parametrize(("of_n", "of_k", "layouts"), [(0, 1, ("NK", "NG")), (1, 0, ("", ""))])
def test_weights_and_scales_lie_as_the_host_divides_by_the_number_of_their_groups(tmp_path, of_n, of_k, layouts):
    text = OF_PARTS.replace("AXIS_OF_N", str(of_n)).replace("AXIS_OF_K", str(of_k))
    card = subject(tmp_path, text, computes="quantized_gemm")
    by_name = {one.name: one for one in card.arguments}
    assert str(by_name["group"].value) == "group"
    assert tuple(by_name[name].views[0].layout for name in ("qweight", "scales")) == layouts
    symbols = bind(card, card.case("tiles"), card.variants[0]).symbols
    assert symbols["K"] // symbols["group"] > 1
