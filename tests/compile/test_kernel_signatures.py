"""Signatures of compiled kernels: names from the source, types from the compiler, whatever makes the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.ask.signatures import signature
from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import ConfigurationError

TEXT = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define FT float
#define KERNEL(name) __global__ void name
#define WHOLE(name, T) __global__ void name(T* a, int b) { *a = b; }
using T = half;
typedef __nv_bfloat16 bf;
typedef unsigned char byte_t;
struct Params { int n; float x; };
namespace ns {
template <typename U, int D = 64, bool C = (D > 32), typename O = float>
__global__ void __launch_bounds__(D * 2, 1) attn(
    const U *__restrict__ q, /* keys */ const T *k, bf o[], O *out,  // output
    float scale, unsigned int n, const unsigned long long z, int, FT const *w, half2 *h2, Params p,
    const int *const *pp, size_t s, const __grid_constant__ Params b, byte_t *u, uint32_t v, const float4 *f4, bool t,
    volatile int *flag, const volatile int *seen) {
}
namespace { struct Hidden { double d; }; }
static __global__ void inner(Hidden h, void* p) {}
}
extern "C" __global__ void plain(void) {}
KERNEL(made)(float *a, int b) { *a = b; }
WHOLE(whole, double)
template <class... A> __global__ void packed(int n, A... rest) {}
"""


@pytest.fixture(scope="module")
def compilation():
    return compile_text(TEXT, "k.cu", CompileOptions(name_expressions=("ns::attn<half>", "packed<float*, char>")))


def test_parameters_of_an_instantiation(compilation) -> None:
    found = signature(compilation, "ns::attn")
    assert [(p.name, p.pointer, p.const, p.dtype, p.lanes) for p in found] == [
        ("q", True, True, "f16", 1),
        ("k", True, True, "f16", 1),
        ("o", True, False, "bf16", 1),
        ("out", True, False, "f32", 1),
        ("scale", False, False, "f32", 1),
        ("n", False, False, "u32", 1),
        ("z", False, False, "u64", 1),
        ("", False, False, "s32", 1),
        ("w", True, True, "f32", 1),
        ("h2", True, False, "f16", 2),
        ("p", False, False, None, 1),
        ("pp", True, True, None, 1),
        ("s", False, False, "u64", 1),
        ("b", False, False, None, 1),
        ("u", True, False, "u8", 1),
        ("v", False, False, "u32", 1),
        ("f4", True, True, "f32", 4),
        ("t", False, False, "bool", 1),
        ("flag", True, False, "s32", 1),
        ("seen", True, True, "s32", 1),
    ]
    assert found[0].type == "const U *"
    assert found[0].facts.type == "const __half *"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", []),
        ("made", [("", "f32"), ("", "s32")]),
        ("whole", [("", "f64"), ("", "s32")]),
        ("inner", [("h", None), ("p", None)]),
        ("packed", [("n", "s32"), ("rest", "f32"), ("", "s8")]),
    ],
)
def test_kernels_however_they_are_made(compilation, name, expected) -> None:
    assert [(one.name, one.dtype) for one in signature(compilation, name)] == expected


def test_overloads_and_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cuh").write_text("template <typename T> __global__ void k(T *x, int n) { *x = n; }\n")
    Path("k.cu").write_text(
        '#include "k.cuh"\nnamespace a { __global__ void f(float *x) { *x = 1; } }\n\n'
        "namespace b {\n__global__ void f(double *x, int n) { *x = n; }\n"
        "__global__ void f(double *y, double n) { *y = n; }\n}\n"
    )
    compilation = compile_source("k.cu", CompileOptions(name_expressions=("k<double>",)))
    assert [p.dtype for p in signature(compilation, "a::f")] == ["f32"]
    both = [signature(compilation, one) for one in compilation.entries if one.demangled == "b::f"]
    assert sorted([(p.name, p.dtype) for p in one] for one in both) == [
        [("x", "f64"), ("n", "s32")],
        [("y", "f64"), ("n", "f64")],
    ]
    found = signature(compilation, compilation.entry("k"))
    assert found[0].dtype == "f64"


def test_what_has_no_signature() -> None:
    compilation = compile_text("__global__ void k() {}\n", "k.cu")
    with pytest.raises(ConfigurationError, match="no kernel"):
        signature(compilation, "zzz")
    ptx = compile_text(compilation.ptx, "k.ptx")
    with pytest.raises(ConfigurationError, match="PTX keeps no types"):
        signature(ptx, ptx.entries[0])
