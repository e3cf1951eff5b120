// S = Q * K^T * scale for every head, no shared memory at all: 8 warps per block, each one 16x16 tile.
// Seq must be a multiple of 16, head_dim a multiple of 16.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdlib.h>

#define TILE 16

extern "C" __global__ void qk_scores(const __half *q_ptr, const __half *k_ptr, float *s_ptr,
                                     unsigned q_len, unsigned k_len, unsigned head_dim, float scale)
{
    using namespace nvcuda::wmma;
    unsigned warp = threadIdx.x / 32;
    unsigned tiles_k = k_len / TILE;
    unsigned tile = blockIdx.x * (blockDim.x / 32) + warp;
    unsigned tq = tile / tiles_k, tk = tile % tiles_k;
    if (tq >= q_len / TILE) return;

    const __half *q = q_ptr + (blockIdx.y * q_len + tq * TILE) * head_dim;
    const __half *k = k_ptr + (blockIdx.y * k_len + tk * TILE) * head_dim;
    float *s = s_ptr + (blockIdx.y * q_len + tq * TILE) * k_len + tk * TILE;

    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);
    for (unsigned d = 0; d < head_dim; d += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> fq;
        fragment<matrix_b, 16, 16, 16, __half, col_major> fk;
        load_matrix_sync(fq, k + d, head_dim);
        load_matrix_sync(fk, q + d, head_dim);
        mma_sync(acc, fq, fk, acc);
    }
#pragma unroll
    for (int i = 0; i < acc.num_elements; ++i) acc.x[i] *= scale;
    store_matrix_sync(s, acc, k_len, mem_row_major);
}
