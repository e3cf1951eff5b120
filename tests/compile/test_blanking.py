"""Host code blanked in place: verdicts, and the invariants for any text whatever."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.compile import build
from wmmadiag.compile.blanking import without_host_code
from wmmadiag.compile.host_only import judged
from wmmadiag.compile.instantiations import kernel_templates, wanted_instantiations
from wmmadiag.compile.nvrtc import NvrtcResult
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.sources import in_memory, read_tree
from wmmadiag.csource.lexical import spans


def files_of(text: str) -> OwnFiles:
    return OwnFiles(read_tree(text, "kernel.cu", (), bool), {})


def blanked(text: str) -> str:
    own = files_of(text)
    source = own.sources[own.tree.root.key]
    return without_host_code(source, judged(own.sources)[own.tree.root.key]).decode("utf-8", "surrogateescape")


HOST = [
    "int f(int a) { return a; }",
    "static inline void f() {}",
    "template <typename T> T f(T a) { return a; }",
    "__host__ int f() { return 1; }",
    "auto f() -> int { return 1; }",
    "void f() try { g(); } catch (...) { }",
    "Foo::Foo(int a) : a_(a), b_{1}, c_(T<int>{2}) { run(); }",
    "bool operator==(const A &a, const A &b) { return true; }",
    "A &A::operator=(const A &o) { return *this; }",
    "std::ostream &operator<<(std::ostream &o, int b) { return o; }",
    "int f(int);",
    "extern int f(int), g;",
    "int x = 3;",
    "std::vector<int> v{1, 2};",
    "static cublasHandle_t handle;",
    'const std::string name = "x";',
    "auto l = [](int x) { return x; };",
    'PYBIND11_MODULE(a, m) { m.def("f", &f); }',
    "TEST(Suite, Case) { EXPECT_EQ(1, 1); }",
    "BENCHMARK(f);",
    'TORCH_LIBRARY(a, m) { m.def("f"); }',
    "template void launch<64>(float *);",
    "struct S { std::string s; };",
    "using std::vector;",
    "namespace fs = std::filesystem;",
    "int main(int argc, char **argv) { k<<<1, 2>>>(argv[0]); return '{'; }",
    'extern "C" void f(float *p) { }',
    '__attribute__((visibility("default"))) void f() {}',
]
DEVICE = [
    "__global__ void k(float *x) { *x = 1; }",
    "__device__ int f(int a) { return a < 3 ? a : 1; }",
    "__host__ __device__ int f() { return 1; }",
    "template <int N, bool B = (N > 3)> __global__ void __launch_bounds__(N) k() {}",
    'extern "C" __global__ void k() {}',
    "__constant__ float c[3] = {1, 2, 3};",
    "extern __shared__ char raw[];",
    "constexpr int f(int a) { return a; }",
    "constexpr int A = 3, B{4};",
    "const float scale = 0.5f;",
    "enum class E : int { A, B };",
    "typedef float4 vec;",
    "using T = half;",
    'static_assert(sizeof(int) == 4, "int");',
    "struct P { int a; float *b; };",
    "template <> struct T<int> { static constexpr int v = 1; };",
    "template __global__ void k<3>(float *);",
    "struct S;",
    "#define F(x) { host(x) }",
    "__device__ float operator+(A a, B b) { return 1; }",
    "template <typename T> struct V { __device__ T operator()(T a) const { return a; } __device__ operator T(); };",
]


@pytest.mark.parametrize("text", HOST)
def test_host_code_goes(text: str) -> None:
    around = f"__device__ int before;\n{text}\n__device__ int after;\n"
    result = blanked(around)
    assert result.split("\n")[1].strip() == ""
    assert result.split("\n")[0] == "__device__ int before;"
    assert result.split("\n")[2] == "__device__ int after;"


def test_a_name_brought_in_from_where_device_code_looks_stays() -> None:
    text = "using n::row; using n::column; using host::vector;\n__device__ int f() { return n::value(row); }\n"
    assert blanked(text).split("\n")[0].strip() == "using n::row; using n::column;"


def test_a_name_of_a_type_from_where_device_code_looks_stays() -> None:
    """What nothing uses may be what a mistake left out."""
    text = "typedef n::row R; using C = n::column; typedef host::vector V; using S = std::string;\n"
    used = "__device__ int f() { return n::value(std::size_t(1)); }\n"
    assert blanked(text + used).split("\n")[0].strip() == "typedef n::row R; using C = n::column;"
    assert not blanked(text + "__device__ int f() { return 1; }\n").split("\n")[0].strip()


@pytest.mark.parametrize("text", DEVICE)
def test_device_code_stays(text: str) -> None:
    around = f"int before() {{ return 1; }}\n{text}\nint after() {{ return 1; }}\n"
    result = blanked(around).split("\n")
    assert result[1] == text
    assert result[0].strip() == result[2].strip() == ""


def test_members_are_judged_one_by_one() -> None:
    text = "struct P { int a; P(int b) : a{b} {} __device__ int f() { return a; } int g(); ~P() {} P() = default; };"
    result = blanked(text)
    assert " ".join(result.split()) == "struct P { int a; __device__ int f() { return a; } P() = default; };"
    assert len(result) == len(text)


def test_directives_inside_host_code_stay() -> None:
    text = "void f() {\n#if A\n  g(1);\n#else\n  g(2);\n#endif\n#define LATER 3\n}\n"
    assert blanked(text).split() == ["#if", "A", "#else", "#endif", "#define", "LATER", "3"]


def test_macro_that_hides_the_execution_space() -> None:
    text = "#define INNER __device__\n#define FN inline INNER\nFN int f() { return 1; }\nint g() { return 2; }\n"
    assert blanked(text).split("\n")[2] == "FN int f() { return 1; }"
    assert blanked(text).split("\n")[3].strip() == ""


def test_a_macro_that_declares_a_data_member_stays() -> None:
    text = "#define MEMBER(name) int name\nstruct P { int a; MEMBER(b); Q_OBJECT(c); int d; };\nMEMBER(outside);\n"
    assert blanked(text).split("\n")[1:] == ["struct P { int a; MEMBER(b);              int d; };", " " * 16, ""]


def test_conditional_heads_of_one_function() -> None:
    text = "#ifdef A\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n  x();\n}\n__device__ int kept;\n"
    assert [line for line in blanked(text).split("\n") if line.strip()] == [
        "#ifdef A",
        "#else",
        "#endif",
        "__device__ int kept;",
    ]


FRAGMENTS = (
    ["{", "}", "(", ")", "<", ">", "<<<", ">>>", ";", '"', "'", "\\", "\n", "\r\n", "//", "/*", "*/"],
    ["#if 0\n", "#if X\n", "#else\n", "#elif Y\n", "#endif\n", "#define M(a) a {\n", '#include "x.h"\n', 'R"(', ')"'],
    ["template", "template <", "struct", "class X", "namespace", "namespace a {", "operator", "=", ":", "::", "[["],
    ["__global__", "__device__", "void k(", "extern", '"C"', "using", "typedef", "const", "é", "\0", "\udce9", "%:"],
)
PIECES = st.sampled_from([*HOST, *DEVICE, *(piece for group in FRAGMENTS for piece in group)])
TEXTS = st.one_of(
    st.lists(PIECES, max_size=30).map(" ".join), st.lists(PIECES, max_size=30).map("".join), st.text(max_size=200)
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@pytest.mark.slow
def test_any_text_keeps_its_shape(text: str) -> None:
    own = files_of(text)
    before, result = own.tree.root.data, blanked(text).encode("utf-8", "surrogateescape")
    assert len(result) == len(before)
    for one, other in zip(before, result, strict=True):
        assert other in (one, ord(" "))
        assert (one in b"\r\n") <= (other == one)
    for span in spans(before):
        if span.kind == "directive":
            assert result[span.start : span.end] == before[span.start : span.end]
    root, _ = in_memory(own.tree, {own.tree.root.key: result})
    assert root.count(b"\n") == before.count(b"\n")


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_no_reader_of_source_ever_fails(text: str) -> None:
    own = files_of(text)
    parts = judged(own.sources)
    wanted_instantiations(own.sources, parts, kernel_templates(own.kernels()))
    own.kernel_places()


@example(
    [
        "std::vector<int> v{1, 2};",
        "using std::vector;",
        "template <> struct T<int> { static constexpr int v = 1; };",
        "template <typename T> struct V { __device__ T operator()(T a) const { return a; } __device__ operator T(); };",
    ],
    "\n",
)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*HOST, *DEVICE]), max_size=12), st.sampled_from(["\n", "\n\n", " ", "\n// c\n"]))
def test_declarations_do_not_disturb_each_other(items: list[str], between: str) -> None:
    items = [item for item in items if not item.startswith("#")]
    result = blanked(between.join(items))
    position = 0
    for item in items:
        part = result[position : position + len(item)]
        assert part == item if item in DEVICE else not part.strip()
        position += len(item) + len(between)


@pytest.mark.parametrize("depth", [50, 2000])
def test_deep_nesting(depth: int) -> None:
    for text in ("#if X\n" * depth, "struct A { " * depth, "namespace a { " * depth, "{" * depth, "f(" * depth):
        assert len(blanked(text)) == len(text)


def test_what_another_declarations_error_cost_is_brought_back_once_it_is_missed(tmp_path, monkeypatch):
    """Behind what it cannot read the compiler takes a namespace for open, and refuses names that are right."""
    (tmp_path / "numbers.h").write_text(
        "namespace lib {\nstruct half_t { unsigned short bits; };\n"
        "template <class To> struct Converter {\n    using result_type = lib::half_t;\n"
        "    static __device__ result_type convert(float x) { result_type made; made.bits = x; return made; }\n};\n}\n"
    )
    confused = (
        f'{tmp_path}/numbers.h(4): error: namespace "lib::detail::lib" has no member "half_t"\n'
        "      using result_type = lib::half_t;\n                               ^\n\n"
    )
    real, asked = build.run_nvrtc, []

    def first_confused(*arguments, **words):
        asked.append(arguments[0])
        if len(asked) == 1:
            return NvrtcResult(False, confused, status="NVRTC_ERROR_COMPILATION")
        return real(*arguments, **words)

    monkeypatch.setattr(build, "run_nvrtc", first_confused)
    source = (
        '#include "numbers.h"\n__global__ void k(unsigned short* p) { *p = lib::Converter<int>::convert(2).bits; }\n'
    )
    made = wmmadiag.compile_cuda(source, arch="sm_80", include_paths=[str(tmp_path)])
    assert "st.global" in made.ptx
    assert len(asked) == 3


def test_the_users_declarations_are_brought_back_before_those_of_headers(tmp_path, monkeypatch):
    """What is left out of a header may be what confuses the compiler about the user's file."""
    (tmp_path / "numbers.h").write_text(
        "namespace lib {\nclass Holder { Unknown held; };\nstruct half_t { unsigned short bits; };\n}\n"
    )
    source = (
        '#include "numbers.h"\ntemplate <class T> struct Op {\n    using Number = lib::half_t;\n'
        "    __device__ void run(unsigned short* p) { Number made; made.bits = 2; *p = made.bits; }\n};\n"
        "__global__ void k(unsigned short* p) { Op<int>().run(p); }\n"
    )
    missed = '(6): error: namespace "lib" has no member "Holder"\n  Op<int>().run(p);\n  ^\n\n'
    real, texts = build.run_nvrtc, []

    def confused(*arguments, **words):
        text = repr(arguments) + repr(words)
        texts.append(text)
        if "class Holder" in text:
            log = (
                f'{tmp_path}/numbers.h(2): error: identifier "Unknown" is undefined\n  class Holder\n  ^\n\n'
                f'{arguments[1]}(3): error: namespace "lib::detail::lib" has no member "half_t"\n'
                "      using Number = lib::half_t;\n                          ^\n\n"
            )
            return NvrtcResult(False, log, status="NVRTC_ERROR_COMPILATION")
        done = real(*arguments, **words)
        return (
            done if done.ok else NvrtcResult(False, arguments[1] + missed + done.log, status="NVRTC_ERROR_COMPILATION")
        )

    monkeypatch.setattr(build, "run_nvrtc", confused)
    made = wmmadiag.compile_cuda(source, arch="sm_80", include_paths=[str(tmp_path)])
    assert "st.global" in made.ptx
    assert len(texts) == 3
