"""Real numbers of unknown names: what a result is multiplied or divided by, told by a run."""

import pytest

from wmmadiag.cli.main import main

SOURCE = """
#include <mma.h>
using namespace nvcuda;
__global__ void int8_gemm(const signed char* A, const signed char* B, signed char* C, const float* b_scale, float s_in,
                          float s_out, int M, int N, int K) {
  __shared__ __align__(32) int sums[256];
  const int m = blockIdx.y * 16, n = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
  wmma::fill_fragment(c, 0);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + m * K + k, K);
    wmma::load_matrix_sync(b, B + n * K + k, K);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(sums, c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    float v = RESULT;
    C[(m + i / 16) * N + n + i % 16] = (signed char)fminf(fmaxf(rintf(v), -128.0f), 127.0f);
  }
}
void run(const signed char* A, const signed char* B, signed char* C, const float* b_scale, float s_in, float s_out,
         int M, int N, int K) {
  int8_gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, b_scale, s_in, s_out, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        ("sums[i] * s_in * b_scale[n + i % 16] / s_out", 0, "s_in a factor, s_out a divisor"),
        ("sums[i] * s_in * b_scale[n + i % 16] * s_out", 0, "s_in a factor, s_out a factor"),
        ("sums[i] * s_in * b_scale[n + i % 16] / (s_out + 1)", 2, "none makes it right"),
        ("sums[i] * s_in * b_scale[i % 16] / s_out", 2, "none makes it right"),
        ("sums[i] * s_in * b_scale[n + i % 16]", 3, "no line reads it"),
    ],
)
def test_what_they_do_to_the_result(tmp_path, capsys, result, code, said):
    """Results stay within bytes; a number that nothing reads may be another such, and is asked about."""
    path = tmp_path / "gemm.cu"
    path.write_text(SOURCE.replace("RESULT", result))
    assert main(["check", str(path)]) == code
    seen = capsys.readouterr()
    assert said in " ".join((seen.out + seen.err).split())
