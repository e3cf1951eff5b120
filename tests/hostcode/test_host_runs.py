"""Host code run over symbols: every launch, with its instantiation, grid, block, shared bytes and arguments."""

from __future__ import annotations

import pytest
from host_launches import KERNEL, launched, ran, shown, told

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import HostLaunch, Product
from wmmadiag.hostcode.types import is_open
from wmmadiag.hostcode.values import Pointer, Struct


@pytest.mark.parametrize(
    ("host", "grid", "shared"),
    [
        ("using T = half; const unsigned BM{64u};\n"
         "mm<BM, half><<<dim3(n / BM, m), 128, BM * sizeof(T)>>>(a, b, c, m, n, k);",
         ["n // 64", "m", "1"], "128"),
        ("const int t = 64; dim3 grid((n + t - 1) / t, m); mm<64, half><<<grid, 4 * 32>>>(a, b, c, m, n, k);",
         ["ceil_div(n, 64)", "m", "1"], "0"),
        ("dim3 grid(n, m); auto f = mm<64, half>; f<<<grid, 128>>>(a, b, c, m, n, k);", ["n", "m", "1"], "0"),
        ("dim3 grid; grid.y = m; grid.x = n / 2; (mm<64, half>)<<<grid, 128>>>(a, b, c, m, n, k);",
         ["n // 2", "m", "1"], "0"),
        ("size_t smem = std::max(64 * 2, 100); auto go = [&](int blocks) {"
         " mm<64, half><<<blocks, 128, smem>>>(a, b, c, m, n, k); }; go(n * m);", ["n * m", "1", "1"], "128"),
        ("table[0] = [=](int stream) { mm<64, half><<<2 * n, 128>>>(a, b, c, m, n, k); };",
         ["2 * n", "1", "1"], "0"),
    ],
    ids=["braces", "rounded up", "a vexing parse", "members", "lambda", "a lambda that somebody else calls"],
)  # fmt: skip
def test_styles_of_launches(tmp_path, host, grid, shared):
    text = KERNEL + "void run(half* a, half* b, float* c, int m, int n, int k) { " + host + " }\n"
    ((launch, machine),) = launched(tmp_path, text)
    assert shown(launch, machine) == ("mm<64, half>", grid, ["128", "1", "1"], shared)
    assert [told(one) for one in launch.arguments[3:]] == ["m", "n", "k"]


@pytest.mark.parametrize(
    ("given", "shape"),
    [("{2, 3, 4}", "struct Shape { int m, n, k; };"),
     ("Shape(2, 3)", "struct Shape { int m, n, k; Shape(int m, int n) : m(m), n(n) { k = m + 2; } };")],
    ids=["braces", "a constructor"],
)  # fmt: skip
def test_an_object_is_made_where_it_is_passed(tmp_path, given, shape):
    text = (
        KERNEL
        + shape
        + (
            "void run(half* a, float* c, const Shape& s) {"
            " mm<64, half><<<dim3(s.n, s.m, s.k), 128>>>(a, a, c, s.m, s.n, s.k); }\n"
            "int main() { half* a; float* c; run(a, c, " + given + "); }\n"
        )
    )
    ((launch, machine),) = launched(tmp_path, text)
    assert shown(launch, machine)[1] == ["3", "2", "4"]


def test_the_same_name_in_two_functions_is_two_numbers(tmp_path):
    text = KERNEL + (
        "void one(half* a, float* c, int n) { const int BM = 32; mm<BM, half><<<n / BM, 64>>>(a, a, c, n, n, n); }\n"
        "void two(half* a, float* c, int n) { const int BM = 128; mm<BM, half><<<n / BM, 64>>>(a, a, c, n, n, n); }\n"
    )
    found = [shown(*one)[:2] for one in launched(tmp_path, text)]
    assert found == [("mm<32, half>", ["n // 32", "1", "1"]), ("mm<128, half>", ["n // 128", "1", "1"])]


def test_a_template_launcher_gets_what_its_caller_says(tmp_path):
    text = KERNEL + (
        "template <int D, class T> struct Traits { static constexpr int kRows = D / 2; };\n"
        "template <int D, typename T> void launch(const T* a, float* c, int n) {\n"
        "  using Own = Traits<D, T>; mm<Own::kRows, T><<<n / Own::kRows, D>>>(a, a, c, n, n, n); }\n"
        "void run(half* a, float* c, int n) { if (n > 64) launch<128>(a, c, n); else launch<64, half>(a, c, n); }\n"
    )
    found = sorted(shown(*one)[:3] for one in launched(tmp_path, text))
    assert found == [
        ("mm<32, half>", ["n // 32", "1", "1"], ["64", "1", "1"]),
        ("mm<64, half>", ["n // 64", "1", "1"], ["128", "1", "1"]),
    ]


def test_every_case_of_a_switch_and_the_facts_that_lead_there(tmp_path):
    text = KERNEL + (
        "void run(half* a, float* c, int n, int which) { if (n % 64 != 0) throw 1;\n"
        "  switch (which) { case 0: mm<16, half><<<n, 32>>>(a, a, c, n, n, n); break;\n"
        "    case 1: mm<32, half><<<n, 32>>>(a, a, c, n, n, n); break; default: return; } }\n"
    )
    found = launched(tmp_path, text)
    assert [shown(*one)[0] for one in found] == ["mm<16, half>", "mm<32, half>"]
    facts = {terms.text(term): holds for term, holds in found[1][0].facts}
    assert facts == {"n % 64 != 0": False, "which == 1": True}


def test_each_instantiation_of_one_launch_is_seen(tmp_path):
    text = """template <typename T> void start(T t, half* a, half* b, float* c, int n) {
  constexpr int BM = T::value;
  mm<BM <= 32 ? 16 : 64, half><<<n, BM>>>(a, b, c, n, n, n);
}
struct Small { static constexpr int value = 32; }; struct Large { static constexpr int value = 128; };
void run(half* a, half* b, float* c, int n, bool small) {
  if (small) start(Small{}, a, b, c, n); else start(Large{}, a, b, c, n);
}"""
    blocks = {shown(*one)[2][0] for one in launched(tmp_path, KERNEL + text)}
    assert blocks == {"32", "128"}


def test_a_condition_among_template_arguments_is_none_that_is_unknown():
    assert is_open(("Traits<64, ?>", "half")) and is_open(("?",))
    assert not is_open(("Traits<64, 64 <= 64 ? 64 : 32>", "half"))


def test_main_gives_sizes_and_memory(tmp_path):
    text = KERNEL + (
        "int main(int argc, char** argv) {\n"
        "  int M = 512, N = 256; const int K = argc > 1 ? atoi(argv[1]) : 1024;\n"
        '  if (argc == 3) { printf("usage"); return 1; }\n'
        "  half *dA, *dB; float* dC; size_t bytes = M * K * sizeof(half);\n"
        "  cudaMalloc(&dA, bytes); cudaMalloc((void**)&dB, K * N * sizeof(half)); cudaMalloc(&dC, M * N * 4);\n"
        "  cudaMemset(dC, 0, M * N * 4);\n"
        "  for (int i = 0; i < 10; i++) mm<64, half><<<dim3(N / 64, M / 64), 128>>>(dA, dB, dC, M, N, K);\n"
        "}\n"
    )
    launch, machine = launched(tmp_path, text)[0]
    assert {name: machine.usual[name] for name in "MNK"} == {"M": 512, "N": 256, "K": 1024}
    sizes = [terms.text(one.buffer.size) for one in launch.arguments[:3]]
    assert sizes == ["2 * M * K", "2 * K * N", "4 * M * N"]
    assert launch.contents[id(launch.arguments[2].buffer)][0] == "zero"


@pytest.mark.parametrize(
    ("declared", "of"),
    [("float h[48]", "h"), ("float h[48] = {}", "h"), ("float h[48] = {1.f, 2.f}", "h"), ("float h[6][8]", "h"),
     ("float h[12] = {0}", "h[0]) * sizeof(h"), ("float h[48]", "*h) * (48")],
)  # fmt: skip
def test_an_array_has_the_size_of_all_its_elements(tmp_path, declared, of):
    text = KERNEL + (
        "int main() {\n"
        f"  {declared}; float* p = h; float* d; half* e; cudaMalloc(&d, sizeof({of})); cudaMalloc(&e, sizeof(p));\n"
        "  mm<64, half><<<1, 128>>>(e, e, d, 1, 1, 1);\n"
        "}\n"
    )
    ((launch, _),) = launched(tmp_path, text)
    assert [terms.text(launch.arguments[at].buffer.size) for at in (0, 2)] == ["8", "192"]


def test_structs_that_a_function_fills(tmp_path):
    text = (
        "struct Params { const half* q; int n, stride; float scale = 1.f; };\n"
        "__global__ void k(Params p) {}\n"
        "void fill(Params& p, const half* q, int n) { p.q = q; p.n = n; p.stride = 2 * n; }\n"
        "void run(half* q, int n) { Params p = {}; fill(p, q, n); k<<<p.n / 32, 32>>>(p); }\n"
    )
    ((launch, _),) = launched(tmp_path, text)
    members = launch.arguments[0].members
    assert [told(members[name].value) for name in ("n", "stride", "scale")] == ["n", "2 * n", "1"]
    assert isinstance(members["q"].value, Pointer) and told(launch.grid)[0] == "n // 32"


def test_tensors_have_the_sizes_that_the_launcher_reads(tmp_path):
    text = (
        "__global__ void k(const half* x, half* y, int m, int s) {}\n"
        "torch::Tensor run(torch::Tensor x, torch::Tensor w) {\n"
        '  TORCH_CHECK(x.size(1) == w.size(1), "depth");\n'
        "  const int M = x.size(0); auto y = torch::zeros({x.size(0), w.size(0)}, x.options());\n"
        "  k<<<(M + 15) / 16, 32>>>((half*)x.data_ptr(), y.data_ptr<at::Half>(), M, x.stride(0)); return y; }\n"
    )
    ((launch, machine),) = launched(tmp_path, text)
    assert machine.names["x_size_0"] == ["x.size(0)", "M"]
    assert [told(one) for one in launch.arguments[2:]] == ["x_size_0", "x_stride_0"]
    assert launch.contents[id(launch.arguments[1].buffer)][0] == "zero"
    assert ("x_size_1 == w_size_1", True) in [(terms.text(term), holds) for term, holds in launch.facts]


def test_a_dispatch_macro_chooses_the_type_and_runs_the_lambda(tmp_path):
    text = (
        "template <typename T> __global__ void k(const T* x, int n) {}\n"
        "void run(torch::Tensor x, bool even) {\n"
        '  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "k", [&] {\n'
        "    k<scalar_t><<<x.numel() / 32, 32>>>(x.data_ptr<scalar_t>(), x.numel()); }); }\n"
    )
    ((launch, _),) = launched(tmp_path, text)
    assert launch.kernel.arguments == ("at::Half",)


def test_products_of_a_library_on_the_same_arrays(tmp_path):
    text = KERNEL + (
        "int main() { int n = 256; half *a, *b; float *c, *r; float one = 1.f, zero = 0.f; cublasHandle_t h;\n"
        "  cudaMalloc(&a, n * n * 2); cudaMalloc(&b, n * n * 2); cudaMalloc(&c, n * n * 4);\n"
        "  cudaMalloc(&r, n * n * 4); mm<64, half><<<n / 64, 128>>>(a, b, c, n, n, n);\n"
        "  cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, b, CUDA_R_16F, n, a, CUDA_R_16F, n, &zero, r,\n"
        "               CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT); }\n"
    )
    events = ran(tmp_path, text)[0].events
    launch, product = events
    assert isinstance(launch, HostLaunch) and isinstance(product, Product)
    assert product.transposed == (True, False)
    assert product.a.buffer is launch.arguments[1].buffer and product.b.buffer is launch.arguments[0].buffer


def test_what_only_the_compiler_knows_is_asked_once(tmp_path):
    asked = []

    def answer(questions):
        asked.extend(text for text, _ in questions)
        return [4096] * len(questions)

    text = KERNEL + (
        "struct Smem { half a[64][32]; };\n"
        "void run(half* a, float* c, int n) { constexpr size_t bytes = sizeof(Smem) * 2;\n"
        "  mm<64, half><<<n, 128, bytes>>>(a, a, c, n, n, n);\n"
        "  mm<32, half><<<n, 128, sizeof(Smem)>>>(a, a, c, n, n, n); }\n"
    )
    (first, machine), (second, _) = launched(tmp_path, text, answer=answer)
    assert not asked, "nothing depends on it yet"
    machine.settle()
    assert asked == ["sizeof(Smem)"]
    assert (machine.known(first.shared), machine.known(second.shared)) == (8192, 4096)


@pytest.mark.parametrize(
    ("outside", "host", "kernel", "grid"),
    [
        # A method of a class template sees its constants; a struct without a name is a member like others.
        ("template <int D> struct Tr { static constexpr int kRows = D / 2;"
         " static int blocks(int n) { return n / kRows; } };\n"
         "struct P { struct { int rows, heads; } shape; };\n",
         "P p{{m, n}}; mm<64, half><<<Tr<128>::blocks(p.shape.rows), p.shape.heads>>>(a, b, c, m, n, k);",
         "mm<64, half>", "m // 64"),
        # Enumerators may be letters, and numbers negative.
        ("enum class Op : char { N = 'N', T = 'T' };\ntemplate <Op A, int I> __global__ void ops(int m) {}\n",
         "ops<Op::T, -1><<<m, 32>>>(m);", "ops<static_cast<Op>(84), -1>", "m"),
        # A table of instantiations: its first stands for all.
        ("using fn = void (*)(const half*, const half*, float*, int, int, int);\n"
         "struct One { const char* name; fn run; int rows; };\n"
         'static const One kAll[] = {{"a", mm<64, half>, 64}, {"b", mm<128, half>, 128}};\n',
         "const One& one = kAll[m]; void* args[] = {&a, &b, &c, &m, &n, &k};"
         " cudaLaunchKernel((const void*)one.run, dim3(n / one.rows), dim3(32), args, 0, 0);",
         "mm<64, half>", "n // 64"),
        # The last extent of a tensor of unknown rank; a number that nobody knows is a number still.
        ("", "torch::Tensor x = made(); int cols = x.size(-1), rows = asked();"
         " mm<64, half><<<rows / cols, 32>>>(a, b, c, rows, cols, k);", "mm<64, half>", "rows // cols"),
    ],
    ids=["statics", "enumerators", "table", "unknown numbers"],
)  # fmt: skip
def test_what_host_code_is_written_with(tmp_path, outside, host, kernel, grid):
    text = KERNEL + outside + "void run(half* a, half* b, float* c, int m, int n, int k) { " + host + " }\n"
    ((launch, machine),) = launched(tmp_path, text)
    name, (first, *_), _, _ = shown(launch, machine)
    assert (name, first) == (kernel, grid)


def test_a_template_that_nobody_calls_gets_the_arguments_of_its_instantiation(tmp_path):
    text = KERNEL + (
        "template <typename T> void launch(const T* a, float* c, int n) { mm<64, T><<<n, 32>>>(a, a, c, n, n, n); }\n"
        "template void launch<__half>(const __half*, float*, int);\n"
    )
    ((launch, machine),) = launched(tmp_path, text)
    assert shown(launch, machine)[0] == "mm<64, __half>"


def test_the_parameters_of_a_helper_name_nothing(tmp_path):
    text = KERNEL + (
        "int cdiv(int a, int b) { return (a + b - 1) / b; }\n"
        "void run(half* x, float* c, int in) { auto up = [](int a, int b) { return cdiv(a, b); }; const int CTA = 64;\n"
        "  mm<64, half><<<up(in, CTA), 32>>>(x, x, c, in, in, in); }\n"
    )
    ((_, machine),) = launched(tmp_path, text)
    assert machine.names["in_"] == ["in"]  # `in` is no name in a card's expressions
    assert machine.names["CTA"] == ["CTA"]


def test_a_kernel_that_a_function_gets_as_a_pointer(tmp_path):
    text = (
        KERNEL
        + """
void timed(void (*run)(const half*, const half*, float*, int, int, int), int blocks, half* a, float* c) {
    run<<<blocks, 64>>>(a, a, c, 16, 32, 64);
}
void all(half* a, float* c) { timed(mm<64, half>, 7, a, c); }
"""
    )
    launch, machine = launched(tmp_path, text)[0]
    assert shown(launch, machine)[:3] == ("mm<64, half>", ["7", "1", "1"], ["64", "1", "1"])
    assert terms.text(launch.arguments[4]) == "32"


def test_a_function_of_a_kernels_name_is_called_where_nothing_is_launched(tmp_path):
    text = """
__global__ void twice(float* out, int n) {}
void twice(float* out, int n, int block) { twice<<<(n + block - 1) / block, block>>>(out, n); }
void all(int number, float* out, int n) {
  switch (number) { case 1: twice(out, n, 64); break; }
}
int main() { float* out; cudaMalloc(&out, 4096); all(1, out, 1024); }
"""
    ((launch, machine),) = launched(tmp_path, text)
    assert shown(launch, machine) == ("twice<>", ["16", "1", "1"], ["64", "1", "1"], "0")
    assert launch.root == "main"


def test_what_is_optional_is_there(tmp_path):
    text = (
        KERNEL
        + """
    const float* of(const at::Tensor& one) { return one.data_ptr<float>(); }
    void run(const float* A, std::optional<at::Tensor> b, std::optional<int> n, float* C) {
      mm<64, float><<<1, 32>>>(A, b.has_value() ? of(*b) : nullptr, C, *n, 1, 1);
    }"""
    )
    ((launch, _),) = launched(tmp_path, text)
    _, b, _, m, *_ = launch.arguments
    assert isinstance(b, Pointer) and b.buffer.name == "b"
    assert told(m) == "n"


@pytest.mark.parametrize(
    "host",
    [
        "if (b) { mm<64, float><<<1, 32>>>(a, b, c, 1, 1, 1); } else { mm<32, float><<<1, 32>>>(a, b, c, 1, 1, 1); }",
        "if (b == NULL) mm<32, float><<<1, 32>>>(a, b, c, 1, 1, 1); else mm<64, float><<<1, 32>>>(a, b, c, 1, 1, 1);",
        "if (!b) { mm<32, float><<<1, 32>>>(a, b, c, 1, 1, 1); } else { mm<64, float><<<1, 32>>>(a, b, c, 1, 1, 1); }",
    ],
)
def test_what_is_launched_where_a_pointer_is_null_gets_none(tmp_path, host):
    found = launched(tmp_path, KERNEL + f"void run(const float* a, const float* b, float* c) {{ {host} }}")
    given = {launch.kernel.arguments[0]: launch.arguments[1] for launch, _ in found}
    assert isinstance(given["64"], Pointer) and told(given["32"]) == "0"


EPILOGUES = """
template <int M_, int N_> struct Shape { static constexpr int kM = M_; };
template <typename B, typename W> struct Config {
  using Block = B;
  static constexpr int kThreads = 32 * B::kM / W::kM;
};
struct Store { int* d; };
template <typename Act> struct Scale { int* d; const float* factors; };
namespace detail {
template <typename Cfg, typename E> __global__ void mm(const int* A, int M, E e) {}
template <typename Cfg, typename E> void launch(const int* a, int m, const E& ep, cudaStream_t s) {
  mm<Cfg, E><<<(m + Cfg::Block::kM - 1) / Cfg::Block::kM, Cfg::kThreads, 0, s>>>(a, m, ep);
}
}
template <typename E> void gemm(const int* a, int m, const E& ep, cudaStream_t s = nullptr) {
  detail::launch<Config<Shape<64, 16>, Shape<32, 8>>>(a, m, ep, s);
}
"""


@pytest.mark.parametrize(
    ("asked", "types"),
    [
        ("template void gemm(const int*, int, const Store&, cudaStream_t);\n"
         "template void gemm(const int*, int, const Scale<half>&, cudaStream_t);", ["Store", "Scale<half>"]),
        ("template void gemm<Store>(const int*, int, const Store&, cudaStream_t);\n"
         "template void gemm<Scale<half>>(const int*, int, const Scale<half>&, cudaStream_t);",
         ["Store", "Scale<half>"]),
        ("void f(int* a, int* d, int m) { Store s; s.d = d; gemm(a, m, s); }", ["Store"]),
    ],
    ids=["by types", "by name", "called"],
)  # fmt: skip
def test_every_instantiation_that_is_asked_for_is_run_with_its_objects(tmp_path, asked, types):
    found = [one for one, _ in launched(tmp_path, EPILOGUES + asked)]
    named = {one.kernel.arguments: one for one in found if "E" not in one.kernel.arguments}
    assert [one[1] for one in named] == types
    for one in named.values():
        assert one.kernel.arguments[0] == "Config<Shape<64, 16>, Shape<32, 8>>"
        assert told(one.block.members["x"].value) == "64"
        assert isinstance(one.arguments[2], Struct) and isinstance(one.arguments[2].members["d"].value, Pointer)


@pytest.mark.parametrize(
    "host",
    [
        "auto go = [&](auto tag) { using T = decltype(tag); scale<T><<<n, 32>>>((T*)x, n); }; go(half{});",
        "auto go = [&](auto&& tag) { scale<decltype(tag)><<<n, 32>>>((half*)x, n); }; go(half{});",
        "typed(x, n, half{});",
    ],
    ids=["an alias", "a reference", "a template"],
)
def test_the_type_of_an_object_that_stands_for_it(tmp_path, host):
    text = (
        "template <class T> __global__ void scale(T* x, int n) { x[blockIdx.x * 32 + threadIdx.x] *= n; }\n"
        + "template <class T> void typed(void* x, int n, T) { scale<T><<<n, 32>>>((T*)x, n); }\n" * ("typed" in host)
    )
    ((launch, _),) = launched(tmp_path, text + "void run(void* x, int n) { " + host + " }\n")
    assert launch.kernel.arguments == ("half",)
