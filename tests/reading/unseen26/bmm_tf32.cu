/*
 * CS 759 - High Performance Computing, homework 7, problem 2
 *
 * Batched matrix product with a transposed right operand, on the tensor cores in TF32:
 *
 *      D[b] = alpha * A[b] * B[b]^T + beta * C[b]
 *
 * A[b] is M x K, B[b] is N x K, C[b] and D[b] are M x N. Everything is float and row major,
 * the matrices of a batch follow each other in memory without gaps.
 * M, N and K do NOT have to be multiples of the tile size (the tiles are padded with zeros).
 *
 * compile:  nvcc -arch=sm_80 -O2 bmm_tf32.cu -o bmm_tf32
 * run:      ./bmm_tf32
 */
#include <cuda_runtime.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

#define TILE 32       /* the block computes TILE x TILE outputs */
#define KSTEP 16      /* depth of the tiles in shared memory */
#define LD_IN 20      /* KSTEP + 4, against bank conflicts */
#define LD_OUT 36     /* TILE + 4 */
#define NTHREADS 128  /* four warps, each one computes 16 x 16 */

__global__ void bmm_tf32_kernel(const float *A, const float *B, const float *C, float *D,
                                int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) float As[TILE][LD_IN];
    __shared__ __align__(32) float Bs[TILE][LD_IN];
    __shared__ __align__(32) float Ds[TILE][LD_OUT];

    // go to the matrices of this batch
    const size_t batch = blockIdx.z;
    A += batch * M * K;
    B += batch * N * K;
    C += batch * M * N;
    D += batch * M * N;

    const int row0 = blockIdx.y * TILE;
    const int col0 = blockIdx.x * TILE;
    const int warp = threadIdx.x / 32;
    const int wrow = (warp / 2) * 16;
    const int wcol = (warp % 2) * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < K; k0 += KSTEP) {
        // 32 x 16 elements per tile = 4 per thread
        for (int i = threadIdx.x; i < TILE * KSTEP; i += NTHREADS) {
            int r = i / KSTEP;
            int c = i % KSTEP;
            As[r][c] = (row0 + r < M && k0 + c < K) ? A[(size_t)(row0 + r) * K + k0 + c] : 0.0f;
            Bs[r][c] = (col0 + r < N && k0 + c < K) ? B[(size_t)(col0 + r) * K + k0 + c] : 0.0f;
        }
        __syncthreads();

        for (int kk = 0; kk < KSTEP; kk += 8) {
            wmma::load_matrix_sync(fa, &As[wrow][kk], LD_IN);
            wmma::load_matrix_sync(fb, &Bs[wcol][kk], LD_IN);
            // the inputs have to be rounded to tf32 by hand (see the programming guide)
            for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
            for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&Ds[wrow][wcol], acc, LD_OUT, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE * TILE; i += NTHREADS) {
        int r = i / TILE;
        int c = i % TILE;
        if (row0 + r < M && col0 + c < N) {
            size_t o = (size_t)(row0 + r) * N + col0 + c;
            D[o] = alpha * Ds[r][c] + beta * C[o];
        }
    }
}

// reference, one core, no tricks
static void bmm_cpu(const float *A, const float *B, const float *C, float *D,
                    int batches, int M, int N, int K, float alpha, float beta)
{
    for (int b = 0; b < batches; b++)
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                double sum = 0;
                for (int k = 0; k < K; k++)
                    sum += (double)A[((size_t)b * M + m) * K + k] * B[((size_t)b * N + n) * K + k];
                size_t o = ((size_t)b * M + m) * N + n;
                D[o] = (float)(alpha * sum + beta * C[o]);
            }
}

static void randomize(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = 2.0f * rand() / (float)RAND_MAX - 1.0f;
}

int main(void)
{
    const int batches = 5, M = 200, N = 136, K = 90;
    const float alpha = 0.75f, beta = -0.5f;

    size_t sizeA = (size_t)batches * M * K;
    size_t sizeB = (size_t)batches * N * K;
    size_t sizeC = (size_t)batches * M * N;

    float *A = (float *)malloc(sizeA * sizeof(float));
    float *B = (float *)malloc(sizeB * sizeof(float));
    float *C = (float *)malloc(sizeC * sizeof(float));
    float *D = (float *)malloc(sizeC * sizeof(float));
    float *ref = (float *)malloc(sizeC * sizeof(float));
    srand(759);
    randomize(A, sizeA);
    randomize(B, sizeB);
    randomize(C, sizeC);

    float *dA, *dB, *dC, *dD;
    cudaMalloc(&dA, sizeA * sizeof(float));
    cudaMalloc(&dB, sizeB * sizeof(float));
    cudaMalloc(&dC, sizeC * sizeof(float));
    cudaMalloc(&dD, sizeC * sizeof(float));
    cudaMemcpy(dA, A, sizeA * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, B, sizeB * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dC, C, sizeC * sizeof(float), cudaMemcpyHostToDevice);

    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, batches);
    bmm_tf32_kernel<<<grid, NTHREADS>>>(dA, dB, dC, dD, M, N, K, alpha, beta);
    cudaError_t err = cudaDeviceSynchronize();
    if (err != cudaSuccess) {
        printf("kernel failed: %s\n", cudaGetErrorString(err));
        return 1;
    }
    cudaMemcpy(D, dD, sizeC * sizeof(float), cudaMemcpyDeviceToHost);

    bmm_cpu(A, B, C, ref, batches, M, N, K, alpha, beta);
    float maxdiff = 0;
    for (size_t i = 0; i < sizeC; i++) maxdiff = fmaxf(maxdiff, fabsf(D[i] - ref[i]));
    printf("max difference to the cpu: %g\n", maxdiff);
    printf(maxdiff < 2e-2f ? "OK\n" : "WRONG\n");

    cudaFree(dA); cudaFree(dB); cudaFree(dC); cudaFree(dD);
    free(A); free(B); free(C); free(D); free(ref);
    return maxdiff < 2e-2f ? 0 : 1;
}
