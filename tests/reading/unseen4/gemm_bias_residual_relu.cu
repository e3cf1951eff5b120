// out = relu(x @ w + b + residual)   (the projection of a residual block)
#include <cuda_fp16.h>
#include <mma.h>

constexpr int BLOCK_ROWS = 64, BLOCK_COLS = 32, WARPS = 4, STEP = 16;

__global__ void proj_residual_relu(const half *__restrict__ x, const half *__restrict__ w, const float *__restrict__ b,
                                   const half *__restrict__ residual, half *__restrict__ out, int rows, int cols,
                                   int inner) {
    using namespace nvcuda;
    __shared__ float stage[WARPS][16 * 16];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int r0 = blockIdx.x * BLOCK_ROWS + warp * 16;
    const int c0 = blockIdx.y * BLOCK_COLS;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BLOCK_COLS / 16];
    for (auto &f : acc) wmma::fill_fragment(f, 0.f);
    for (int k = 0; k < inner; k += STEP) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, x + r0 * inner + k, inner);
#pragma unroll
        for (int j = 0; j < BLOCK_COLS / 16; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
            wmma::load_matrix_sync(fb, w + k * cols + c0 + j * 16, cols);
            wmma::mma_sync(acc[j], fa, fb, acc[j]);
        }
    }
    for (int j = 0; j < BLOCK_COLS / 16; j++) {
        wmma::store_matrix_sync(stage[warp], acc[j], 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            int r = r0 + e / 16, c = c0 + j * 16 + e % 16;
            float v = stage[warp][e] + b[c] + __half2float(residual[r * cols + c]);
            out[r * cols + c] = __float2half(fmaxf(v, 0.f));
        }
        __syncwarp();
    }
}

void launch_proj(const half *x, const half *w, const float *b, const half *residual, half *out, int rows, int cols,
                 int inner, cudaStream_t st) {
    dim3 g(rows / BLOCK_ROWS, cols / BLOCK_COLS);
    proj_residual_relu<<<g, WARPS * 32, 0, st>>>(x, w, b, residual, out, rows, cols, inner);
}
