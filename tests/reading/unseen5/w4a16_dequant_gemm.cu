// Weight-only int4 GEMM: out[M, N] = x[M, K] * dequant(qweight)[K, N]
// qweight: int32 [K / 8, N], eight rows of a column in one word, lowest bits first
// scales: half [K / group, N], zeros: half [K / group, N]; w = (q - zero) * scale
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>

#define PACK 8
#define BM 32
#define BN 64
#define BK 32

__global__ void w4a16_gemm(const half* __restrict__ x, const uint32_t* __restrict__ qweight,
                           const half* __restrict__ scales, const half* __restrict__ zeros, half* __restrict__ out,
                           int M, int N, int K, int group_size) {
  using namespace nvcuda;
  __shared__ half xs[BM][BK + 8];
  __shared__ half ws[BK][BN + 8];
  __shared__ float os[BM][BN];

  int tid = threadIdx.x;
  int warp = tid >> 5;
  int m_base = blockIdx.y * BM;
  int n_base = blockIdx.x * BN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.f);
  wmma::fill_fragment(acc[1], 0.f);

  for (int k = 0; k < K; k += BK) {
    // activations: 32 x 32 halves, one vector of 8 for each of the 128 threads
    {
      int r = tid / 4, c = (tid % 4) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m_base + r < M) v = *(const uint4*)(x + (size_t)(m_base + r) * K + k + c);
      *(uint4*)&xs[r][c] = v;
    }
    // weights: 4 rows of words, 64 columns
    for (int i = tid; i < BK / PACK * BN; i += 128) {
      int wr = i / BN, c = i % BN;
      uint32_t q = qweight[(size_t)(k / PACK + wr) * N + n_base + c];
      int g = (k + wr * PACK) / group_size;
      half s = scales[(size_t)g * N + n_base + c];
      half z = zeros[(size_t)g * N + n_base + c];
#pragma unroll
      for (int j = 0; j < PACK; j++) {
        half w = __int2half_rn((q >> (4 * j)) & 0xF);
        ws[wr * PACK + j][c] = __hmul(__hsub(w, z), s);
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(b, &ws[kk][warp * 16], BN + 8);
#pragma unroll
      for (int i = 0; i < 2; i++) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, &xs[i * 16][kk], BK + 8);
        wmma::mma_sync(acc[i], a, b, acc[i]);
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; i++) wmma::store_matrix_sync(&os[i * 16][warp * 16], acc[i], BN, wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < BM * BN; i += 128) {
    if (m_base + i / BN < M) out[(size_t)(m_base + i / BN) * N + n_base + i % BN] = __float2half(os[i / BN][i % BN]);
  }
}

// group_size: a multiple of 8; N a multiple of 64, K of 32
void w4a16_gemm_launch(const half* x, const uint32_t* qweight, const half* scales, const half* zeros, half* out, int M,
                       int N, int K, int group_size, cudaStream_t stream) {
  dim3 blocks(N / BN, (M + BM - 1) / BM);
  w4a16_gemm<<<blocks, 128, 0, stream>>>(x, qweight, scales, zeros, out, M, N, K, group_size);
}
