"""The way from a path to a `Compilation`: architectures, entries, errors, options, PTX files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.model import Compilation
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.ptx_scan import instructions
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.errors import CompileError, ConfigurationError, WmmadiagError

PLAIN = "__global__ void kernel(float *x) {\n  x[threadIdx.x] = 1.0f;\n}\n"
WMMA = """#include <mma.h>
using namespace nvcuda;
__global__ void tile(const half *a, const half *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
"""
SEVERAL = """namespace a { __global__ void scale(float *x) { *x = 1; } }
namespace b { __global__ void scale(float *x) { *x = 2; } }
template <int N, typename T> __global__ void fill(T *x) { *x = N; }
template <int N> __global__ void other(float *x) { *x = N; }
extern "C" __global__ void plain(float *x) { *x = 3; }
"""


@pytest.mark.parametrize("number", toolchain().arches)
def test_every_architecture_compiles_wmma(number: int) -> None:
    compilation = compile_text(WMMA, "tile.cu", CompileOptions(arch=f"sm_{number}"))
    assert f".target sm_{number}" in compilation.ptx
    lines = {
        item.opcode.split(".")[1]: list(item.place.frames())[-1].line
        for item in instructions(compilation.ptx)
        if item.opcode.startswith("wmma.") and item.place is not None
    }
    assert lines == {"load": 9, "mma": 10, "store": 11}
    assert compilation.notes == ()


@pytest.mark.parametrize("arch", ["sm_90a", "compute_80", "89", " sm_75 "])
def test_architecture_spellings(arch: str) -> None:
    assert compile_text(PLAIN, "x.cu", CompileOptions(arch=arch)).entry().name == "_Z6kernelPf"


@pytest.mark.parametrize("arch", ["sm_70", "sm_91"])
def test_unknown_architecture_lists_what_there_is(arch: str) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot compile for {arch}") as caught:
        compile_text(PLAIN, "x.cu", CompileOptions(arch=arch))
    assert "sm_90" in caught.value.detail


@pytest.mark.parametrize(
    "options",
    [
        {"arch": "hopper"},
        {"arch": ""},
        {"std": "c++99"},
        {"macros": {"A B": "1"}},
        {"extra": "-G"},
        {"name_expressions": "k<1>"},
        {"include_paths": "inc"},
    ],
    ids=str,
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        CompileOptions(**options)  # type: ignore[arg-type]


def test_option_that_nvrtc_does_not_know() -> None:
    with pytest.raises(ConfigurationError, match="option"):
        compile_text(PLAIN, "x.cu", CompileOptions(extra=("--no-such-option",)))


def test_options_reach_the_compiler() -> None:
    text = """#if __cplusplus < 202002L || !defined(FLAG) || VALUE != 3
#error not passed on
#endif
__global__ void k(float *x, float y) { *x = __fdividef(1.0f, y) + expf(y); }
"""
    options = CompileOptions(std="c++20", macros={"FLAG": None, "VALUE": "3"}, extra=("--use_fast_math",))
    assert "ex2.approx.ftz" in compile_text(text, "x.cu", options).ptx
    assert ".debug_info" in compile_text(PLAIN, "x.cu", CompileOptions(debug=True)).ptx


def test_one_letter_macros_do_not_reach_the_stub_headers() -> None:
    headers = ("algorithm", "array", "cmath", "cstdint", "functional", "limits", "type_traits", "utility")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    # These are parameters in CUDA's own headers.
    used = set("abcdefghijklmnopqrstuvwxyz") | {"T"}
    text = "".join(f"#include <{name}>\n" for name in headers) + "__global__ void kernel(float *p0) { *p0 = 1; }\n"
    macros = {letter: "64" for letter in letters if letter not in used}
    assert compile_text(text, "k.cu", CompileOptions(macros=macros)).entries


def entries_of_several() -> Compilation:
    options = CompileOptions(name_expressions=("fill<4, float>", "fill<8,float>"))
    return compile_text(SEVERAL, "several.cu", options)


@pytest.mark.parametrize(
    ("name", "demangled"),
    [
        ("plain", "plain"),
        ("a::scale", "a::scale"),
        ("_ZN1b5scaleEPf", "b::scale"),
        ("fill<4,float>", "fill<4, float>"),
        ("fill< 8 , float >", "fill<8, float>"),
        ("::b::scale", "b::scale"),
    ],
)
def test_entry_by_name(name: str, demangled: str) -> None:
    assert entries_of_several().entry(name).demangled == demangled


def test_entry_keeps_expression_and_place() -> None:
    entry = entries_of_several().entry("fill<8,float>")
    assert entry.name_expression == "fill<8,float>"
    assert entry.place is not None
    assert (entry.place.file, entry.place.line, entry.place.column) == ("several.cu", 3, 46)


@pytest.mark.parametrize("name", ["scale", "fill"])
def test_ambiguous_entry(name: str) -> None:
    with pytest.raises(ConfigurationError, match="ambiguous") as caught:
        entries_of_several().entry(name)
    assert caught.value.detail.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "hint"), [("plian", "'plain'"), ("other", "other is a template"), ("zzz", "name one of")]
)
def test_unknown_entry(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match="no kernel") as caught:
        entries_of_several().entry(name)
    assert hint in caught.value.hint
    assert "a::scale" in caught.value.detail


def test_entry_without_a_name() -> None:
    assert compile_text(PLAIN, "x.cu").entry().base_name == "kernel"
    with pytest.raises(ConfigurationError, match="several kernels"):
        entries_of_several().entry()
    with pytest.raises(ConfigurationError, match="no kernel"):
        compile_text("int main() { return 0; }\n", "x.cu").entry()


def test_ready_ptx_is_taken_as_it_is(tmp_path: Path) -> None:
    made = compile_text(PLAIN, "x.cu", CompileOptions(arch="sm_80"))
    path = tmp_path / "ready.ptx"
    path.write_text(made.ptx)
    compilation = compile_source(path)
    assert compilation.ptx == made.ptx
    assert compilation.options.arch == "sm_80"
    assert compilation.entry("kernel").name == "_Z6kernelPf"


@pytest.mark.parametrize("content", [b"\0\1\2", b"\x7fELF\0"])
def test_file_that_is_no_text(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="not a text file"):
        compile_source(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        compile_source(tmp_path / "k.cu")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        compile_source(tmp_path)


def test_unused_library_variables_are_left_out() -> None:
    text = "#include <cuda/std/cstddef>\n__device__ int kept = 3;\n__constant__ int also[2] = {1, 2};\n" + PLAIN
    ptx = compile_text(text, "x.cu").ptx
    assert "kept" in ptx
    assert "also" in ptx
    assert "_ZN4cuda3std" not in ptx


def test_importing_loads_nothing_of_cuda() -> None:
    program = "import sys, wmmadiag.compile; sys.exit(any(name.split('.')[0] == 'cuda' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_wheels_are_found_as_pathfinder_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.compile import toolchain as module

    own = module.toolchain()
    monkeypatch.setattr(module, "in_wheels", lambda _: None)
    monkeypatch.setattr(module, "nvrtc_library", module.nvrtc_library.__wrapped__)
    assert module.toolchain.__wrapped__() == own


def test_of_two_wheels_none_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.compile.toolchain import in_wheels

    for release in ("cu12", "cu13"):
        (tmp_path / "nvidia" / release / "lib").mkdir(parents=True)
        (tmp_path / "nvidia" / release / "lib" / "libnvrtc.so.13").touch()
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        chosen = in_wheels("lib/libnvrtc.so.*[0-9]")
        assert (chosen is not None) == (release == "cu12")


@pytest.mark.parametrize(
    ("loaded", "told"), [((13, 5), "13.5"), ((12, 8), "12.8")], ids=["of the package's release", "of another"]
)
def test_the_version_is_that_of_the_library_that_is_loaded(loaded, told, tmp_path, monkeypatch) -> None:
    from wmmadiag.compile import toolchain as module

    assert module.nvrtc_version().startswith("{}.{}".format(*module.nvrtc_library().version()))
    elsewhere = SimpleNamespace(path=str(tmp_path / "libnvrtc.so.13"), version=lambda: loaded)
    monkeypatch.setattr(module, "nvrtc_library", lambda: elsewhere)
    assert module.nvrtc_version() == told


def test_missing_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from wmmadiag.compile import toolchain as module

    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setattr(module, "nvrtc_library", module.nvrtc_library.__wrapped__)
    monkeypatch.setattr(module, "in_wheels", lambda _: None)
    with pytest.raises(ConfigurationError, match="cuda-pathfinder") as caught:
        module.nvrtc_library()
    assert "pip install" in caught.value.hint


def test_host_libraries_are_not_read_even_where_they_are_installed(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "extension.h").write_text("#error read\n")
    (tmp_path / "ATen").mkdir()
    (tmp_path / "ATen" / "ATen.h").write_text("#error read\n")
    text = '#include <torch/extension.h>\n#include <ATen/ATen.h>\n#include "vector"\n' + PLAIN
    compilation = compile_text(text, "k.cu", CompileOptions(include_paths=(tmp_path,)))
    assert compilation.includes == ()
    assert compilation.notes == ()


def test_users_header_wins_over_a_host_library_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "queue").write_text("#define VALUE 3.0f\n")
    (tmp_path / "k.cu").write_text('#include "queue"\n__global__ void k(float *x) { *x = VALUE; }\n')
    assert compile_source(tmp_path / "k.cu").entries


def test_include_path_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a folder"):
        compile_text(PLAIN, "k.cu", CompileOptions(include_paths=(tmp_path / "absent",)))


def test_macro_values_may_be_numbers() -> None:
    options = CompileOptions(macros={"N": 3, "ON": True, "OFF": False})  # type: ignore[dict-item]
    assert options.macros == {"N": "3", "ON": "1", "OFF": "0"}


FRAGMENTS = (
    ["__global__ void k(float *x) { *x = 1; }", "template <int N> __global__ void t() {}", "struct S { int a; };"],
    ["{", "}", "*/", "/*", '"', "'", "asm(", "é", "\udce9", "\0", "\\", 'R"(', "namespace n {"],
    ["t<3><<<1, 2>>>();", "void h() { t<4><<<1, 1>>>(); }", "using std::x;", "int f() { return 1; }"],
    ["constexpr int c = ;", "__device__ std::vector<int> v;", "#error stop", "#define M(", "#pragma once"],
    ['#include "no.h"', "#include <no/such>", "#if 1", "#endif"],
)
TEXTS = st.lists(st.sampled_from([piece for group in FRAGMENTS for piece in group]), max_size=8).map("\n".join)


@settings(max_examples=25, deadline=None)
@given(TEXTS)
def test_any_text_compiles_or_is_refused_with_a_message(text: str) -> None:
    try:
        compilation = compile_text(text, "dir/any name.cu", use_cache=False)
    except WmmadiagError as error:
        assert str(error)
    else:
        assert ".version" in compilation.ptx


NAMESPACED = """
namespace outer { namespace inner {
template <int N> __global__ void fill(float* x) { x[threadIdx.x] = N; }
}}
"""


@pytest.mark.parametrize("named", ["fill<7>", "inner::fill< 7 >", "outer::inner::fill<7>", "::outer::inner::fill<7>"])
def test_a_template_in_a_namespace_may_be_named_without_it(named):
    compiled = compile_text(NAMESPACED, "fill.cu", CompileOptions(name_expressions=(named,)), use_cache=False)
    assert compiled.entry(named).demangled == "outer::inner::fill<7>"


def test_a_name_that_two_namespaces_have_is_not_guessed():
    twice = NAMESPACED + NAMESPACED.replace("outer", "other")
    with pytest.raises(CompileError, match="undefined"):
        compile_text(twice, "fill.cu", CompileOptions(name_expressions=("fill<7>",)), use_cache=False)


LAMBDAS = """
struct Table { int n[4]; };
__global__ void fill(int* x) {
  int a[2] = {1, 2};
  auto set = [=] __device__ (int i) { x[i] = a[i]; };
  auto both = [&]__host__ __device__(int i) mutable { x[i + 2] = a[i]; };
  auto none = [] __device__ { return 5; };
  set(threadIdx.x);
  both(threadIdx.x);
  x[7] = none();
}
[[maybe_unused]] __device__ int helper(int i) { return i; }
"""


def test_lambdas_with_an_execution_space():
    compiled = compile_text(LAMBDAS, "lambdas.cu", CompileOptions(), use_cache=False)
    assert [entry.demangled for entry in compiled.entries] == ["fill"]
    assert compiled.entries[0].place is not None and compiled.entries[0].place.line == 3


def test_limits_that_host_headers_would_bring() -> None:
    """nvcc reads host headers first, so sources use FLT_MAX and the like without including anything."""
    made = compile_text("__global__ void k(float* x) { x[0] = FLT_MAX; x[1] = INT_MAX; x[2] = M_PI; }\n", "k.cu")
    assert f"{0x7F7FFFFF}" in made.ptx  # FLT_MAX as bits, 2139095039


def test_a_function_of_both_halves_that_no_kernel_meets_may_need_the_host() -> None:
    text = """#include <thrust/device_vector.h>
struct draw { __host__ __device__ float operator()(int n) const { thrust::device_vector<float> v(n); return v[0]; } };
__global__ void k(float* p) { p[threadIdx.x] = 1; }
"""
    assert [one.name for one in compile_text(text, "a.cu").entries] == ["_Z1kPf"]
    met = text.replace("= 1", "= draw()(1)")
    with pytest.raises(CompileError, match="thrust"):
        compile_text(met, "a.cu")


def test_concepts_and_numbers_of_the_standard_library() -> None:
    text = """#include <concepts>
#include <numbers>
template <class T> concept Number = std::integral<T> || std::floating_point<T>;
template <Number T> __global__ void k(T* p) { p[threadIdx.x] = T(std::numbers::pi); }
static_assert(std::same_as<int, int> && !std::same_as<int, const int> && std::convertible_to<int, float>);
static_assert(std::unsigned_integral<unsigned> && std::signed_integral<long> && std::invocable<int (*)(int), int>);
static_assert(std::totally_ordered<float> && std::copy_constructible<int> && std::numbers::e_v<float> > 2.7f);
"""
    options = CompileOptions(std="c++20", name_expressions=("k<float>", "k<int>"))
    assert len(compile_text(text, "a.cu", options).entries) == 2
