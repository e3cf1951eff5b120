"""Kernels without host code of which a comment says what they compute."""

from __future__ import annotations

import pytest

from wmmadiag.cli.main import main

SOURCE = """\
// One step of a mixing layer.
//   z[b, t, c] = sum_k u[b, t, k] * mix[k, c] + shift[c]
//   res[b, t, c] = tanh(z[b, t, c]) - 0.25 * u[b, t, c]
//   u [B, T, C]  mix [C, C]  shift [C]  res [B, T, C]
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void mixing_step(const half* u, const half* mix, const float* shift, float* res, int T, int C) {
  __shared__ __align__(32) float tile[4][256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int t0 = blockIdx.x * 64 + warp * 16, c0 = blockIdx.y * 16;
  const half* ub = u + (size_t)blockIdx.z * T * C;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int k = 0; k < C; k += 16) {
    wmma::load_matrix_sync(a, ub + t0 * C + k, C);
    wmma::load_matrix_sync(b, mix + k * C + c0, C);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(tile[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    const int t = t0 + i / 16, c = c0 + i % 16;
    res[((size_t)blockIdx.z * T + t) * C + c] = tanhf(tile[warp][i] + shift[c]) - 0.25f * __half2float(ub[t * C + c]);
  }
}
"""


def checked(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return main(["check", str(path)])


def test_one_that_nobody_launches_is_judged_by_its_formula_and_a_launch_that_covers_its_output(tmp_path, capsys):
    assert checked(tmp_path, SOURCE) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "judged by what a comment says" in said and "since the source has no launch" in said
    assert "grid of (ceil_div(T, 64), ceil_div(C, 16), B)" in said, "batches are counted by the grid alone"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shift[c]) -", "shift[c ^ 1]) -"),
        ("- 0.25f", "- 0.5f"),
        ("k < C; k += 16", "k < C - 16; k += 16"),
        ("ub + t0 * C + k", "u + t0 * C + k"),  # the first batch's alone
    ],
)
def test_one_that_does_not_compute_it_is_asked_about(tmp_path, old, new):
    assert old in SOURCE
    assert checked(tmp_path, SOURCE.replace(old, new)) in (2, 3)
