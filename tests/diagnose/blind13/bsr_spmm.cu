/* SpMM:  C (m x n) = A (m x k, BSR with 32 x 32 blocks) * B (k x n)
 *
 * A is stored as in cuSPARSE/scipy: row_ptr[mb + 1], col_ind[nnzb], val[nnzb][32][32] (rows within the block).
 * Each thread block does one block row times 64 columns; two warps down, two across.                           */
#include <stdio.h>
#include <cuda_fp16.h>
#include <mma.h>

#define BS      32
#define NTILE   64
#define B_LD    (NTILE + 8)
#define A_LD    (BS + 8)

__global__ void bsr_spmm_kernel(int mb, int n,
                                const int *row_ptr, const int *col_ind, const __half *val,
                                const __half *B, int ldb,
                                float *C, int ldc)
{
    using namespace nvcuda::wmma;

    __shared__ __align__(32) __half a_sh[BS * A_LD];
    __shared__ __align__(32) __half b_sh[BS * B_LD];
    __shared__ __align__(32) float  c_sh[BS * B_LD];

    const int tx = threadIdx.x, ty = threadIdx.y;      /* 32 x 4 */
    const int brow = blockIdx.y;
    const int ncol = blockIdx.x * NTILE;
    if (brow >= mb) return;

    const int i0 = (ty >> 1) * 16;
    const int j0 = (ty & 1) * 32;

    fragment<accumulator, 16, 16, 16, float> acc0, acc1;
    fill_fragment(acc0, 0.0f);
    fill_fragment(acc1, 0.0f);

    const int begin = row_ptr[brow];
    const int end   = row_ptr[brow + 1];

    for (int idx = begin; idx < end; idx++) {
        const int bcol = col_ind[idx];
        const __half *blk = val + (size_t)idx * BS * BS;

        for (int r = ty; r < BS; r += 4)
            a_sh[r * A_LD + tx] = blk[r * BS + tx];

        for (int r = ty; r < BS; r += 4) {
            const __half *src = B + (size_t)(bcol * BS + r) * ldb + ncol;
            for (int c = tx; c < NTILE; c += 32)
                b_sh[r * B_LD + c] = (ncol + c < n) ? src[c] : __float2half(0.0f);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < BS; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> a;
            fragment<matrix_b, 16, 16, 16, __half, row_major> b0, b1;
            load_matrix_sync(a, a_sh + i0 * A_LD + kk, A_LD);
            load_matrix_sync(b0, b_sh + kk * B_LD + j0, B_LD);
            load_matrix_sync(b1, b_sh + kk * B_LD + j0 + 16, B_LD);
            mma_sync(acc0, a, b0, acc0);
            mma_sync(acc1, a, b1, acc1);
        }
        __syncthreads();
    }

    store_matrix_sync(c_sh + i0 * B_LD + j0, acc0, B_LD, mem_row_major);
    store_matrix_sync(c_sh + i0 * B_LD + j0 + 16, acc1, B_LD, mem_row_major);
    __syncthreads();

    for (int r = ty; r < BS; r += 4)
        for (int c = tx; c < NTILE; c += 32)
            if (ncol + c < n)
                C[(size_t)(brow * BS + r) * ldc + ncol + c] = c_sh[r * B_LD + c];
}

#ifdef BSR_SPMM_HOST
void bsr_spmm(int mb, int n, const int *row_ptr, const int *col_ind, const __half *val,
              const __half *B, int ldb, float *C, int ldc, cudaStream_t stream)
{
    dim3 grid((n + NTILE - 1) / NTILE, mb), block(32, 4);
    bsr_spmm_kernel<<<grid, block, 0, stream>>>(mb, n, row_ptr, col_ind, val, B, ldb, C, ldc);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) fprintf(stderr, "bsr_spmm: %s\n", cudaGetErrorString(err));
}
#endif
