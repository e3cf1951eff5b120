"""Headers that an include path leads to are left whole; only what the compiler refuses in one is touched, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import read_tree
from wmmadiag.csource.tree import parse
from wmmadiag.errors import CompileError

LIBRARY = """#pragma once
#include <string>
#define LIB_CONSTEXPR constexpr
#define LIB_DEVICE __device__ __forceinline__
#define LIB_UNUSED
namespace lib {
LIB_CONSTEXPR int twice(int a) { return 2 * a; }
int size_of_tag(float);
template <class T> using Tag = decltype(size_of_tag(T{}));
template <int x, bool R = x >= 32> struct Wide { static constexpr int value = R ? x : 32; };
LIB_DEVICE float scaled(float x) { return x * Wide<8>::value; }
}
"""
KERNEL = """#include <lib/lib.h>
__global__ void k(float *x) { x[threadIdx.x] = lib::scaled(lib::twice(3)) + sizeof(lib::Tag<float>); }
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def library(work: Path, text: str) -> CompileOptions:
    header = work.parent / "include" / "lib" / "lib.h"
    header.parent.mkdir(parents=True)
    header.write_text(text)
    return CompileOptions(include_paths=(work.parent / "include",))


def test_a_library_is_left_whole(work: Path) -> None:
    options = library(work, LIBRARY)
    (work / "k.cu").write_text(KERNEL)
    made = compile_source("k.cu", options)
    assert made.notes == ()
    assert [Path(name).name for name in made.includes] == ["lib.h"]


@pytest.mark.parametrize("quoted", [True, False])
def test_the_same_beside_the_source(work: Path, quoted: bool) -> None:
    (work / "lib").mkdir()
    (work / "lib" / "lib.h").write_text(LIBRARY)
    (work / "k.cu").write_text(KERNEL.replace("<lib/lib.h>", '"lib/lib.h"') if quoted else KERNEL)
    assert compile_source("k.cu", CompileOptions(include_paths=(Path(),))).notes == ()


def test_what_the_compiler_refuses_of_a_library_goes_and_is_said(work: Path) -> None:
    host = """inline std::ifstream name() { return "x"; }
__host__ int count(int n) { return n; }
struct Pool { void *get(int bytes) { return std::malloc_somewhere(bytes); } int free; };
"""
    options = library(work, LIBRARY + host)
    (work / "k.cu").write_text(KERNEL)
    (note,) = compile_source("k.cu", options).notes
    assert note.kind == "blanked-code"
    assert "3 declarations, the first `name`" in note.message
    assert note.place is not None and (Path(note.place.file).name, note.place.line) == ("lib.h", 13)


def test_device_code_of_a_library_that_does_not_compile_is_an_error(work: Path) -> None:
    options = library(work, LIBRARY + "LIB_DEVICE float broken(float x) { return nowhere; }\n")
    (work / "k.cu").write_text(KERNEL)
    with pytest.raises(CompileError, match="nowhere") as caught:
        compile_source("k.cu", options)
    assert caught.value.place is not None and caught.value.place.line == 13


def test_members_of_std_that_a_library_never_included(work: Path) -> None:
    options = library(work, LIBRARY + "constexpr int most = std::max(3, 4);\n")
    (work / "k.cu").write_text(KERNEL.replace("lib::twice(3)", "most"))
    assert compile_source("k.cu", options).notes == ()


def test_a_header_above_the_source_is_the_users_own(work: Path) -> None:
    (work.parent / "common.h").write_text("#include <string>\ninline std::string f() { return {}; }\n#define N 3\n")
    (work / "k.cu").write_text('#include "../common.h"\n__global__ void k(int *x) { *x = N; }\n')
    assert compile_source("k.cu").notes == ()
    tree = read_tree((work / "k.cu").read_text(), "k.cu", (), lambda _: False)
    assert (len(tree.headers), len(tree.outside)) == (1, 0)


def test_a_template_kernel_of_a_library_that_host_code_launches(work: Path) -> None:
    options = library(work, "template <int N> __global__ void fill(float *x) { *x = N; }\n")
    text = "#include <lib/lib.h>\nvoid go(float *x) { constexpr int n = 3; fill<n + 1><<<1, 1>>>(x); }\n"
    (work / "k.cu").write_text(text)
    assert [one.demangled for one in compile_source("k.cu", options).entries] == ["fill<4>"]


def test_a_host_type_that_a_using_declaration_names_goes_with_it(work: Path) -> None:
    (work / "image.hpp").write_text(
        "#include <vector>\nnamespace tiny {\nstruct Image { int w; std::vector<unsigned char> held;"
        " Image(int w) : w(w), held(w) {} };\nconstexpr int most = 7;\n}\n"
    )
    source = work / "kernel.cu"
    source.write_text(
        '#include "image.hpp"\nusing tiny::Image;\nclass Twice { Image a, b; };\n'
        "namespace tiny { __global__ void kernel(int* x) { *x = most; } }\n"
        "int main() { Image one(3); tiny::kernel<<<1, 1>>>(nullptr); }\n"
    )
    compiled = compile_source(source)
    assert [one.demangled.partition("(")[0] for one in compiled.entries] == ["tiny::kernel"]


def test_a_type_that_was_dropped_comes_back_where_it_is_needed(work: Path) -> None:
    options = library(work, "namespace vendor { struct Held { float x; }; }\n")
    (work.parent / "include" / "lib" / "uses.h").write_text("__device__ float made() { return Config{2.0f}.x; }\n")
    text = """#include <lib/lib.h>
using Config = vendor::Held;
#include <lib/uses.h>
__global__ void k(float *x) { *x = made(); }
"""
    (work / "k.cu").write_text(text)
    assert compile_source("k.cu", options).notes == ()


def test_includes_named_by_a_macro_are_cached_where_they_cannot_lead_to_the_users_files(work: Path) -> None:
    options = library(work, "#define STD_HEADER(header) <cuda/std/header>\n#include STD_HEADER(cstdint)\n" + LIBRARY)
    (work / "k.cu").write_text(KERNEL)
    assert not compile_source("k.cu", options).cached
    assert compile_source("k.cu", options).cached
    (work / "k.cu").write_text('#define WHICH(name) "name.h"\n#define name value\n#include WHICH(value)\n' + KERNEL)
    (work / "value.h").write_text("")
    assert read_tree((work / "k.cu").read_text(), "k.cu", (), lambda _: False).computed


def test_tuples_in_device_code(work: Path) -> None:
    text = """#include <tuple>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/detail/UnpackRaw.cuh>
__device__ std::tuple<int, float> two(int a) { return std::make_tuple(a, 2.0f * a); }
__global__ void k(float *x, at::PhiloxCudaState state) {
  auto seed = at::cuda::philox::unpack(state);
  int a; float b;
  std::tie(a, b) = two(threadIdx.x);
  auto [c, d] = two(3);
  x[threadIdx.x] = std::get<0>(seed) + a + b + c + d + std::tuple_size<std::tuple<int, int>>::value;
}
"""
    (work / "k.cu").write_text(text)
    assert compile_source("k.cu").notes == ()


ASM = """#define LANE(x) __asm__ __volatile__("mov.u32 %0, %%laneid;" : "=r"(x) : : "memory")
__device__ __forceinline__ unsigned lane() {
  unsigned x;
  __asm__ __volatile__ ("mov.u32 %0, %%laneid;" : "=r"(x));
  return x;
}
__global__ void lanes(unsigned *out) {
  __extension__ __signed__ int unused = 0;
  __const unsigned zero = unused;
  unsigned x = zero;
  LANE(x);
  asm volatile("membar.gl;" ::: "memory");
  out[threadIdx.x] = x + lane();
}
"""


@pytest.mark.parametrize("own", [True, False], ids=["own", "of a library"])
def test_assembly_in_all_spellings(work: Path, own: bool) -> None:
    options = library(work, ASM)
    found = compile_text(ASM if own else "#include <lib/lib.h>\n", "k.cu", options)
    assert found.ptx.count("%laneid") == 2 and "membar.gl" in found.ptx
    assert not parse(ASM).errors() and not found.notes


TYPEOF = """#define MORE(a) ((__typeof__(a))((a) + 1))
template <class T> __device__ T twice(const T& x) { __typeof__(x) y = x; return y + x; }
__global__ void types(float *out, const int n) {
  __typeof__(out[0]) x = n;
  x += MORE(x) + twice(x);
  out[0] = x;
}
"""


def test_typeof_as_gcc_has_it(work: Path) -> None:
    found = compile_text(TYPEOF, "k.cu")
    assert "st.global.f32" in found.ptx and not found.notes and not parse(TYPEOF).errors()


ATOMICS = """
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/detail/KernelUtils.h>
#include <ATen/native/cuda/KernelUtils.cuh>
#include <torch/extension.h>
template <typename T> __global__ void k(T *to, const T *from, int n) {
  at::acc_type<T, true> sum = 0;
  CUDA_KERNEL_LOOP(i, n) sum += static_cast<at::opmath_type<T>>(from[i]);
  gpuAtomicAdd(to, static_cast<T>(sum));
  gpuAtomicMax(to + 1, static_cast<T>(sum));
  at::native::fastAtomicAdd(to, 2, n, static_cast<T>(sum), true);
}
"""


def test_torchs_atomics_loops_and_types_are_those_of_device_code() -> None:
    types = ("float", "double", "c10::Half", "c10::BFloat16", "int64_t", "uint8_t")
    options = CompileOptions(name_expressions=tuple(f"k<{one}>" for one in types))
    assert len(compile_text(ATOMICS, "k.cu", options).entries) == len(types)


def test_what_questions_found_to_be_host_code_of_a_library_is_left_out_at_once(work, monkeypatch):
    from wmmadiag.compile import build as built
    from wmmadiag.compile.ask.asking import ask
    from wmmadiag.compile.ask.questions import AskedSource, TypeOf

    options = library(
        work, LIBRARY.replace("namespace lib {", "struct Timer { void now() { gettimeofday(0); } };\nnamespace lib {")
    )
    (work / "k.cu").write_text(KERNEL)
    calls: list[str] = []
    real = built.run_nvrtc
    monkeypatch.setattr(
        built, "run_nvrtc", lambda text, *rest, **named: calls.append(text) or real(text, *rest, **named)
    )
    ask(AskedSource((work / "k.cu").read_text(), "k.cu", options), [TypeOf("float")])
    assert len(calls) == 2
    made = compile_source("k.cu", options)
    assert len(calls) == 3  # its kernels are compiled once
    assert [note.kind for note in made.notes] == ["blanked-code"]


def test_headers_that_are_not_there_are_found_missing_at_once(work, monkeypatch):
    from wmmadiag.compile import build as built

    (work / "own.h").write_text("#pragma once\n#include <no/one.h>\n#include <no/two.h>\n#include <no/three.h>\n"
                                "#ifdef NEVER\n#include <no/four.h>\n#endif\n")  # fmt: skip
    (work / "k.cu").write_text('#include "own.h"\n__global__ void k(float *x) { x[threadIdx.x] = 1; }\n')
    calls: list[str] = []
    real = built.run_nvrtc
    monkeypatch.setattr(
        built, "run_nvrtc", lambda text, *rest, **named: calls.append(text) or real(text, *rest, **named)
    )
    notes = compile_source("k.cu", CompileOptions()).notes
    assert len(calls) == 2
    told = sorted((str(note.place), note.message.split()[0]) for note in notes)
    assert told == [("own.h:2", "no/one.h"), ("own.h:3", "no/two.h"), ("own.h:4", "no/three.h")]
