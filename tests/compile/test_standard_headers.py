"""Headers that are read first because their names are missed, and what torch's types compute."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.compile import standard
from wmmadiag.compile.diagnostics import parse_log
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.standard import missing_headers
from wmmadiag.emulator import load
from wmmadiag.launch import Launch


@pytest.mark.parametrize(
    ("message", "header"),
    [
        ('identifier "curandState_t" is undefined', "curand_kernel.h"),
        ('identifier "curand_init" is undefined', "curand_kernel.h"),
        ('identifier "FLT_MAX" is undefined', "cfloat"),
        ('namespace "std" has no member "array"', "array"),
        ('identifier "accuracy" is undefined', None),
    ],
)
def test_a_missing_name_tells_its_header(message: str, header: str | None) -> None:
    found = missing_headers(parse_log(f"kernel.cu(3): error: {message}\n"))
    assert found == ({header} if header else set())


ARITHMETIC = """
#include <torch/extension.h>
template <typename scalar_t> __global__ void mixed(const scalar_t* x, float* out) {
  scalar_t a = x[0], b = x[1];
  a += b * scalar_t(2) - a / b;
  float sum = 0.f;
  sum += a; sum = sum + a * 0.5f + 2 * b;
  scalar_t least = b < a && !(a == b) ? b : -a;
  out[0] = sum; out[1] = a; out[2] = least; out[3] = a > 1.0f && 0 < a && a != 7 && a >= 0.5 ? 1 : 0;
}
template __global__ void mixed<TYPE>(const TYPE*, float*);
"""


@pytest.mark.parametrize(("type_", "bits"), [("c10::Half", (0x4200, 0x3E00)), ("at::BFloat16", (0x4040, 0x3FC0))])
def test_torchs_sixteen_bit_types_calculate(type_: str, bits: tuple[int, int]) -> None:
    kernel = load(compile_text(ARITHMETIC.replace("TYPE", type_), "k.cu").ptx)
    out = np.zeros(4, np.float32)
    kernel.launch(Launch((1, 1, 1), (1, 1, 1), (np.array(bits, np.uint16), out)))
    assert list(out) == [4.0 + 2.0 + 3.0, 4.0, 1.5, 1.0]


@pytest.mark.parametrize("table", [standard._OURS, standard._LIBCU], ids=["ours", "libcu++"])
def test_every_header_has_what_is_looked_for_in_it(table: dict[str, str]) -> None:
    names = " ".join(table.values()).split()
    compiled = compile_text("".join(f"using std::{name};\n" for name in names) + "__global__ void k() {}\n", "k.cu")
    assert [one.base_name for one in compiled.entries] == ["k"]


def test_traits_know_what_they_are_asked() -> None:
    compile_text(TRAITS, "k.cu")


TRAITS = """
struct Base { __device__ Base(int); __device__ virtual ~Base(); __device__ virtual void f() = 0; };
static_assert(!std::is_default_constructible_v<Base> && std::is_abstract_v<Base> && std::is_polymorphic_v<Base>);
static_assert(!std::is_trivially_destructible_v<Base> && std::is_trivially_destructible_v<int>);
static_assert(std::is_same_v<std::common_type_t<int, double, float>, double>);
static_assert(std::is_same_v<std::invoke_result_t<std::plus<>, int, double>, double>);
static_assert(std::is_invocable_v<std::negate<>, int> && !std::is_invocable_v<int, int>);
static_assert(std::is_invocable_r_v<void, std::less<int>, int, int>);
static_assert(std::rank_v<int[2][3]> == 2 && std::extent_v<int[2][3], 1> == 3 && std::extent_v<int[2]> == 2);
static_assert(std::is_function_v<void(int)> && !std::is_function_v<int> && !std::is_object_v<int&>);
static_assert(std::is_same_v<std::remove_all_extents_t<int[2][3]>, int>);
static_assert(std::is_scalar_v<int Base::*> && std::is_aggregate_v<std::array<int, 2>> && !std::is_final_v<Base>);
static_assert(std::is_copy_assignable_v<int> && !std::is_assignable_v<int, int>);
static_assert(std::tuple_size_v<const std::pair<int, int>> == 2 && std::array{1, 2} < std::array{1, 3});
static_assert(std::is_same_v<std::index_sequence_for<int, char>, std::index_sequence<0, 1>>);
static_assert(std::max({1, 3, 2}) == 3 && std::popcount(7u) == 3 && std::gcd(12, 18) == 6);
__global__ void k(int* o, float f) { *o = std::bit_cast<int>(f); }
"""
