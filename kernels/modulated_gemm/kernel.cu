// The adaptive LayerNorm of a DiT block with the linear layer behind it: ((1 + scale)·norm(x) + shift)·Wᵀ + bias, scale and
// shift of each image.
//
// One warp per 16×16 tile of the result: it normalises its 16 rows once, a row at a time, into shared memory.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int MAX_DIM = 256;

__device__ float summed(float value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
    return value;
}

__global__ void modulated_linear(const half* __restrict__ x, const half* __restrict__ shift, const half* __restrict__ scale,
                                 const half* __restrict__ w, const float* __restrict__ bias, half* __restrict__ out,
                                 int tokens, int n, int k, float eps) {
    __shared__ __align__(32) half rows[16][MAX_DIM];
    __shared__ __align__(32) float tile[16][16];
    const int first = blockIdx.y * 16, col = blockIdx.x * 16, image = first / tokens;

    for (int row = 0; row < 16; ++row) {
        const half* from = x + (first + row) * k;
        float sum = 0.0f, squares = 0.0f;
        for (int i = threadIdx.x; i < k; i += 32) sum += __half2float(from[i]);
        const float mean = summed(sum) / k;
        for (int i = threadIdx.x; i < k; i += 32) {
            const float apart = __half2float(from[i]) - mean;
            squares += apart * apart;
        }
        const float rstd = rsqrtf(summed(squares) / k + eps);
        for (int i = threadIdx.x; i < k; i += 32) {
            const float value = (__half2float(from[i]) - mean) * rstd;
            const float factor = 1.0f + __half2float(scale[image * k + i]);
            rows[row][i] = __float2half(value * factor + __half2float(shift[image * k + i]));
        }
    }
    __syncwarp();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
        wmma::load_matrix_sync(left, &rows[0][i], MAX_DIM);
        wmma::load_matrix_sync(right, w + col * k + i, k);
        wmma::mma_sync(acc, left, right, acc);
    }
    wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        out[(first + i / 16) * n + col + i % 16] = __float2half(tile[i / 16][i % 16] + bias[col + i % 16]);
}
