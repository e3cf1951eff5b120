// out = relu(sx[row] * sw[col] * (x · wᵀ) + shift[col]) of bytes; one warp per 16×16 tile, results staged per warp
#include <mma.h>
#include <cstdint>

__global__ void __launch_bounds__(128) dequantised(const int8_t* x, const int8_t* w, const float* sx, const float* sw,
                                                   const float* shift, float* out, int rows, int cols, int k)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(32) int stage[4][256];
    __shared__ float cached[64];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int row = blockIdx.x * 16, col = blockIdx.y * 64 + warp * 16;
    if (threadIdx.x < 64) cached[threadIdx.x] = shift[blockIdx.y * 64 + threadIdx.x];
    __syncthreads();

    fragment<accumulator, 16, 16, 16, int> sum;
    fill_fragment(sum, 0);
    for (int at = 0; at < k; at += 16) {
        fragment<matrix_a, 16, 16, 16, signed char, row_major> fx;
        fragment<matrix_b, 16, 16, 16, signed char, col_major> fw;
        load_matrix_sync(fx, reinterpret_cast<const signed char*>(x) + row * k + at, k);
        load_matrix_sync(fw, reinterpret_cast<const signed char*>(w) + col * k + at, k);
        mma_sync(sum, fx, fw, sum);
    }
    store_matrix_sync(stage[warp], sum, 16, mem_row_major);
    __syncwarp();
#pragma unroll
    for (int e = lane; e < 256; e += 32) {
        const int i = e >> 4, j = e & 15;
        const float scale = sx[row + i] * sw[col + j];
        float value = static_cast<float>(stage[warp][e]) * scale;
        value += cached[warp * 16 + j];
        out[(row + i) * cols + col + j] = fmaxf(value, 0.f);
    }
}
