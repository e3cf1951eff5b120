"""Structs and accessors as parameters: their members come from the declaration and the host code."""

from __future__ import annotations

import pytest

from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.questions import AskedSource, ValueOf
from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import load
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import field_offsets
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.drafts.derive import drafted_text, kernel_of
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

KERNEL = """
__global__ void k(PARAMETER) {
  if (threadIdx.x < p.m) p.d[threadIdx.x] = (float)p.a[threadIdx.x * p.k] + (float)p.b[p.n] + p.alpha;
}
"""
STRUCT = """#include <cuda_fp16.h>
struct P { const half* a; int m, n; const half* b; int k; float* d; float alpha; };
"""


def card_of(tmp_path, text, operation="gemm", **options):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return open_subject(path, SubjectOptions(computes=operation, **options))


ORDERED = {
    "members": "P p; p.a = x; p.m = rows; p.n = w; p.b = y; p.k = deep; p.d = z; p.alpha = 1.f;",
    "aggregate": "P p{x, rows, w, y, deep, z, 1.f};",
    "assigned": "P p = {x, rows, w, y, deep, z, 1.f};",
    "designated": "P p = {.a = x, .m = rows, .n = w, .b = y, .k = deep, .d = z, .alpha = 1.f};",
    "pointer": "P *h = new P; h->a = x; h->m = rows; h->n = w; h->b = y; h->k = deep; h->d = z; P p = *h;",
    "constructed": "P p(x, rows, w, y, deep, z);",
    "made": "P p = P{x, rows, w, y, deep, z, 1.f};",
}


@pytest.mark.parametrize("how", ORDERED)
@pytest.mark.parametrize("parameter", ["P p", "const P p", "const __grid_constant__ P p"])
def test_a_struct_that_host_code_fills(tmp_path, how, parameter):
    if how == "constructed":
        made = (
            "P(const half* f, int u, int v, const half* s, int t, float* o) : a(f), m{u}, n(v), b(s), d(o) { k = t; }"
        )
        text = STRUCT.replace("float alpha;", f"float alpha = 1.f; {made}")
    else:
        text = STRUCT
    host = "void run(half* x, half* y, float* z, int rows, int w, int deep) { %s k<<<p.m / 32, 32>>>(p); }"
    card = card_of(tmp_path, text + KERNEL.replace("PARAMETER", parameter) + host % ORDERED[how])
    assert [view.role for one in card.arguments for view in one.views] == ["a", "b", "d"]
    assert [one.value for one in card.arguments if one.value is not None] == ["M", "N", "K", "alpha"]
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.launch.structs == ((0, 7),)
    assert bound.launch.grid == (4, 1, 1)
    kernel = load(compile_source(tmp_path / "k.cu").ptx)
    kernel.launch(bound.launch)  # the emulator refuses a struct of another size


PARTS = """#include <cuda_fp16.h>
struct Ref { half* data; int ld; };
struct Ends { const float* bias; float alpha; };
struct Size { int m, n, k; };
struct P { Size problem_size; Ref A, B; float* out; Ends ends; Size step; };
__global__ void mm(P p) {
  const float product = __half2float(p.A.data[p.A.ld]) * __half2float(p.B.data[p.B.ld]);
  p.out[p.problem_size.m + p.problem_size.n * p.problem_size.k] = product * p.ends.alpha;
  p.out[p.step.m] = p.ends.bias[p.step.n + p.step.k];
}
void run(P p) { mm<<<p.problem_size.m / 16, 32>>>(p); }
"""


def test_a_members_own_name_tells_where_the_struct_around_it_does_not_change_it(tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        card_of(tmp_path, PARTS)
    assert "'A_ld'" in raised.value.message and "'step_m'" in raised.value.detail  # one is asked for
    assert not any(word in raised.value.detail for word in ("problem", "bias", "alpha", "data"))


ASKED = """#include <cuda_fp16.h>
struct P {
  const half *a, *b; float* d; int m, n, k;
  static constexpr int kTile = 32;
  dim3 grid() const { return dim3((n + kTile - 1) / kTile, m / 64); }
  unsigned threads() const { return 4 * kTile; }
};
__global__ void mm(P p) { p.d[p.m + p.n * p.k] = p.a[0] + p.b[0]; }
void run(half* a, half* b, float* d, int m, int n, int k) {
  P p{a, b, d, m, n, k};
  mm<<<p.grid(), p.threads()>>>(p);
}
"""


def test_functions_of_the_struct_that_tell_the_launch(tmp_path):
    card = card_of(tmp_path, ASKED)
    launch = bind(card, card.case("tiles"), card.variants[0]).launch
    assert (launch.grid, launch.block) == ((6, 2, 1), (128, 1, 1))


OPAQUE = """#include <cuda_fp16.h>
struct P { void* one; void* two; void* three; int first, second, third; };
__global__ void k(P p) {
  const half* from = reinterpret_cast<const half*>(p.one) + p.first;
  ((float*)p.three)[threadIdx.x] = from[0] + static_cast<half*>(p.two)[p.second + p.third];
}
void fill(P& out, half* a, half* b, float* c, int M, int N, int K) {
  out = {};
  out.one = a; out.two = b; out.three = c;
  out.first = M; out.second = N; out.third = K;
}
void run(half* a, half* b, float* c, int M, int N, int K) {
  P mine;
  fill(mine, a, b, c, M, N, K);
  k<<<dim3(mine.second / 16, mine.first / 16), 32>>>(mine);
}
"""


def test_names_that_say_nothing_get_their_meaning_from_the_function_that_fills_them(tmp_path):
    card = card_of(tmp_path, OPAQUE)
    assert [one.element.name for one in card.arguments[:3]] == ["f16", "f16", "f32"]
    assert [one.value for one in card.arguments[3:6]] == ["M", "N", "K"]
    assert bind(card, card.case("tiles"), card.variants[0]).launch.grid == (12, 8, 1)


NESTED = """#include <cuda_fp16.h>
struct Step { long long batch, head; int row; };
struct Inputs { const half *q, *k, *v; Step step; };
template <typename T>
struct Params : Inputs { T *o; const int *cu_seqlens; void *rng; int seqlen; float scale; bool odd; };
__global__ void attn(Params<half> p) {
  p.o[p.step.batch + p.step.head + p.step.row * p.seqlen] = __float2half(p.scale) + p.q[0] + p.k[0] + p.v[0];
  if (p.cu_seqlens) p.o[1] = p.o[0];
}
Params<half> make(half* q, half* k, half* v, half* o, int b, int h, int s, int d) {
  Params<half> made = {};
  made.q = q; made.k = k; made.v = v; made.o = o; made.cu_seqlens = nullptr;
  made.step = {(long long)h * s * d, s * d, d};
  made.seqlen = s;
  made.scale = rsqrtf((float)d);
  return made;
}
void run(half* q, half* k, half* v, half* o, int b, int h, int s, int d) {
  const auto ready = make(q, k, v, o, b, h, s, d);
  attn<<<dim3((ready.seqlen + 63) / 64, h, b), 128>>>(ready);
}
"""


def test_bases_nested_structs_templates_and_null_pointers(tmp_path):
    card = card_of(tmp_path, NESTED, "attention")
    values = {one.name.removeprefix("p."): one.value for one in card.arguments if one.value is not None}
    assert (values["step.batch"], values["step.head"], values["step.row"]) == ("H * S * D", "S * D", "D")
    assert (values["cu_seqlens"], values["rng"], values["odd"]) == ("0", "0", "0")
    assert values["seqlen"] == "S"
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.launch.grid == (2, 3, 2)
    load(compile_source(tmp_path / "k.cu").ptx).launch(bound.launch)


def test_the_flat_order_of_a_card_keeps_the_places_that_nested_structs_give(tmp_path):
    text = (
        "#include <cuda_fp16.h>\nstruct In { long long far; char near; };\n"
        "struct P { In in; char next; const half *a, *b; float* d; int m, n, k; };\n"
        "__global__ void mm(P p) { p.d[p.in.far + p.in.near + p.next] = p.a[p.m] + p.b[p.n + p.k]; }\n"
        "void run(half* a, half* b, float* d, int m, int n, int k) { P p; p.in = {0, 1}; p.next = 2; p.a = a; p.b = b;"
        " p.d = d; p.m = m; p.n = n; p.k = k; mm<<<m / 16, 32>>>(p); }\n"
    )
    card = card_of(tmp_path, text)
    bound = bind(card, card.cases[0], card.variants[0])
    sizes = [8 if one.scalar is None else one.scalar.nbytes for one in bound.arguments]
    places = dict(zip((one.spec.name for one in bound.arguments), field_offsets(sizes)[0], strict=True))
    paths = ("in.near", "next", "a", "d", "k")
    asked = [ValueOf(f"__builtin_offsetof(P, {path})") for path in paths]
    answers = ask(AskedSource(text, "k.cu"), asked)
    assert [places[f"p.{path}"] for path in paths] == [answers[one].value for one in asked]


def test_a_member_that_nothing_tells_is_asked_for(tmp_path):
    text = STRUCT.replace("float alpha", "int mode; float alpha") + KERNEL.replace("PARAMETER", "P p")
    text = text.replace("+ p.alpha", "+ p.mode") + "void run(P p) { k<<<p.m / 32, 32>>>(p); }"
    with pytest.raises(ConfigurationError) as raised:
        card_of(tmp_path, text)
    assert raised.value.message.endswith("what is the value of 'mode'?")
    unread = card_of(tmp_path, text.replace("+ p.mode", ""))
    assert next(one.value for one in unread.arguments if one.name == "p.mode") == "0"


def test_a_drafted_card_of_a_struct_loads(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(NESTED)
    text = drafted_text(path, tmp_path / "k.toml", SubjectOptions(computes="attention"))
    card = parse_card(text, tmp_path / "k.toml")
    assert [one.name for one in card.arguments][:3] == ["p.q", "p.k", "p.v"]


ACCESSORS = """
#include <torch/extension.h>
#include <cuda_fp16.h>
template <typename scalar_t>
__global__ void attn(torch::PackedTensorAccessorBITS<scalar_t, 4, torch::RestrictPtrTraits> q,
                     torch::PackedTensorAccessorBITS<scalar_t, 4, torch::RestrictPtrTraits> k,
                     torch::PackedTensorAccessorBITS<scalar_t, 4, torch::RestrictPtrTraits> v,
                     torch::PackedTensorAccessorBITS<scalar_t, 4, torch::RestrictPtrTraits> o, float scale) {
  const int heads = q.size(HEADS);
  if (threadIdx.x < heads) o[0][0][0][0] = q[0][0][0][0] + k[0][0][0][0] + v[0][0][0][0];
}
torch::Tensor forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V) {
  auto out = torch::empty_like(Q);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(Q.scalar_type(), "attn", ([&] {
    attn<scalar_t><<<dim3((Q.size(ROWS) + 63) / 64, Q.size(HEADS), Q.size(0)), 128>>>(
        Q.packed_accessorBITS<scalar_t, 4, torch::RestrictPtrTraits>(),
        K.packed_accessorBITS<scalar_t, 4, torch::RestrictPtrTraits>(),
        V.packed_accessorBITS<scalar_t, 4, torch::RestrictPtrTraits>(),
        out.packed_accessorBITS<scalar_t, 4, torch::RestrictPtrTraits>(), 1.0f / sqrtf(Q.size(3)));
  }));
  return out;
}
"""


@pytest.mark.parametrize(
    ("bits", "heads", "rows", "sizes"),
    [("32", "1", "2", [2, 3, 128, 64]), ("64", "1", "2", [2, 3, 128, 64]), ("32", "2", "1", [2, 128, 3, 64])],
)
def test_accessors_have_the_sizes_of_their_tensors(tmp_path, bits, heads, rows, sizes):
    text = ACCESSORS.replace("BITS", bits).replace("HEADS", heads).replace("ROWS", rows)
    card = card_of(tmp_path, text, "attention")
    assert card.entry == "attn<at::Half>"
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.launch.structs == ((0, 9), (9, 9), (18, 9), (27, 9))
    strides = [sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1]
    for first in (0, 9, 18, 27):
        members = bound.launch.arguments[first + 1 : first + 9]
        assert [int(one) for one in members] == [*sizes, *strides]
        assert all(one.nbytes * 8 == int(bits) for one in members)
    assert bound.launch.grid == (2, 3, 2)
    entry = compile_text(text, "k.cu")
    assert entry.ptx


OLD = """
#include <torch/extension.h>
#include <cuda_fp16.h>
template <typename scalar_t>
__global__ void attn(const torch::ACCESSOR<scalar_t, 3, torch::RestrictPtrTraits, INDEX> q,
                     const torch::ACCESSOR<scalar_t, 3, torch::RestrictPtrTraits, INDEX> k,
                     const torch::ACCESSOR<scalar_t, 3, torch::RestrictPtrTraits, INDEX> v,
                     torch::ACCESSOR<scalar_t, 3, torch::RestrictPtrTraits, INDEX> o) {
  if (threadIdx.x < k.size(1)) o[0][0][0] = q[0][0][0] + k[0][0][0] + v[0][0][0];
}
torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  auto o = torch::zeros_like(q);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(q.type(), "attn", ([&] {
    attn<scalar_t><<<dim3(q.size(1) / 64, q.size(0)), 128>>>(
        q.packed_accessor<scalar_t, 3, torch::RestrictPtrTraits, INDEX>(),
        k.packed_accessor<scalar_t, 3, torch::RestrictPtrTraits, INDEX>(),
        v.packed_accessor<scalar_t, 3, torch::RestrictPtrTraits, INDEX>(),
        o.packed_accessor<scalar_t, 3, torch::RestrictPtrTraits, INDEX>());
  }));
  return o;
}
"""


@pytest.mark.parametrize(
    ("accessor", "index", "wide"),
    [("PackedTensorAccessor", "size_t", True), ("GenericPackedTensorAccessor", "int32_t", False)],
)
def test_accessors_by_their_older_name_and_of_three_axes(tmp_path, accessor, index, wide):
    card = card_of(tmp_path, OLD.replace("ACCESSOR", accessor).replace("INDEX", index), "attention")
    bound = bind(card, card.case("tiles"), card.variants[0])
    members = bound.launch.arguments[1:7]
    assert [int(one) for one in members] == [2 * 3, 128, 64, 128 * 64, 64, 1]
    assert all(one.nbytes == (8 if wide else 4) for one in members)
    assert bound.launch.grid == (2, 6, 1)
    compiled = compile_source(tmp_path / "k.cu", CompileOptions(name_expressions=(card.entry,)))
    load(compiled.ptx, compiled.entry(card.entry).name).launch(bound.launch)


MATRICES = """
#include <torch/extension.h>
__global__ void mm(at::PackedTensorAccessor64<at::Half, 2> x, at::PackedTensorAccessor64<at::Half, 2> w,
                   at::PackedTensorAccessor64<float, 2> y) { y[0][0] = x[0][0] * w[0][0]; }
at::Tensor run(at::Tensor a, at::Tensor b) {
  const int m = a.size(0), k = a.size(1);
  const int n = b.size(AXIS);
  auto c = at::zeros({m, n}, a.options().dtype(at::kFloat));
  auto view = c.packed_accessor64<float, 2>();
  mm<<<dim3(n / 16, m / 16), 32>>>(a.packed_accessor64<at::Half, 2>(), b.packed_accessor64<at::Half, 2>(), view);
  return c;
}
"""


@pytest.mark.parametrize(("axis", "turned", "sizes"), [("1", False, (320, 192)), ("0", True, (192, 320))])
def test_a_weight_that_lies_by_columns_is_seen_in_its_sizes(tmp_path, axis, turned, sizes):
    card = card_of(tmp_path, MATRICES.replace("AXIS", axis))
    bound = bind(card, card.case("tiles"), card.variants[0])
    assert bound.parameters["transpose_b"] is turned
    assert tuple(int(one) for one in bound.launch.arguments[6:8]) == sizes
    assert bound.arguments[5].spec.views[0].role == "b"


@pytest.mark.parametrize(
    ("dispatch", "fragment", "chosen"),
    [
        ('AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, "k", [&] { LAUNCH });', "half", "at::Half"),
        ('AT_DISPATCH_REDUCED_FLOATING_TYPES(t, "k", [&] { LAUNCH });', "__nv_bfloat16", "at::BFloat16"),
        ('AT_DISPATCH_REDUCED_FLOATING_TYPES(t, "k", [&] { LAUNCH });', "half", "at::Half"),
        ('AT_DISPATCH_FLOATING_TYPES(t, "k", [&] { LAUNCH });', "wmma::precision::tf32", "float"),
        (
            'AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, t, "k", [&] { LAUNCH });',
            "nv_bfloat16",
            "at::BFloat16",
        ),
        ("if (t) { using scalar_t = half; LAUNCH } else { using scalar_t = float; LAUNCH }", "half", "half"),
    ],
)
def test_dispatch_takes_the_type_that_tensor_cores_multiply(tmp_path, dispatch, fragment, chosen):
    text = (
        "#include <torch/extension.h>\n#include <mma.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
        "template <typename scalar_t>\n__global__ void k(const scalar_t* a, const scalar_t* b, float* c, int m, int n,"
        f" int k) {{ wmma::fragment<wmma::matrix_a, 16, 16, 16, {fragment}, wmma::row_major> f; }}\n"
        "void run(int t, void* a, void* b, float* c, int m, int n, int k) {\n"
        + dispatch.replace("LAUNCH", "k<scalar_t><<<m / 16, 32>>>((scalar_t*)a, (scalar_t*)b, c, m, n, k);")
        + "\n}\n"
    )
    path = tmp_path / "k.cu"
    path.write_text(text)
    kernel = kernel_of(GivenSource(path, SubjectOptions()))
    assert kernel.launch is not None and kernel.launch.kernel.arguments == (chosen,)


STRIDES = """#include <cuda_fp16.h>
typedef struct params_t {
  const half *q, *k, *v; half *o;
  long long q_batch_stride, q_head_stride; int q_row_stride; int h, seqlen;
} params;
namespace lib {
enum class Mask { none, causal };
template <int D, Mask M> struct Traits { static constexpr int kThreads = D * 2; half tile[D][D]; };
template <typename T>
__global__ void attn(const params p) {
  __shared__ T t;
  t.tile[0][threadIdx.x % 64] = p.q[p.q_row_stride] + p.k[0] + p.v[0];
  p.o[p.seqlen] = t.tile[0][1];
}
void run(half* q, half* k, half* v, half* o, int b, int h, int s, int d) {
  params p = {q, k, v, o, int64_t(s) * h * d, OUTER, INNER, h, s};
  using T = Traits<64, Mask::none>;
  attn<T><<<dim3((p.seqlen + 63) / 64, p.h, b), T::kThreads, size_t(2) * sizeof(T)>>>(p);
}
}
"""


@pytest.mark.parametrize(("outer", "inner", "layout"), [("d", "h * d", "BSHD"), ("s * d", "d", "")])
def test_strides_that_host_code_passes_say_how_tensors_lie(tmp_path, outer, inner, layout):
    card = card_of(tmp_path, STRIDES.replace("OUTER", outer).replace("INNER", inner), "attention")
    assert [view.layout for one in card.arguments for view in one.views] == [layout] * 4


def test_template_arguments_are_named_with_their_namespace(tmp_path):
    card = card_of(tmp_path, STRIDES.replace("OUTER", "d").replace("INNER", "h * d"), "attention")
    compiled = compile_source(tmp_path / "k.cu", CompileOptions(name_expressions=(card.entry,)))
    kernel = load(compiled.ptx, compiled.entry(card.entry).name)
    bound = bind(card, card.cases[0], card.variants[0])
    assert (bound.launch.block, bound.launch.shared_bytes) == ((128, 1, 1), 2 * 64 * 64 * 2)
    kernel.launch(bound.launch)
