// D = alpha * A * B + beta * C with everything sized by macros, as a sample program does it.
#include <assert.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#ifndef CPU_CHECK
#define CPU_CHECK 0
#endif

#define TILES_M 64
#define TILES_N 64
#define TILES_K 64
#define T 16

#define TOTAL_M (T * TILES_M)
#define TOTAL_N (T * TILES_N)
#define TOTAL_K (T * TILES_K)

#define WARPS 8
#define BLOCK_TILES_ROW 4
#define BLOCK_TILES_COL 4
#define CHUNK_TILES 4
#define SKEW 16
#define LINE (CHUNK_TILES * T + SKEW)

#define checkKernelErrors(expr)                                                        \
  do {                                                                                 \
    expr;                                                                              \
    cudaError_t e_ = cudaGetLastError();                                               \
    if (e_ != cudaSuccess) {                                                           \
      printf("Line %d: '%s' failed: %s\n", __LINE__, #expr, cudaGetErrorString(e_));   \
      abort();                                                                         \
    }                                                                                  \
  } while (0)

using namespace nvcuda;

__global__ void gemm_fixed(const half *A, const half *B, const float *C, float *D, float alpha, float beta)
{
    extern __shared__ half buf[][LINE];  // 64 lines of A, then 64 lines of B (which is stored column by column)
    const unsigned warpId = threadIdx.x / 32;
    const unsigned rows = BLOCK_TILES_ROW * T, cols = BLOCK_TILES_COL * T;
    const unsigned blocks_across = TILES_N / BLOCK_TILES_COL;
    const unsigned total = (TILES_M / BLOCK_TILES_ROW) * blocks_across;

    for (unsigned pos = blockIdx.x; pos < total; pos += gridDim.x) {
        const size_t row0 = (pos / blocks_across) * rows, col0 = (pos % blocks_across) * cols;
        wmma::fragment<wmma::accumulator, T, T, T, float> acc[2];
        const unsigned tr = warpId / 2, tc = warpId % 2 * 2;

        for (int j = 0; j < 2; j++) {
            wmma::load_matrix_sync(acc[j], C + (row0 + tr * T) * TOTAL_N + col0 + (tc + j) * T, TOTAL_N, wmma::mem_row_major);
            for (int e = 0; e < acc[j].num_elements; e++) acc[j].x[e] *= beta / alpha;
        }

        for (int tk = 0; tk < TILES_K; tk += CHUNK_TILES) {
            __syncthreads();
            // 128 lines of 64 halves, an int4 at a time
            for (unsigned i = threadIdx.x; i < 128 * 8; i += WARPS * 32) {
                const unsigned line = i / 8, piece = i % 8 * 8;
                const half *src = line < 64 ? A + (row0 + line) * TOTAL_K : B + (col0 + line - 64) * TOTAL_K;
                *(int4 *)&buf[line][piece] = *(const int4 *)(src + tk * T + piece);
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < CHUNK_TILES; k++) {
                wmma::fragment<wmma::matrix_a, T, T, T, half, wmma::row_major> a;
                wmma::load_matrix_sync(a, &buf[tr * T][k * T], LINE);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    wmma::fragment<wmma::matrix_b, T, T, T, half, wmma::col_major> b;
                    wmma::load_matrix_sync(b, &buf[64 + (tc + j) * T][k * T], LINE);
                    wmma::mma_sync(acc[j], a, b, acc[j]);
                }
            }
        }
        for (int j = 0; j < 2; j++) {
            for (int e = 0; e < acc[j].num_elements; e++) acc[j].x[e] *= alpha;
            wmma::store_matrix_sync(D + (row0 + tr * T) * TOTAL_N + col0 + (tc + j) * T, acc[j], TOTAL_N, wmma::mem_row_major);
        }
    }
}

void init_host_matrices(half *a, half *b, float *c)
{
    for (int i = 0; i < TOTAL_M * TOTAL_K; i++) a[i] = (half)(float)(rand() % 3);
    for (int i = 0; i < TOTAL_N * TOTAL_K; i++) b[i] = (half)(float)(rand() % 3);
    for (int i = 0; i < TOTAL_M * TOTAL_N; i++) c[i] = (float)(rand() % 3);
}

int main(int argc, char **argv)
{
    printf("Initializing... M: %d N: %d K: %d\n", TOTAL_M, TOTAL_N, TOTAL_K);
    cudaDeviceProp prop;
    cudaGetDeviceProperties(&prop, 0);
    if (prop.major < 7) {
        printf("needs compute capability 7.0 or higher\n");
        exit(2);
    }
    half *A_h = (half *)malloc(sizeof(half) * TOTAL_M * TOTAL_K), *B_h = (half *)malloc(sizeof(half) * TOTAL_K * TOTAL_N);
    float *C_h = (float *)malloc(sizeof(float) * TOTAL_M * TOTAL_N);
    half *A, *B;
    float *C, *D;
    cudaMalloc((void **)&A, sizeof(half) * TOTAL_M * TOTAL_K);
    cudaMalloc((void **)&B, sizeof(half) * TOTAL_N * TOTAL_K);
    cudaMalloc((void **)&C, sizeof(float) * TOTAL_M * TOTAL_N);
    cudaMalloc((void **)&D, sizeof(float) * TOTAL_M * TOTAL_N);
    init_host_matrices(A_h, B_h, C_h);
    cudaMemcpy(A, A_h, sizeof(half) * TOTAL_M * TOTAL_K, cudaMemcpyHostToDevice);
    cudaMemcpy(B, B_h, sizeof(half) * TOTAL_N * TOTAL_K, cudaMemcpyHostToDevice);
    cudaMemcpy(C, C_h, sizeof(float) * TOTAL_M * TOTAL_N, cudaMemcpyHostToDevice);
    cudaMemset(D, 0, sizeof(float) * TOTAL_M * TOTAL_N);

    const float alpha = 1.1f;
    const float beta = 1.2f;
    const int shared = 128 * LINE * sizeof(half);
    checkKernelErrors(cudaFuncSetAttribute(gemm_fixed, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    checkKernelErrors((gemm_fixed<<<prop.multiProcessorCount, WARPS * 32, shared>>>(A, B, C, D, alpha, beta)));
    cudaDeviceSynchronize();

#if CPU_CHECK
    float *got = (float *)malloc(sizeof(float) * TOTAL_M * TOTAL_N);
    cudaMemcpy(got, D, sizeof(float) * TOTAL_M * TOTAL_N, cudaMemcpyDeviceToHost);
    for (int i = 0; i < TOTAL_M; i++)
        for (int j = 0; j < TOTAL_N; j++) {
            float sum = 0;
            for (int k = 0; k < TOTAL_K; k++) sum += (float)A_h[i * TOTAL_K + k] * (float)B_h[j * TOTAL_K + k];
            float want = alpha * sum + beta * C_h[i * TOTAL_N + j];
            if (fabs(want - got[i * TOTAL_N + j]) > 0.1f) printf("mismatch i=%d j=%d\n", i, j);
        }
    free(got);
#endif
    cudaFree(A); cudaFree(B); cudaFree(C); cudaFree(D);
    free(A_h); free(B_h); free(C_h);
    return 0;
}
