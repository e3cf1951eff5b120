// C += A B, the sum over K split between blocks along z, in tf32; the caller zeroes C.
#include <mma.h>
using namespace nvcuda;

template <int SPLIT>
__global__ void split_k(float* C, const float* A, const float* B, int M, int N, int K) {
  using A_t = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
  using B_t = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
  __shared__ __align__(32) float stage[2][16][16];
  const int w = threadIdx.x >> 5;
  const int row = (blockIdx.y * 2 + w) * 16, col = blockIdx.x * 16;
  if (row >= M) return;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  const int share = (K / 8 + SPLIT - 1) / SPLIT;
  const int begin = blockIdx.z * share, end = min(begin + share, K / 8);
  for (int t = begin; t < end; ++t) {
    A_t a;
    B_t b;
    wmma::load_matrix_sync(a, A + row * K + t * 8, K);
    wmma::load_matrix_sync(b, B + t * 8 * N + col, N);
    for (int i = 0; i < a.num_elements; ++i) a.x[i] = wmma::__float_to_tf32(a.x[i]);
    for (int i = 0; i < b.num_elements; ++i) b.x[i] = wmma::__float_to_tf32(b.x[i]);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(&stage[w][0][0], acc, 16, wmma::mem_row_major);
  for (int i = threadIdx.x & 31; i < 256; i += 32) atomicAdd(&C[(row + i / 16) * N + col + i % 16], stage[w][i / 16][i % 16]);
}
