/*
 * Tensor core GEMM for Volta, after the cudaTensorCoreGemm sample, made to serve a linear layer:
 *
 *     D = alpha * A * B + beta * C + bias        A: M x K, row major    (half)
 *                                                B: K x N, column major (half), i.e. the weight as [N, K]
 *                                                C, D: M x N, row major (float), bias: N (float)
 *
 * A CTA computes tiles of 64 x 128 elements, one after another (the grid may be smaller than the number of tiles).
 * Each of its 8 warps computes 2 x 2 WMMA tiles. A tile of C is streamed through shared memory to have coalesced
 * loads and stores; the same memory then holds slices of A and B, rows of which are shifted by SKEW_HALF
 * elements to lessen bank conflicts of load_matrix_sync.
 *
 * M must be a multiple of 64, N of 128 and K of 32.
 */
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;

#define WARP_SIZE 32

// MMA matrix tile dimensions.
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

// Implementation constants.
#define BLOCK_ROW_WARPS 4   // warps along N
#define BLOCK_COL_WARPS 2   // warps along M
#define WARP_ROW_TILES 2    // WMMA tiles of a warp along N
#define WARP_COL_TILES 2    // WMMA tiles of a warp along M
#define WARPS_PER_BLOCK (BLOCK_ROW_WARPS * BLOCK_COL_WARPS)
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)

#define BLOCK_M (WMMA_M * WARP_COL_TILES * BLOCK_COL_WARPS)  // 64
#define BLOCK_N (WMMA_N * WARP_ROW_TILES * BLOCK_ROW_WARPS)  // 128

#define CHUNK_K 2
#define CHUNK_COLS (CHUNK_K * WMMA_K)                        // 32 halfs of a row
#define CHUNK_LANES (CHUNK_COLS * sizeof(half) / sizeof(int4))  // lanes that copy a row: 4
#define CHUNK_ROWS_PER_ITER (THREADS_PER_BLOCK / CHUNK_LANES)   // 64
#define SKEW_HALF 8
#define SHMEM_LD (CHUNK_COLS + SKEW_HALF)

#define SHMEM_C_LD BLOCK_N
#define C_LANES (BLOCK_N / 4)                                // lanes that copy a row of C as float4: 32
#define C_ROWS_PER_ITER (THREADS_PER_BLOCK / C_LANES)        // 8

__global__ void __launch_bounds__(THREADS_PER_BLOCK)
compute_linear(const half *A, const half *B, const float *C, const float *bias, float *D, int m_global, int n_global,
               int k_global, float alpha, float beta)
{
    extern __shared__ __align__(32) unsigned char shmem_raw[];
    float *shmem_c = (float *)shmem_raw;
    half *shmem_a = (half *)shmem_raw;
    half *shmem_b = shmem_a + BLOCK_M * SHMEM_LD;

    const unsigned int warpId = threadIdx.x / WARP_SIZE;
    const unsigned int warpM = (warpId / BLOCK_ROW_WARPS) * WARP_COL_TILES * WMMA_M;
    const unsigned int warpN = (warpId % BLOCK_ROW_WARPS) * WARP_ROW_TILES * WMMA_N;

    // Where this thread copies from and to: rows of C, and rows of a slice of A or B.
    const unsigned int cRow = threadIdx.x / C_LANES, cCol = (threadIdx.x % C_LANES) * 4;
    const unsigned int abRow = threadIdx.x / CHUNK_LANES, abCol = (threadIdx.x % CHUNK_LANES) * 8;

    const unsigned int tiles_n = n_global / BLOCK_N;
    const unsigned int tiles = (m_global / BLOCK_M) * tiles_n;

    // C is multiplied by beta when it is loaded; so that alpha may be applied to everything at the end, divide.
    beta /= alpha;

    for (unsigned int block_pos = blockIdx.x; block_pos < tiles; block_pos += gridDim.x) {
        const unsigned int block_tile_i = (block_pos / tiles_n) * BLOCK_M;
        const unsigned int block_tile_j = (block_pos % tiles_n) * BLOCK_N;

        // Stream the tile of C into shared memory.
        for (unsigned int r = cRow; r < BLOCK_M; r += C_ROWS_PER_ITER) {
            *(float4 *)&shmem_c[r * SHMEM_C_LD + cCol] =
                *(const float4 *)&C[(size_t)(block_tile_i + r) * n_global + block_tile_j + cCol];
        }
        __syncthreads();

        // These fragments accumulate the result of A and B multiplied along the K dimension.
        wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c[WARP_COL_TILES][WARP_ROW_TILES];
        for (int i = 0; i < WARP_COL_TILES; i++) {
            for (int j = 0; j < WARP_ROW_TILES; j++) {
                const float *tile_ptr = shmem_c + (warpM + i * WMMA_M) * SHMEM_C_LD + warpN + j * WMMA_N;
                wmma::load_matrix_sync(c[i][j], tile_ptr, SHMEM_C_LD, wmma::mem_row_major);
#pragma unroll
                for (int t = 0; t < c[i][j].num_elements; t++) c[i][j].x[t] *= beta;
            }
        }
        __syncthreads();

        // Go through the global K dimension by slices of CHUNK_COLS.
        for (int tile_k = 0; tile_k < k_global; tile_k += CHUNK_COLS) {
            for (unsigned int r = abRow; r < BLOCK_M; r += CHUNK_ROWS_PER_ITER) {
                *(int4 *)&shmem_a[r * SHMEM_LD + abCol] =
                    *(const int4 *)&A[(size_t)(block_tile_i + r) * k_global + tile_k + abCol];
            }
            for (unsigned int r = abRow; r < BLOCK_N; r += CHUNK_ROWS_PER_ITER) {
                *(int4 *)&shmem_b[r * SHMEM_LD + abCol] =
                    *(const int4 *)&B[(size_t)(block_tile_j + r) * k_global + tile_k + abCol];
            }
            __syncthreads();

#pragma unroll
            for (int k_step = 0; k_step < CHUNK_K; k_step++) {
                wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a[WARP_COL_TILES];
                wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b[WARP_ROW_TILES];
                for (int i = 0; i < WARP_COL_TILES; i++) {
                    const half *a_ptr = shmem_a + (warpM + i * WMMA_M) * SHMEM_LD + k_step * WMMA_K;
                    wmma::load_matrix_sync(a[i], a_ptr, SHMEM_LD);
                    for (int j = 0; j < WARP_ROW_TILES; j++) {
                        if (i == 0) {
                            // Load the B fragment once, it is going to be reused against the other A fragments.
                            const half *b_ptr = shmem_b + (warpN + j * WMMA_N) * SHMEM_LD + k_step * WMMA_K;
                            wmma::load_matrix_sync(b[j], b_ptr, SHMEM_LD);
                        }
                        wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
                    }
                }
            }
            __syncthreads();
        }

        // Store the D fragments to shared memory.
        for (int i = 0; i < WARP_COL_TILES; i++) {
            for (int j = 0; j < WARP_ROW_TILES; j++) {
#pragma unroll
                for (int t = 0; t < c[i][j].num_elements; t++) c[i][j].x[t] *= alpha;
                float *tile_ptr = shmem_c + (warpM + i * WMMA_M) * SHMEM_C_LD + warpN + j * WMMA_N;
                wmma::store_matrix_sync(tile_ptr, c[i][j], SHMEM_C_LD, wmma::mem_row_major);
            }
        }
        __syncthreads();

        // Now that shared memory contains all the D tiles, add the bias and stream them to global memory.
        const float4 bias4 = *(const float4 *)&bias[block_tile_j + cCol];
        for (unsigned int r = cRow; r < BLOCK_M; r += C_ROWS_PER_ITER) {
            float4 v = *(float4 *)&shmem_c[r * SHMEM_C_LD + cCol];
            v.x += bias4.x;
            v.y += bias4.y;
            v.z += bias4.z;
            v.w += bias4.w;
            *(float4 *)&D[(size_t)(block_tile_i + r) * n_global + block_tile_j + cCol] = v;
        }
        __syncthreads();
    }
}

void launch_linear(const half *A, const half *B, const float *C, const float *bias, float *D, int M, int N, int K,
                   float alpha, float beta, int sms)
{
    const size_t shmem = BLOCK_M * BLOCK_N * sizeof(float);
    const int tiles = (M / BLOCK_M) * (N / BLOCK_N);
    compute_linear<<<tiles < sms ? tiles : sms, THREADS_PER_BLOCK, shmem>>>(A, B, C, bias, D, M, N, K, alpha, beta);
}
