/*
 * Attention scores, S = (Q K^T) / sqrt(D), with an optional causal mask.
 *
 * Q, K: [BH, L, D] half       S: [BH, L, L] float
 *
 * launch:  dim3 grid(L / 64, L / 64, BH);
 *          qk_scores<64><<<grid, 128>>>(Q, K, S, L, 1.0f / sqrtf(64), true);
 */
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;

template <int D>
__global__ void qk_scores(const half* __restrict__ Q, const half* __restrict__ K, float* __restrict__ S, int L,
                          float scale, bool causal)
{
    const int bh = blockIdx.z;
    const int q0 = blockIdx.y * 64;
    const int k0 = blockIdx.x * 64;
    Q += (size_t)bh * L * D;
    K += (size_t)bh * L * D;
    S += (size_t)bh * L * L;

    __shared__ half sQ[64 * (D + 8)];
    __shared__ half sK[64 * (D + 8)];
    __shared__ float sS[64 * 64];

    for (int i = threadIdx.x; i < 64 * D / 8; i += blockDim.x)
    {
        int r = i / (D / 8), c = i % (D / 8) * 8;
        *(float4*)(sQ + r * (D + 8) + c) = *(const float4*)(Q + (size_t)(q0 + r) * D + c);
        *(float4*)(sK + r * (D + 8) + c) = *(const float4*)(K + (size_t)(k0 + r) * D + c);
    }
    __syncthreads();

    int warp = threadIdx.x / 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; j++) wmma::fill_fragment(acc[j], 0.f);
    for (int d = 0; d < D; d += 16)
    {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
        wmma::load_matrix_sync(fq, sQ + warp * 16 * (D + 8) + d, D + 8);
        for (int j = 0; j < 4; j++)
        {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
            wmma::load_matrix_sync(fk, sK + j * 16 * (D + 8) + d, D + 8);
            wmma::mma_sync(acc[j], fq, fk, acc[j]);
        }
    }
    for (int j = 0; j < 4; j++)
        wmma::store_matrix_sync(sS + warp * 16 * 64 + j * 16, acc[j], 64, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x)
    {
        int r = q0 + i / 64, c = k0 + i % 64;
        S[(size_t)r * L + c] = (causal && c > r) ? -INFINITY : sS[i] * scale;
    }
}
