// W4A16: y[m, n] = sum_k x[m, k] * (q[k, n] - zero[k / group, n]) * scale[k / group, n]
// q: eight 4-bit values along k in an int32, lowest bits first: qweight[k / 8][n].  scales and zeros are half, [k / group][n].
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

#define BM 16
#define BN 64
#define BK 32
#define PACK 8
#define A_LD (BK + 8)
#define B_LD (BN + 8)
#define C_LD (BN + 4)

__device__ inline void dequant_column(uint32_t packed, half scale, half zero, half* dst) {
#pragma unroll
  for (int i = 0; i < PACK; ++i) {
    const int q = (packed >> (4 * i)) & 0xF;
    dst[i * B_LD] = __hmul(__hsub(__int2half_rn(q), zero), scale);
  }
}

template <bool HAS_BIAS>
__global__ void w4a16_gemm_kernel(const half* __restrict__ x,
                                  const uint32_t* __restrict__ qweight,
                                  const half* __restrict__ scales,
                                  const half* __restrict__ zeros,
                                  const half* __restrict__ bias,
                                  half* __restrict__ y,
                                  int m, int n, int k, int group_size) {
  __shared__ __align__(32) half sA[BM * A_LD];
  __shared__ __align__(32) half sB[BK * B_LD];
  __shared__ __align__(32) float sC[BM * C_LD];

  const int warp_id = threadIdx.x / warpSize;
  const int block_m = blockIdx.y * BM;
  const int block_n = blockIdx.x * BN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
  wmma::fill_fragment(c_frag, 0.f);

  for (int k0 = 0; k0 < k; k0 += BK) {
    // activations, two at a time
    for (int i = threadIdx.x; i < BM * BK / 2; i += blockDim.x) {
      const int r = i / (BK / 2);
      const int c = i % (BK / 2) * 2;
      half2 v = __float2half2_rn(0.f);
      if (block_m + r < m) v = *reinterpret_cast<const half2*>(x + (size_t)(block_m + r) * k + k0 + c);
      *reinterpret_cast<half2*>(sA + r * A_LD + c) = v;
    }

    // weights: a thread unpacks eight rows of one column
    for (int i = threadIdx.x; i < BK / PACK * BN; i += blockDim.x) {
      const int word = i / BN;
      const int col = i % BN;
      half* dst = sB + word * PACK * B_LD + col;
      if (block_n + col < n) {
        const int g = (k0 + word * PACK) / group_size;
        const uint32_t packed = qweight[(size_t)(k0 / PACK + word) * n + block_n + col];
        const half scale = scales[(size_t)g * n + block_n + col];
        const half zero = zeros[(size_t)g * n + block_n + col];
        dequant_column(packed, scale, zero, dst);
      } else {
        for (int j = 0; j < PACK; ++j) dst[j * B_LD] = __float2half(0.f);
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
      wmma::load_matrix_sync(a_frag, sA + kk, A_LD);
      wmma::load_matrix_sync(b_frag, sB + kk * B_LD + warp_id * 16, B_LD);
      wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(sC + warp_id * 16, c_frag, C_LD, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
    const int r = i / BN;
    const int c = i % BN;
    if (block_m + r >= m || block_n + c >= n) continue;
    float out = sC[r * C_LD + c];
    if (HAS_BIAS) out += __half2float(bias[block_n + c]);
    y[(size_t)(block_m + r) * n + block_n + c] = __float2half(out);
  }
}

template __global__ void w4a16_gemm_kernel<true>(const half*, const uint32_t*, const half*, const half*, const half*, half*,
                                                 int, int, int, int);
