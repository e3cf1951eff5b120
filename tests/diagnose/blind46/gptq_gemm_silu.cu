// GPTQ 4-bit linear layer for small batches, with bias and SiLU (gate projection).
//
//   x        half   [M, K]
//   qweight  uint32 [K / 8, N]             eight 4-bit values along K, the first in the lowest bits
//   qzeros   uint32 [K / group_size, N / 8] eight zero points along N, stored minus one (AutoGPTQ v1)
//   scales   half   [K / group_size, N]
//   bias     half   [N]
//   out      half   [M, N]                 silu(x @ ((q - zero) * scale) + bias)
//
// Weights are dequantized into shared memory; two buffers, so that the next tile is unpacked while the
// tensor cores work on this one.
#include <cuda_fp16.h>
#include <mma.h>

namespace gptq {

using namespace nvcuda;

constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 64;
constexpr int BLOCK_K = 32;
constexpr int NUM_THREADS = 128;
constexpr int LDX = BLOCK_K + 8;
constexpr int LDW = BLOCK_N + 8;
constexpr int LDOUT = BLOCK_N + 4;

__device__ __forceinline__ void load_x(half (*x_tile)[LDX], const half* x, int m0, int k0, int M, int K)
{
    const int row = threadIdx.x / 4;
    const int col = (threadIdx.x % 4) * 8;
    uint4 value = make_uint4(0u, 0u, 0u, 0u);
    if (m0 + row < M && k0 + col < K)
        value = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + row) * K + k0 + col);
    *reinterpret_cast<uint4*>(&x_tile[row][col]) = value;
}

__device__ __forceinline__ void load_w(half (*w_tile)[LDW], const unsigned int* qweight, const unsigned int* qzeros,
                                       const half* scales, int n0, int k0, int N, int K, int group_size)
{
    for (int i = threadIdx.x; i < BLOCK_K / 8 * BLOCK_N; i += NUM_THREADS) {
        const int packed_row = i / BLOCK_N;
        const int col = i % BLOCK_N;
        const int n = n0 + col;
        const int k = k0 + packed_row * 8;

        unsigned int packed = 0;
        int zero = 0;
        half scale = __float2half(0.0f);
        if (n < N && k < K) {
            const int g = k / group_size;
            packed = qweight[(size_t)(k / 8) * N + n];
            const unsigned int packed_zeros = qzeros[(size_t)g * (N / 8) + n / 8];
            zero = (int)((packed_zeros >> (n % 8 * 4)) & 0xF) + 1;
            scale = scales[(size_t)g * N + n];
        }

        #pragma unroll
        for (int j = 0; j < 8; j++) {
            const int q = (int)((packed >> (j * 4)) & 0xF);
            w_tile[packed_row * 8 + j][col] = __hmul(__int2half_rn(q - zero), scale);
        }
    }
}

__global__ void __launch_bounds__(NUM_THREADS)
gptq_gemm_silu(const half* __restrict__ x, const unsigned int* __restrict__ qweight,
               const unsigned int* __restrict__ qzeros, const half* __restrict__ scales,
               const half* __restrict__ bias, half* __restrict__ out,
               int M, int N, int K, int group_size)
{
    __shared__ __align__(32) half x_tile[2][BLOCK_M][LDX];
    __shared__ __align__(32) half w_tile[2][BLOCK_K][LDW];
    __shared__ __align__(32) float out_tile[BLOCK_M][LDOUT];

    const int m0 = blockIdx.y * BLOCK_M;
    const int n0 = blockIdx.x * BLOCK_N;
    const int warp_col = (threadIdx.x / 32) * 16;   // a warp has all rows of 16 columns

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BLOCK_M / 16];
    #pragma unroll
    for (int i = 0; i < BLOCK_M / 16; i++)
        wmma::fill_fragment(acc[i], 0.0f);

    int buf = 0;
    load_x(x_tile[buf], x, m0, 0, M, K);
    load_w(w_tile[buf], qweight, qzeros, scales, n0, 0, N, K, group_size);
    __syncthreads();

    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        if (k0 + BLOCK_K < K) {
            load_x(x_tile[buf ^ 1], x, m0, k0 + BLOCK_K, M, K);
            load_w(w_tile[buf ^ 1], qweight, qzeros, scales, n0, k0 + BLOCK_K, N, K, group_size);
        }

        #pragma unroll
        for (int kk = 0; kk < BLOCK_K; kk += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> w_frag;
            wmma::load_matrix_sync(w_frag, &w_tile[buf][kk][warp_col], LDW);
            #pragma unroll
            for (int i = 0; i < BLOCK_M / 16; i++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x_frag;
                wmma::load_matrix_sync(x_frag, &x_tile[buf][i * 16][kk], LDX);
                wmma::mma_sync(acc[i], x_frag, w_frag, acc[i]);
            }
        }
        __syncthreads();   // the next tile is complete, and this one may be overwritten
        buf ^= 1;
    }

    #pragma unroll
    for (int i = 0; i < BLOCK_M / 16; i++)
        wmma::store_matrix_sync(&out_tile[i * 16][warp_col], acc[i], LDOUT, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += NUM_THREADS) {
        const int m = m0 + i / BLOCK_N;
        const int n = n0 + i % BLOCK_N;
        if (m < M && n < N) {
            float v = out_tile[i / BLOCK_N][i % BLOCK_N];
            v += __half2float(bias[n]);
            v = v / (1.0f + __expf(-v));
            out[(size_t)m * N + n] = __float2half(v);
        }
    }
}

}  // namespace gptq
