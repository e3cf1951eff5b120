#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

// y = x * dequant(W)^T.  W is int8 [N, K] with one half scale per output channel.
namespace {
constexpr int kM = 16;
constexpr int kN = 64;
constexpr int kK = 64;
}  // namespace

extern "C" __global__ void w8a16_linear(const __half* __restrict__ x, const int8_t* __restrict__ weight,
                                        const __half* __restrict__ scale, __half* __restrict__ y, int M, int N, int K) {
  using namespace nvcuda;
  __shared__ __align__(16) __half xs[kM][kK + 8];
  __shared__ __align__(16) __half ws[kN][kK + 8];
  __shared__ float ys[kM][kN + 4];

  const int m0 = blockIdx.y * kM;
  const int n0 = blockIdx.x * kN;
  const int warp = threadIdx.x >> 5;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);

  for (int k0 = 0; k0 < K; k0 += kK) {
    for (int i = threadIdx.x; i < kM * kK; i += blockDim.x) {
      int r = i / kK, c = i % kK;
      xs[r][c] = (m0 + r < M) ? x[(m0 + r) * K + k0 + c] : __float2half(0.f);
    }
    for (int i = threadIdx.x; i < kN * kK / 4; i += blockDim.x) {
      int r = i / (kK / 4), c = i % (kK / 4) * 4;
      char4 q = *reinterpret_cast<const char4*>(weight + (size_t)(n0 + r) * K + k0 + c);
      ws[r][c] = __int2half_rn(q.x);
      ws[r][c + 1] = __int2half_rn(q.y);
      ws[r][c + 2] = __int2half_rn(q.z);
      ws[r][c + 3] = __int2half_rn(q.w);
    }
    __syncthreads();
    for (int kk = 0; kk < kK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
      wmma::load_matrix_sync(a, &xs[0][kk], kK + 8);
      wmma::load_matrix_sync(b, &ws[warp * 16][kk], kK + 8);
      wmma::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(&ys[0][warp * 16], acc, kN + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kM * kN; i += blockDim.x) {
    int r = i / kN, c = i % kN;
    if (m0 + r < M) y[(m0 + r) * N + n0 + c] = __float2half(ys[r][c] * __half2float(scale[n0 + c]));
  }
}
