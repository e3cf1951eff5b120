"""Kernel signatures read from source."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile import CompileOptions, compile_source, compile_text, kernel_signatures, signature
from wmmadiag.errors import ConfigurationError

TEXT = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define FT float
#define KERNEL(name) __global__ void name
using T = half;
typedef __nv_bfloat16 bf;
typedef unsigned char byte_t;
struct Params { int n; };
namespace ns {
template <typename U, int D = 64, bool C = (D > 32), typename O = float>
__global__ void __launch_bounds__(D * 2, 1) attn(
    const U *__restrict__ q, /* keys */ const T *k, bf o[], O *out,  // output
    float scale, unsigned int n, const unsigned long long z, int, FT const *w, half2 *h2, Params p,
    const int *const *pp, size_t s, const __grid_constant__ Params b, byte_t *u, std::uint32_t v, const float4 *f4) {
}
}
extern "C" __global__ void plain(void) {}
KERNEL(made)(float *a, int b) { *a = b; }
__global__ void declared(double *);
__global__ void declared(double *x) { *x = 1; }
"""


def test_parameters() -> None:
    found = signature(TEXT, "ns::attn<half, 64>")
    assert found.name == "ns::attn"
    assert [(p.name, p.pointer, p.const, p.dtype, p.lanes) for p in found.parameters] == [
        ("q", True, True, "f16", 1),
        ("k", True, True, "f16", 1),
        ("o", True, False, "bf16", 1),
        ("out", True, False, "f32", 1),
        ("scale", False, False, "f32", 1),
        ("n", False, False, "u32", 1),
        ("z", False, True, "u64", 1),
        ("", False, False, "i32", 1),
        ("w", True, True, "f32", 1),
        ("h2", True, False, "f16", 2),
        ("p", False, False, None, 1),
        ("pp", True, True, None, 1),
        ("s", False, False, "u64", 1),
        ("b", False, True, None, 1),
        ("u", True, False, "u8", 1),
        ("v", False, False, "u32", 1),
        ("f4", True, True, "f32", 4),
    ]
    assert found.parameters[0].type == "const U *__restrict__"
    assert found.launch_bounds == ("D *2", "1")
    assert (found.place.line, found.place.column) == (11, 45)


def test_template_parameters() -> None:
    found = signature(TEXT, "attn<float>").template_parameters
    assert [(p.name, p.kind) for p in found] == [("U", "type"), ("D", "int"), ("C", "bool"), ("O", "type")]
    assert [p.default for p in found][1] == "64"


@pytest.mark.parametrize(("name", "count"), [("plain", 0), ("made", 2), ("declared", 1)])
def test_other_forms(name: str, count: int) -> None:
    found = signature(TEXT, name)
    assert len(found.parameters) == count
    assert found.template_parameters == ()


def test_all_signatures_once() -> None:
    assert [one.name for one in kernel_signatures(TEXT)] == ["ns::attn", "plain", "made", "declared"]


def test_of_a_compilation_with_overloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cuh").write_text("template <typename T> __global__ void k(T *x, int n) { *x = n; }\n")
    Path("k.cu").write_text(
        '#include "k.cuh"\nnamespace a { __global__ void f(float *x) { *x = 1; } }\n\n'
        "namespace b {\n__global__ void f(double *x, int n) { *x = n; }\n}\n"
    )
    compilation = compile_source("k.cu", CompileOptions(name_expressions=("k<double>",)))
    assert [p.dtype for p in signature(compilation, "b::f").parameters] == ["f64", "i32"]
    assert [p.dtype for p in signature(compilation, "a::f").parameters] == ["f32"]
    found = signature(compilation, compilation.entry("k"))
    assert found.parameters[0].dtype == "f64"
    assert found.place.file == "k.cuh"


def test_unknown_kernel() -> None:
    with pytest.raises(ConfigurationError, match="no kernel 'zzz'") as caught:
        signature(TEXT, "zzz")
    assert "plain" in caught.value.detail
    with pytest.raises(ConfigurationError, match="no kernel"):
        signature(compile_text("__global__ void k() {}\n", "k.cu"), "zzz")
