#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;

__device__ __forceinline__ float act(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

// y = gelu(alpha * x * w^T + b), one 32x32 tile per block of two warps
__global__ void linear(const half* __restrict__ x, const half* __restrict__ w, const half* __restrict__ b,
                       half* __restrict__ y, int tokens, int width, int depth, float alpha) {
    __shared__ float tile[32][36];
    const int warp = threadIdx.x / 32;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[j], 0.0f);
    for (int k = 0; k < depth; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, x + (row0 + warp * 16) * depth + k, depth);
        for (int j = 0; j < 2; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
            wmma::load_matrix_sync(fb, w + (col0 + j * 16) * depth + k, depth);
            wmma::mma_sync(acc[j], fa, fb, acc[j]);
        }
    }
    for (int j = 0; j < 2; j++) wmma::store_matrix_sync(&tile[warp * 16][j * 16], acc[j], 36, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) {
        const int r = i / 32, c = i % 32;
        const float shift = __half2float(b[col0 + c]);
        const float v = act(alpha * tile[r][c] + shift);
        y[(row0 + r) * width + col0 + c] = __float2half(v);
    }
}
