// Rows of tokens times the matrix of the expert that each of their slots is routed to, and the slot's weight.
//
// A block takes 16 slots of one expert, and each of its two warps 16 columns. Slots beyond the last are padding.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BLOCK_M = 16, WARPS = 2;

__global__ void routed_gemm(const half* __restrict__ x, const half* __restrict__ w,
                            const int* __restrict__ sorted_ids, const int* __restrict__ expert_ids,
                            const float* __restrict__ topk_weights, float* __restrict__ out, int n, int k,
                            int num_slots, int topk) {
    __shared__ __align__(32) half rows[BLOCK_M][16];
    __shared__ __align__(32) float sums[BLOCK_M][16 * WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int column = (blockIdx.x * WARPS + warp) * 16;
    const int* ids = sorted_ids + blockIdx.y * BLOCK_M;
    const half* matrix = w + static_cast<size_t>(expert_ids[blockIdx.y]) * k * n;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int step = 0; step < k; step += 16) {
        for (int i = threadIdx.x; i < BLOCK_M * 16; i += blockDim.x) {
            const int slot = ids[i / 16];
            rows[i / 16][i % 16] =
                slot < num_slots ? x[static_cast<size_t>(slot / topk) * k + step + i % 16] : __float2half(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, &rows[0][0], 16);
        wmma::load_matrix_sync(b, matrix + static_cast<size_t>(step) * n + column, n);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(&sums[0][warp * 16], acc, 16 * WARPS, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < BLOCK_M * 16; i += 32) {
        const int slot = ids[i / 16];
        if (slot < num_slots)
            out[static_cast<size_t>(slot) * n + column + i % 16] = sums[i / 16][warp * 16 + i % 16] * topk_weights[slot];
    }
}
