// out = float(A8 * B8) * factor; A row-major, B column-major bytes; the sums leave through shared memory, converted there.
#include <mma.h>
#include <cstdint>
#include <type_traits>
using namespace nvcuda;

static constexpr int kTile = 32;
static constexpr int kDepth = 64;
static constexpr int kRow = kDepth + 16;

__global__ void gemm_i8(const int8_t* __restrict__ x, const int8_t* __restrict__ w, float* __restrict__ y, int M, int N,
                        int K, float factor) {
  __shared__ __align__(128) int8_t xs[kTile * kRow];
  __shared__ __align__(128) int8_t ws[kTile * kRow];
  __shared__ __align__(128) int32_t sums[kTile * (kTile + 4)];
  const int by = blockIdx.y * kTile, bx = blockIdx.x * kTile;
  const int warp = threadIdx.y;
  const int linear = threadIdx.y * 32 + threadIdx.x;
  const int tr = warp / 2, tc = warp % 2;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);
  for (int base = 0; base < K; base += kDepth) {
    for (int i = linear; i < kTile * kDepth / 4; i += 128) {
      const int r = i * 4 / kDepth, c = i * 4 % kDepth;
      int xa = 0, wb = 0;
      if (by + r < M && base + c < K) xa = *reinterpret_cast<const int*>(x + (int64_t)(by + r) * K + base + c);
      if (bx + r < N && base + c < K) wb = *reinterpret_cast<const int*>(w + (int64_t)(bx + r) * K + base + c);
      *reinterpret_cast<int*>(xs + r * kRow + c) = xa;
      *reinterpret_cast<int*>(ws + r * kRow + c) = wb;
    }
    __syncthreads();
    for (int d = 0; d < kDepth; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
      wmma::load_matrix_sync(a, (const signed char*)xs + tr * 16 * kRow + d, kRow);
      wmma::load_matrix_sync(b, (const signed char*)ws + tc * 16 * kRow + d, kRow);
      wmma::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(sums + tr * 16 * (kTile + 4) + tc * 16, acc, kTile + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = linear; i < kTile * kTile; i += 128) {
    const int r = i / kTile, c = i % kTile;
    if (by + r < M && bx + c < N) y[(int64_t)(by + r) * N + bx + c] = (float)sums[r * kTile + c] * factor;
  }
}
