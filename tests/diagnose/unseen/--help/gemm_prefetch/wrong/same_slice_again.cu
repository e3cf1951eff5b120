// C = A * B. A block of 256 threads makes 128 x 64 outputs; the next slices wait in registers while this one is used.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

enum { BM = 128, BN = 64, BK = 32, LA = BK + 8, LB = BN + 8 };

__global__ __launch_bounds__(256) void hgemm(const __half* __restrict__ lhs, const __half* __restrict__ rhs,
                                             float* __restrict__ out, int m, int n, int k) {
  __shared__ __align__(64) __half ta[BM * LA];
  __shared__ __align__(64) __half tb[BK * LB];
  const int tid = threadIdx.x, wid = tid >> 5;
  const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BN;
  const int wm = (wid >> 1) * 32, wn = (wid & 1) * 32;
  uint4 ra[2], rb;
  const uint4 zero = make_uint4(0, 0, 0, 0);
  auto grab = [&](int k0) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      int chunk = tid + u * 256, row = chunk >> 2, col = (chunk & 3) << 3;
      bool ok = m0 + row < m && k0 + col < k;
      ra[u] = ok ? *reinterpret_cast<const uint4*>(lhs + (size_t)(m0 + row) * k + k0 + col) : zero;
    }
    int row = tid >> 3, col = (tid & 7) << 3;
    rb = k0 + row < k && n0 + col < n ? *reinterpret_cast<const uint4*>(rhs + (size_t)(k0 + row) * n + n0 + col) : zero;
  };
  auto put = [&] {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      int chunk = tid + u * 256;
      *reinterpret_cast<uint4*>(ta + (chunk >> 2) * LA + ((chunk & 3) << 3)) = ra[u];
    }
    *reinterpret_cast<uint4*>(tb + (tid >> 3) * LB + ((tid & 7) << 3)) = rb;
  };
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
#pragma unroll
  for (auto& line : c)
    for (auto& one : line) wmma::fill_fragment(one, 0.f);
  grab(0);
  for (int k0 = 0; k0 < k; k0 += BK) {
    put();
    __syncthreads();
    if (k0 + BK < k) grab(k0);
#pragma unroll
    for (int s = 0; s < BK; s += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b[2];
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(a[i], ta + (wm + i * 16) * LA + s, LA);
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(b[j], tb + s * LB + wn + j * 16, LB);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = m0 + wm + i * 16, q = n0 + wn + j * 16;
      if (r < m && q < n) wmma::store_matrix_sync(out + (size_t)r * n + q, c[i][j], n, wmma::mem_row_major);
    }
}
