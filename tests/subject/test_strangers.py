"""Numbers whose names an operation does not know: what they are is found by runs, and mistakes stay mistakes."""

from __future__ import annotations

import pytest

from wmmadiag.api import check

# F filters of K's place, and names for strides and taps that no table has.
CONVOLUTION = """
#include <cuda_fp16.h>
struct Shape { int N, C, H, W, F, R, S, schritt, luft, P, Q; };
__global__ void conv2d(const half* x, const half* w, float* y, Shape s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= s.N * s.F * s.P * s.Q) return;
  int q = i % s.Q, p = i / s.Q % s.P, f = i / (s.Q * s.P) % s.F, n = i / (s.Q * s.P * s.F);
  float sum = 0.f;
  for (int c = 0; c < s.C; c++)
    for (int r = 0; r < s.R; r++)
      for (int t = 0; t < s.S; t++) {
        int h = p * s.schritt - s.luft + r, v = q * s.schritt - s.luft + t;
        if (h >= 0 && h < s.H && v >= 0 && v < s.W)
          sum += __half2float(x[((n * s.C + c) * s.H + h) * s.W + v]) *
                 __half2float(w[((f * s.C + c) * s.R + r) * s.S + t]);
      }
  y[i] = sum;
}
void run(const half* x, const half* w, float* y, Shape s) {
  s.P = (s.H + 2 * s.luft - s.R) / s.schritt + 1;
  s.Q = (s.W + 2 * s.luft - s.S) / s.schritt + 1;
  conv2d<<<(s.N * s.F * s.P * s.Q + 127) / 128, 128>>>(x, w, y, s);
}
int main() {
  half *x, *w;
  float* y;
  cudaMalloc(&x, 2 * 16 * 12 * 12 * sizeof(half));
  cudaMalloc(&w, 32 * 16 * 3 * 3 * sizeof(half));
  cudaMalloc(&y, 2 * 32 * 12 * 12 * sizeof(float));
  run(x, w, y, {2, 16, 12, 12, 32, 3, 3, 1, 1});
}
"""


def checked(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return check(path)


@pytest.mark.slow
def test_numbers_of_unknown_names_are_what_is_left_of_the_operation(tmp_path):
    report = checked(tmp_path, CONVOLUTION)
    assert report.status == "passed"
    assert any("F is K, schritt is stride, luft is pad" in one for one in report.assumed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q * s.schritt - s.luft", "q * s.schritt - s.schritt"),
        ("v = q * s.schritt", "v = q * s.luft"),
        ("* s.R + r) * s.S + t", "* s.S + r) * s.R + t"),
        ("+ c) * s.R + r) * s.S", "+ c) * s.R + r) * s.R"),
        ("/ (s.Q * s.P) % s.F", "/ (s.Q * s.P) % s.C"),
    ],
    ids=["padding", "stride", "filter turned", "rows for columns", "filters"],
)
def test_a_number_in_the_place_of_another_is_no_reading(tmp_path, old, new):
    assert checked(tmp_path, CONVOLUTION.replace(old, new)).status != "passed"


LETTERS = {
    "schritt, luft, P, Q": "u, v, p, q, Oh, Ow",
    "2 * s.luft - s.R) / s.schritt": "2 * s.p - s.R) / s.u",
    "2 * s.luft - s.S) / s.schritt": "2 * s.q - s.S) / s.v",
    "p * s.schritt - s.luft": "p * s.u - s.p",
    "q * s.schritt - s.luft": "q * s.v - s.q",
    "s.P": "s.Oh",
    "s.Q": "s.Ow",
    "s.F": "s.K",
    "W, F,": "W, K,",
    "3, 3, 1, 1}": "3, 3, 1, 1, 1, 1}",
}


@pytest.mark.slow
def test_numbers_that_mean_something_else_together_are_read_so(tmp_path):
    text = CONVOLUTION
    for old, new in LETTERS.items():
        text = text.replace(old, new)
    report = checked(tmp_path, text)
    assert report.status == "passed"
    assert any("u is strideh, v is stridew" in one for one in report.assumed)
    swapped = text.replace("p * s.u - s.p", "p * s.v - s.p").replace("q * s.v - s.q", "q * s.u - s.q")
    assert checked(tmp_path, swapped).status != "passed"
