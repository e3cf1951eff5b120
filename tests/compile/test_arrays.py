"""Arrays of a source: what the compiler says of their extents, buffers that are carved, and what is left alone."""

from __future__ import annotations

import pytest

from wmmadiag.compile.ask.arrays import ArraySource, Elements
from wmmadiag.compile.ask.questions import AskedSource
from wmmadiag.compile.options import CompileOptions

_SOURCE = """
#include <cuda_fp16.h>
constexpr int from_elsewhere = 10;
#define STAGES 2
constexpr int BM = 64, BN = 32;
using T = half;
struct Traits { int n; float m; };
template <typename E, int D> __global__ void attn(const E* q, float* o, int n) {
  extern __shared__ __align__(128) unsigned char smem[];
  constexpr int LD = D + 8;
  const int rows = n / 2;
  T* sQ = reinterpret_cast<T*>(smem);
  E *sK = (E*)sQ + BM * LD, *sV = sK + STAGES * BN * LD;
  float* sS = reinterpret_cast<float*>(&smem[(BM + 2 * STAGES * BN) * LD * sizeof(half)]);
  float* sM = sS + BM * rows;
  half* moving = sQ; moving += 3;
  half* walking = sQ; ++walking;
  half* mine = sQ + threadIdx.x * 8;
  auto* last = sM + (BM >= 64 && STAGES == 2 ? 1 << 6 : 0);
  __shared__ E buf[STAGES][BM][LD]; __shared__ float m_s[BM], l_s[BM]; __shared__ float one;
  for (int i = 0; i < 3; ++i) { __shared__ int4 v[from_elsewhere]; }
  __shared__ Traits u[4][from_elsewhere];
}
struct Before { static __device__ void f() { __shared__ alignas(16) half2 t[4][BN / 2]; } };
namespace a { __shared__ int outside[3][5]; }
"""


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("buf", 2 * 64 * 72 * 2, Elements(2, (2, 64, 72))),
        ("m_s", 256, Elements(4, (64,))),
        ("l_s", 256, Elements(4, (64,))),
        ("one", 4, Elements(4, ())),
        ("v", 160, Elements(16, (10,))),  # one extent follows from the size
        ("u", 320, Elements(8, (4, 10))),
        ("buf", 1000, Elements(2, (500,))),  # another instantiation's size: its extents are not believed
        ("nothing", 4, None),
    ],
)
def test_elements(name: str, size: int, expected: Elements | None) -> None:
    assert source_of(_SOURCE).elements(name, "attn<__half, 64>", size) == expected


def source_of(text: str, macros: dict[str, str] | None = None) -> ArraySource:
    return ArraySource({"k.cu": text}, AskedSource(text, "k.cu", CompileOptions(macros=macros or {})))


def test_elsewhere() -> None:
    source = source_of(_SOURCE)
    assert source.elements("t", "Before::f", 4 * 16 * 4) == Elements(4, (4, 16))
    assert source.elements("outside", "", 60) == Elements(4, (3, 5))
    assert source.elements("outside", "", 64) == Elements(4, (16,))


def test_macros_of_the_command_line() -> None:
    text = "__global__ void k() { __shared__ float s[R][C]; }"
    assert source_of(text, {"R": "4", "C": "R + 4"}).elements("s", "k", 128) == Elements(4, (4, 8))
    assert source_of(text).elements("s", "k", 128) is None


def test_carved() -> None:
    found = source_of(_SOURCE).carved("smem", "attn<__half, 64>", {2: 64})
    assert [(one.name, one.offset, one.item) for one in found] == [
        ("sQ", 0, 2), ("sK", 9216, 2), ("sV", 18432, 2), ("sS", 27648, 4), ("sM", 35840, 4), ("last", 36096, 4),
    ]  # fmt: skip


def test_an_argument_that_is_not_known() -> None:
    found = source_of(_SOURCE).carved("smem", "attn<__half, 64>", {})
    assert [one.name for one in found] == ["sQ", "sK", "sV", "sS"]


def test_carved_by_macros_with_arguments_and_one_line_functions() -> None:
    text = """
    #include <cuda_fp16.h>
    #define UP(n, m) ((n) + m - 1) / (m) * (m)
    constexpr int pitch(int d) { return UP(d, 16) + 8; }
    __global__ void k(int keys) {
        extern __shared__ char pool[];
        float* scores = (float*)(pool + 2 * pitch(40));
        half* probs = (half*)(scores + 4 * UP(keys, 16));
    }"""
    found = source_of(text).carved("pool", "k", {0: 20})
    assert [(one.name, one.offset) for one in found] == [("scores", 112), ("probs", 112 + 4 * 4 * 32)]
    endless = "#define F(n) F(n)\n__global__ void k() { extern __shared__ char s[]; char* p = s + F(1); }"
    assert source_of(endless).carved("s", "k", {}) == ()


@pytest.mark.parametrize(
    "text",
    ["", "}{", "__global__ void k() { __shared__ float s[", "__global__ void k() {int a = a; __shared__ int s[a];}"],
)
def test_what_is_no_source(text: str) -> None:
    assert source_of(text).elements("s", "k", 8) in (None, Elements(4, (2,)))
    assert source_of(text).carved("s", "k", {}) == ()


_STRUCT = """
#include <cuda_fp16.h>
constexpr int BN = 32;
template <int D> struct Storage {
    static constexpr int LD = D + 8;
    half q[64][LD];
    float max;
    alignas(128) float s[64][BN + 4];
    char tail;
};
struct Odd { half a[3]; int& u; };
template <int D> __global__ void attn() {
    __shared__ Storage<64> smem;
    Odd* odd = nullptr;
}
"""


def test_members_of_a_struct() -> None:
    source = source_of(_STRUCT)
    found = source.members("smem", "attn<64>", 18688)
    assert [(one.name, one.offset, one.elements) for one in found] == [
        ("q", 0, Elements(2, (64, 72))),
        ("max", 9216, Elements(4, ())),
        ("s", 9344, Elements(4, (64, 36))),
        ("tail", 18560, Elements(1, ())),
    ]
    assert source.members("smem", "attn<64>", 18560) == ()  # another size: not believed
    assert source.members("odd", "attn<64>", 8) == ()
