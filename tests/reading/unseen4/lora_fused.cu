// y = x @ W^T + scaling * (x @ A^T) @ B^T, rank 16 adapter.
#include <cuda_bf16.h>
#include <mma.h>

#define RANK 16
#define TILE_ROWS 16
#define TILE_COLS 64

using bf16_t = __nv_bfloat16;

__global__ void lora_linear_fwd(const bf16_t *__restrict__ x, const bf16_t *__restrict__ W,
                                const bf16_t *__restrict__ lora_A, const bf16_t *__restrict__ lora_B,
                                float *__restrict__ y, int tokens, int d_in, int d_out, float scaling) {
    using namespace nvcuda::wmma;
    __shared__ float xa[TILE_ROWS * RANK];
    __shared__ bf16_t xa_b[TILE_ROWS * RANK];
    const int warp = threadIdx.x / 32;
    const int t0 = blockIdx.x * TILE_ROWS;
    const int n0 = blockIdx.y * TILE_COLS + warp * 16;

    fragment<matrix_a, 16, 16, 16, bf16_t, row_major> fx;
    fragment<matrix_b, 16, 16, 16, bf16_t, col_major> fw;
    fragment<accumulator, 16, 16, 16, float> acc, low;
    fill_fragment(acc, 0.f);
    fill_fragment(low, 0.f);
    for (int k = 0; k < d_in; k += 16) {
        load_matrix_sync(fx, x + (size_t)t0 * d_in + k, d_in);
        load_matrix_sync(fw, W + (size_t)n0 * d_in + k, d_in);
        mma_sync(acc, fx, fw, acc);
        if (warp == 0) {
            load_matrix_sync(fw, lora_A + k, d_in);
            mma_sync(low, fx, fw, low);
        }
    }
    if (warp == 0) store_matrix_sync(xa, low, RANK, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_ROWS * RANK; i += blockDim.x) xa_b[i] = __float2bfloat16(xa[i] * scaling);
    __syncthreads();
    load_matrix_sync(fx, xa_b, RANK);
    load_matrix_sync(fw, lora_B + (size_t)n0 * RANK, RANK);
    mma_sync(acc, fx, fw, acc);
    store_matrix_sync(y + (size_t)t0 * d_out + n0, acc, d_out, mem_row_major);
}

void lora_linear(const bf16_t *x, const bf16_t *W, const bf16_t *A, const bf16_t *B, float *y, int tokens, int d_in,
                 int d_out, float lora_alpha, cudaStream_t s) {
    dim3 grid(tokens / TILE_ROWS, d_out / TILE_COLS);
    lora_linear_fwd<<<grid, 128, 0, s>>>(x, W, A, B, y, tokens, d_in, d_out, lora_alpha / RANK);
}
