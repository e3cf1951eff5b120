"""Array declarations of a source: extents that are evaluated, buffers that are carved, and what is left alone."""

from __future__ import annotations

import pytest

from wmmadiag.compile.array_declarations import ArraySource, Elements
from wmmadiag.compile.lexer import tokenize

_SOURCE = """
#define STAGES 2
constexpr int BM = 64, BN = 32;
using T = half;
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
  __shared__ unknown_type u[4][from_elsewhere];
}
struct Traits { static __device__ void f() { __shared__ alignas(16) half2 t[4][BN / 2]; } };
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
        ("u", 64, None),
        ("buf", 1000, Elements(2, (500,))),  # another instantiation's size: its extents are not believed
        ("nothing", 4, None),
    ],
)
def test_elements(name: str, size: int, expected: Elements | None) -> None:
    assert ArraySource([_SOURCE]).elements(name, "attn<__half, 64>", size) == expected


def test_elsewhere() -> None:
    source = ArraySource([_SOURCE])
    assert source.elements("t", "Traits::f", 4 * 16 * 4) == Elements(4, (4, 16))
    assert source.elements("outside", "", 60) == Elements(4, (3, 5))
    assert source.elements("outside", "", 64) == Elements(4, (16,))


def test_macros_of_the_command_line() -> None:
    text = "__global__ void k() { __shared__ float s[R][C]; }"
    assert ArraySource([text], {"R": "4", "C": "R + 4"}).elements("s", "k", 128) == Elements(4, (4, 8))
    assert ArraySource([text]).elements("s", "k", 128) == Elements(4, (32,))


def test_carved() -> None:
    found = ArraySource([_SOURCE]).carved("smem", "attn<__half, 64>", {2: 64})
    assert [(one.name, one.offset, one.item) for one in found] == [
        ("sQ", 0, 2), ("sK", 9216, 2), ("sV", 18432, 2), ("sS", 27648, 4), ("sM", 35840, 4), ("last", 36096, 4),
    ]  # fmt: skip


def test_an_argument_that_is_not_known() -> None:
    found = ArraySource([_SOURCE]).carved("smem", "attn<__half, 64>", {})
    assert [one.name for one in found] == ["sQ", "sK", "sV", "sS"]


def test_carved_by_macros_with_arguments_and_one_line_functions() -> None:
    text = """
    #define UP(n, m) ((n) + m - 1) / (m) * (m)
    constexpr int pitch(int d) { return UP(d, 16) + 8; }
    __global__ void k(int keys) {
        extern __shared__ char pool[];
        float* scores = (float*)(pool + 2 * pitch(40));
        half* probs = (half*)(scores + 4 * UP(keys, 16));
    }"""
    found = ArraySource([text]).carved("pool", "k", {0: 20})
    assert [(one.name, one.offset) for one in found] == [("scores", 112), ("probs", 112 + 4 * 4 * 32)]
    endless = "#define F(n) F(n)\n__global__ void k() { extern __shared__ char s[]; char* p = s + F(1); }"
    assert ArraySource([endless]).carved("s", "k", {}) == ()


@pytest.mark.parametrize(
    "text",
    ["", "}{", "__global__ void k() { __shared__ float s[", "__global__ void k() {int a = a; __shared__ int s[a];}"],
)
def test_what_is_no_source(text: str) -> None:
    assert ArraySource([text]).elements("s", "k", 8) in (None, Elements(4, (2,)))
    assert ArraySource([text]).carved("s", "k", {}) == ()


_STRUCT = """
constexpr int BN = 32;
template <int D> struct Storage {
    static constexpr int LD = D + 8;
    half q[64][LD];
    float max;
    alignas(128) float s[64][BN + 4];
    char tail;
};
struct Odd { half a[3]; Unknown u; };
template <int D> __global__ void attn() {
    __shared__ Storage<64> smem;
    __shared__ Odd odd;
}
"""


def test_members_of_a_struct() -> None:
    source = ArraySource([_STRUCT])
    found = source.members("smem", "attn<64>", 18688)
    assert [(one.name, one.offset, one.elements) for one in found] == [
        ("q", 0, Elements(2, (64, 72))),
        ("max", 9216, Elements(4, ())),
        ("s", 9344, Elements(4, (64, 36))),
        ("tail", 18560, Elements(1, ())),
    ]
    assert source.members("smem", "attn<64>", 18560) == ()  # another size: not believed
    assert source.members("odd", "attn<64>", 8) == ()


@pytest.mark.parametrize(
    "deep", ["-" * 5000 + "1", "(" * 5000 + "1" + ")" * 5000, "*" * 5000 + "p", "1" + " + 1" * 5000]
)
def test_deep_expressions_have_no_value_or_one(deep: str) -> None:
    text = f"__global__ void k() {{ __shared__ float s[4][{deep}]; }}"
    assert ArraySource([text]).elements("s", "k", 64) in (Elements(4, (4, 4)), Elements(4, (16,)))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2 + 7 % 4 * 2", 9), ("-7 / 2", -3), ("1 << 4 >> 1", 8), ("3 > 2 && 2 >= 3 || 0", 0),
        ("~0 & 6 ^ 1 | 8", 15),
        ("sizeof(float4) * 2", 32), ("sizeof(half*)", 8), ("(int)3 * (unsigned int)2", 6), ("BN == 32 ? 0x10 : 1", 16),
        ("static_cast<int>(5)", 5), ("min(3, max(1, 2))", 2), ("!BN", 0), ("1'000u", 1000),
        ("1 / 0", None), ("1 << 99999", None), ("f(3)", None), ("unknown", None), ("3 +", None), ("", None),
    ],
)  # fmt: skip
def test_expressions(expression: str, value: int | None) -> None:
    source = ArraySource(["constexpr int BN = 32;"])
    assert source.constant(tokenize(expression)) == value
