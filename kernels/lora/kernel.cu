// A linear layer with its low-rank update: Y = X·Wᵀ + scaling · (X·Aᵀ)·Bᵀ + bias, rank 16.
//
// One warp per 16×16 tile of Y. It multiplies its rows of X with a tile of W and with all of A at once; the narrow product
// goes through shared memory, scaled and in half, and meets the tile's rows of B in the same accumulator.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int RANK = 16;

__global__ void lora_linear(const half* __restrict__ x, const half* __restrict__ w, const half* __restrict__ lora_a,
                            const half* __restrict__ lora_b, const float* __restrict__ bias, half* __restrict__ y, int m,
                            int n, int k, float scaling) {
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> wide, narrow;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fill_fragment(wide, 0.0f);
    wmma::fill_fragment(narrow, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(left, x + row * k + i, k);
        wmma::load_matrix_sync(right, w + col * k + i, k);
        wmma::mma_sync(wide, left, right, wide);
        wmma::load_matrix_sync(right, lora_a + i, k);
        wmma::mma_sync(narrow, left, right, narrow);
    }

    __shared__ __align__(32) float tile[16][16];
    __shared__ __align__(32) half middle[16][RANK];
    wmma::store_matrix_sync(&tile[0][0], narrow, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) middle[i / 16][i % 16] = __float2half(scaling * tile[i / 16][i % 16]);
    __syncwarp();
    wmma::load_matrix_sync(left, &middle[0][0], RANK);
    wmma::load_matrix_sync(right, lora_b + col * RANK, RANK);
    wmma::mma_sync(wide, left, right, wide);

    wmma::store_matrix_sync(&tile[0][0], wide, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        y[(row + i / 16) * n + col + i % 16] = __float2half(tile[i / 16][i % 16] + bias[col + i % 16]);
}
