// A linear layer of bytes: scales and zero points of each row, scales of each column, a bias.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 16;

__global__ void w8a8_gemm(const signed char* x, const signed char* weight, const float* x_scale, const int* x_zp,
                          const float* w_scale, const int* w_sum, const half* bias, half* y, int m, int n, int k) {
    __shared__ __align__(32) int sums[TILE * TILE];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    wmma::fragment<wmma::accumulator, TILE, TILE, TILE, int> total;
    wmma::fill_fragment(total, 0);
    for (int i = 0; i < k; i += TILE) {
        wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, signed char, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, signed char, wmma::col_major> b;
        wmma::load_matrix_sync(a, x + (size_t)row * k + i, k);
        wmma::load_matrix_sync(b, weight + (size_t)col * k + i, k);
        wmma::mma_sync(total, a, b, total);
    }
    wmma::store_matrix_sync(sums, total, TILE, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < TILE * TILE; i += 32) {
        const int r = row + i / TILE, c = col + i % TILE;
        const int sum = sums[i] - x_zp[r] * w_sum[c];
        y[(size_t)r * n + c] = __float2half(sum * x_scale[r] * w_scale[c] + __half2float(bias[c]));
    }
}
