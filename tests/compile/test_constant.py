from __future__ import annotations

import pytest

from wmmadiag.compile.constant import constant_value

SOURCE = """
#include <cuda_fp16.h>
template <int M, int D> struct Tile {
  static constexpr int threads = M * 2;
  alignas(128) half q[M][D + 8];
  float m[M];
};
constexpr int twice(int n) { return 2 * n; }
__global__ void k(float* x) { x[0] = 1.0f; }
int main() { k<<<1, 1>>>(nullptr); }
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("sizeof(Tile<16, 64>)", 16 * 72 * 2 + 128),  # 64 bytes of float, rounded up to the alignment
        ("Tile<16, 64>::threads", 32),
        ("T::threads + twice(4)", 72),
        ("1 - 1", 0),
        ("-3", -3),
    ],
)
def test_constants(expression, value):
    assert constant_value(SOURCE, "a.cu", expression, before="using T = Tile<32, 32>;") == value


@pytest.mark.parametrize("expression", ["n + 1", "sizeof(Unknown)", "1; } int x {0", "", "clock()"])
def test_what_is_no_constant(expression):
    assert constant_value(SOURCE, "a.cu", expression) is None
