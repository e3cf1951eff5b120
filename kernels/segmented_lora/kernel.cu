// LoRA for a batch of many adapters: the rows of segment s get the update of adapter ids[s], none where that is below 0.
//
// blockIdx.y is the segment, blockIdx.x a tile of 16 rows counted from its first; one warp. The narrow product of the rows
// with A goes through shared memory in half, and meets B 16 columns at a time.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int RANK = 16;

__global__ void sgmv(half* __restrict__ y, const half* __restrict__ x, const half* __restrict__ lora_a,
                     const half* __restrict__ lora_b, const int* __restrict__ starts, const int* __restrict__ ids,
                     int d_in, int d_out, int layer, int num_layers, float scale) {
    __shared__ __align__(32) half rows[16][16], middle[16][RANK];
    __shared__ __align__(32) float tile[16][16];
    const int adapter = ids[blockIdx.y], end = starts[blockIdx.y + 1];
    const int first = starts[blockIdx.y] + blockIdx.x * 16;
    if (adapter < 0 || first >= end) return;
    const half* a = lora_a + (adapter * num_layers + layer) * RANK * d_in;
    const half* b = lora_b + (adapter * num_layers + layer) * d_out * RANK;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < d_in; k += 16) {
        for (int i = threadIdx.x; i < 256; i += 32)
            rows[i / 16][i % 16] = first + i / 16 < end ? x[(first + i / 16) * d_in + k + i % 16] : __float2half(0.0f);
        __syncwarp();
        wmma::load_matrix_sync(left, &rows[0][0], 16);
        wmma::load_matrix_sync(right, a + k, d_in);
        wmma::mma_sync(acc, left, right, acc);
        __syncwarp();
    }
    wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) middle[i / 16][i % 16] = __float2half(tile[i / 16][i % 16]);
    __syncwarp();

    wmma::load_matrix_sync(left, &middle[0][0], RANK);
    for (int col = 0; col < d_out; col += 16) {
        wmma::fill_fragment(acc, 0.0f);
        wmma::load_matrix_sync(right, b + col * RANK, RANK);
        wmma::mma_sync(acc, left, right, acc);
        wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
        __syncwarp();
        for (int i = threadIdx.x; i < 256; i += 32) {
            half* to = y + (first + i / 16) * d_out + col + i % 16;
            if (first + i / 16 < end) *to = __float2half(__half2float(*to) + scale * tile[i / 16][i % 16]);
        }
        __syncwarp();
    }
}
