// Grouped GEMM, as a mixture of experts has it: rows starts[g] to starts[g + 1] of A are multiplied by B[g].
//
// blockIdx.z is the group, blockIdx.y a tile of 16 rows counted from the group's first; blocks behind its end leave at
// once. A tile may reach over the group's end into the next one's rows, which are staged as zeros and not stored.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void grouped_gemm(const half* __restrict__ a, const half* __restrict__ b, const int* __restrict__ starts,
                             float* __restrict__ d, int n, int k) {
    __shared__ __align__(32) half rows[16][16 + 8];
    __shared__ __align__(32) float tile[16][16];
    const int group = blockIdx.z, col = blockIdx.x * 16;
    const int first = starts[group] + blockIdx.y * 16, end = starts[group + 1];
    if (first >= end) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int depth = 0; depth < k; depth += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            const int row = first + i / 16;
            rows[i / 16][i % 16] = row < end ? a[row * k + depth + i % 16] : __float2half(0.0f);
        }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
        wmma::load_matrix_sync(left, &rows[0][0], 16 + 8);
        wmma::load_matrix_sync(right, b + (group * k + depth) * n + col, n);
        wmma::mma_sync(acc, left, right, acc);
        __syncwarp();
    }

    wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        if (first + i / 16 < end) d[(first + i / 16) * n + col + i % 16] = tile[i / 16][i % 16];
}
