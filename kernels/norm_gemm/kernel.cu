// D = LayerNorm(X; gamma, beta)·Wᵀ + bias: the rows are normalised into shared memory, then multiplied.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int ROWS = 16, WARPS = 2, MOST = 256;

__device__ float summed(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// A block has 16 rows and 32 columns: a warp normalises every second row, and multiplies for 16 of the columns.
extern "C" __global__ void layernorm_linear(const half* x, const half* gamma, const half* beta, const half* w,
                                            const half* bias, half* d, int m, int n, int k, float eps) {
    __shared__ __align__(32) half normed[ROWS][MOST];
    __shared__ __align__(32) float tile[WARPS][256];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = blockIdx.y * ROWS, col = (blockIdx.x * WARPS + warp) * 16;
    for (int r = warp; r < ROWS; r += WARPS) {
        const half* row = x + (first + r) * k;
        float sum = 0.0f, squares = 0.0f;
        for (int i = lane; i < k; i += 32) sum += __half2float(row[i]);
        const float mean = summed(sum) / k;
        for (int i = lane; i < k; i += 32) {
            const float apart = __half2float(row[i]) - mean;
            squares += apart * apart;
        }
        const float rstd = rsqrtf(summed(squares) / k + eps);
        for (int i = lane; i < k; i += 32) {
            const float value = (__half2float(row[i]) - mean) * rstd;
            normed[r][i] = __float2half(value * __half2float(gamma[i]) + __half2float(beta[i]));
        }
    }
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums;
    wmma::fill_fragment(sums, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(a, &normed[0][i], MOST);
        wmma::load_matrix_sync(b, w + col * k + i, k);
        wmma::mma_sync(sums, a, b, sums);
    }
    wmma::store_matrix_sync(tile[warp], sums, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
        const float value = tile[warp][i] + __half2float(bias[col + i % 16]);
        d[(first + i / 16) * n + col + i % 16] = __float2half(value);
    }
}
