// MoE feed-forward, first layer: tokens are already sorted by expert.
//   out[t, :] = tokens[t, :] @ weights[e]        for expert_offsets[e] <= t < expert_offsets[e + 1]
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 bf16;
using namespace nvcuda::wmma;

template <int BLOCK_M, int BLOCK_N, int BLOCK_K>
__global__ void moe_gemm_kernel(const bf16* __restrict__ tokens,        // [total_tokens, hidden]
                                const bf16* __restrict__ weights,       // [num_experts, hidden, inter]
                                const int* __restrict__ expert_offsets, // [num_experts + 1]
                                bf16* __restrict__ out,                 // [total_tokens, inter]
                                int hidden, int inter)
{
    const int expert = blockIdx.z;
    const int first = expert_offsets[expert];
    const int last = expert_offsets[expert + 1];
    const bf16* w = weights + (size_t)expert * hidden * inter;
    const int n0 = blockIdx.x * BLOCK_N;

    __shared__ bf16 a_tile[BLOCK_M][BLOCK_K + 8];
    __shared__ bf16 b_tile[BLOCK_K][BLOCK_N + 8];
    __shared__ float c_tile[BLOCK_M][BLOCK_N + 4];
    const int warp = threadIdx.x / 32;
    const int nwarps = blockDim.x / 32;

    // any number of tokens may fall to one expert
    for (int m0 = first + blockIdx.y * BLOCK_M; m0 < last; m0 += gridDim.y * BLOCK_M) {
        fragment<accumulator, 16, 16, 16, float> acc[BLOCK_M / 16];
        for (int i = 0; i < BLOCK_M / 16; i++) fill_fragment(acc[i], 0.0f);
        for (int k0 = 0; k0 < hidden; k0 += BLOCK_K) {
            for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K; i += blockDim.x) {
                int r = i / BLOCK_K, c = i % BLOCK_K;
                a_tile[r][c] = m0 + r < last ? tokens[(size_t)(m0 + r) * hidden + k0 + c] : __float2bfloat16(0.0f);
            }
            for (int i = threadIdx.x; i < BLOCK_K * BLOCK_N; i += blockDim.x) {
                int r = i / BLOCK_N, c = i % BLOCK_N;
                b_tile[r][c] = w[(size_t)(k0 + r) * inter + n0 + c];
            }
            __syncthreads();
            for (int k = 0; k < BLOCK_K; k += 16) {
                fragment<matrix_b, 16, 16, 16, bf16, row_major> b;
                load_matrix_sync(b, &b_tile[k][warp * 16], BLOCK_N + 8);
                for (int i = 0; i < BLOCK_M / 16; i++) {
                    fragment<matrix_a, 16, 16, 16, bf16, row_major> a;
                    load_matrix_sync(a, &a_tile[i * 16][k], BLOCK_K + 8);
                    mma_sync(acc[i], a, b, acc[i]);
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < BLOCK_M / 16; i++)
            store_matrix_sync(&c_tile[i * 16][warp * 16], acc[i], BLOCK_N + 4, mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += nwarps * 32) {
            int r = i / BLOCK_N, c = i % BLOCK_N;
            if (m0 + r < last) out[(size_t)(m0 + r) * inter + n0 + c] = __float2bfloat16(c_tile[r][c]);
        }
        __syncthreads();
    }
}

void moe_gemm(const bf16* tokens, const bf16* weights, const int* expert_offsets, bf16* out, int num_experts,
              int total_tokens, int hidden, int inter, cudaStream_t stream)
{
    constexpr int BM = 32, BN = 64, BK = 32;
    int tiles = (total_tokens / num_experts + BM - 1) / BM;
    dim3 grid(inter / BN, tiles > 0 ? tiles : 1, num_experts);
    moe_gemm_kernel<BM, BN, BK><<<grid, BN / 16 * 32, 0, stream>>>(tokens, weights, expert_offsets, out, hidden, inter);
}
