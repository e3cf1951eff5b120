"""Objects that a kernel is handed and calls: what they hold are its arrays, which their methods read by plain names."""

from __future__ import annotations

import pytest

from wmmadiag.api import check
from wmmadiag.errors import WmmadiagError

SOURCE = """\
#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;
struct Store {
  float* d;
  int ld;
  __device__ void operator()(int row, int column, float value) const { d[row * ld + column] = value; }
};
template <typename Epilogue>
__global__ void gemm(const half* A, const half* B, int M, int N, int K, Epilogue epilogue) {
  __shared__ float tile[256];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + row * K + k, K);
    wmma::load_matrix_sync(b, B + k * N + column, N);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) epilogue(row + i / 16, column + i % 16, tile[i]);
}
template <typename Epilogue> void run(const half* a, const half* b, int m, int n, int k, const Epilogue& e) {
  gemm<<<dim3(n / 16, m / 16), 32>>>(a, b, m, n, k, e);
}
template void run(const half*, const half*, int, int, int, const Store&);
"""


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [("", "", True), ("row * ld", "(row ^ 1) * ld", False), ("i % 16, tile", "i % 8, tile", False)],
)
def test_an_array_of_an_object_is_an_output(tmp_path, old, new, right):
    assert old in SOURCE
    path = tmp_path / "k.cu"
    path.write_text(SOURCE.replace(old, new) if old else SOURCE)
    try:
        report = check(path)
    except WmmadiagError as error:  # a question
        assert not right, error
        return
    assert (report.status == "passed") is right
