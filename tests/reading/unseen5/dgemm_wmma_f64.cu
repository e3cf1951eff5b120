// Double precision tensor core GEMM, C = alpha * A * B + beta * C, row major A, column major B.
#include <mma.h>
#include <cuda_runtime.h>

#define WM 8
#define WN 8
#define WK 4
#define ROWS_PER_BLOCK 32   /* 4 warps, a row of tiles each */
#define COLS_PER_WARP 4     /* tiles */
#define SLAB 16

static __global__ void dgemm_kernel(const double *A, const double *B, double *C, int m_global, int n_global,
                                    int k_global, double alpha, double beta)
{
    using namespace nvcuda::wmma;
    __shared__ double shmem_a[ROWS_PER_BLOCK][SLAB + 4];
    __shared__ double shmem_b[WN * COLS_PER_WARP][SLAB + 4];

    const unsigned warpId = threadIdx.x / 32;
    const size_t block_i = (size_t)blockIdx.y * ROWS_PER_BLOCK;
    const size_t block_j = (size_t)blockIdx.x * WN * COLS_PER_WARP;

    fragment<accumulator, WM, WN, WK, double> c[COLS_PER_WARP];
    for (int j = 0; j < COLS_PER_WARP; j++) {
        load_matrix_sync(c[j], C + (block_i + warpId * WM) * n_global + block_j + j * WN, n_global, mem_row_major);
        for (int t = 0; t < c[j].num_elements; t++) {
            c[j].x[t] *= beta;
        }
    }

    for (int k0 = 0; k0 < k_global; k0 += SLAB) {
        for (int e = threadIdx.x; e < 32 * SLAB; e += blockDim.x) {
            int r = e / SLAB, q = e % SLAB;
            shmem_a[r][q] = alpha * A[(block_i + r) * k_global + k0 + q];
            shmem_b[r][q] = B[(block_j + r) * k_global + k0 + q];
        }
        __syncthreads();
        for (int kk = 0; kk < SLAB; kk += WK) {
            fragment<matrix_a, WM, WN, WK, double, row_major> a;
            load_matrix_sync(a, &shmem_a[warpId * WM][kk], SLAB + 4);
            for (int j = 0; j < COLS_PER_WARP; j++) {
                fragment<matrix_b, WM, WN, WK, double, col_major> b;
                load_matrix_sync(b, &shmem_b[j * WN][kk], SLAB + 4);
                mma_sync(c[j], a, b, c[j]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < COLS_PER_WARP; j++) {
        store_matrix_sync(C + (block_i + warpId * WM) * n_global + block_j + j * WN, c[j], n_global, mem_row_major);
    }
}

int dgemm_tc(int m, int n, int k, double alpha, const double *dA, const double *dB, double beta, double *dC)
{
    if (m % 32 || n % 32 || k % 16)
        return -1;
    dim3 grid;
    grid.x = n / (WN * COLS_PER_WARP);
    grid.y = m / ROWS_PER_BLOCK;
    dgemm_kernel<<<grid, 128>>>(dA, dB, dC, m, n, k, alpha, beta);
    return cudaGetLastError() == cudaSuccess ? 0 : -2;
}
