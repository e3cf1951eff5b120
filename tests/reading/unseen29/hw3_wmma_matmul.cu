/*
 * CS 5220 Parallel Computing - Homework 3, Part C
 * Matrix multiplication on Tensor Cores
 *
 * Student: <redacted>
 *
 * Build:  nvcc -O3 -arch=sm_80 -o hw3 hw3_wmma_matmul.cu
 * Run:    ./hw3 <M> <N> <K>         e.g.  ./hw3 300 200 500
 *
 * C = A * B     A is M x K, B is K x N, C is M x N, all stored row-major
 * A, B are half, C is float. Sizes do not have to be multiples of the tile!
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define PAD    8
#define NTHREADS 128      /* 4 warps, 2 x 2, 32 x 32 each */
#define BLOCK_SIZE 16

#define CHECK(call)                                                          \
    do {                                                                     \
        cudaError_t err = (call);                                            \
        if (err != cudaSuccess) {                                            \
            printf("CUDA error %s at line %d\n", cudaGetErrorString(err), __LINE__); \
            exit(EXIT_FAILURE);                                              \
        }                                                                    \
    } while (0)

/* Part A: one thread per output element */
__global__ void matmul_naive(const half *A, const half *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
        sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = sum;
}

/* Part C: WMMA with shared memory tiles */
__global__ void matmul_wmma(const half *A, const half *B, float *C, int M, int N, int K)
{
    __shared__ __align__(32) half  As[TILE_M][TILE_K + PAD];
    __shared__ __align__(32) half  Bs[TILE_K][TILE_N + PAD];
    __shared__ __align__(32) float Cs[TILE_M][TILE_N + PAD];

    int tid  = threadIdx.x;
    int warp = tid / 32;
    int wm   = (warp / 2) * 32;
    int wn   = (warp % 2) * 32;
    int row0 = blockIdx.y * TILE_M;
    int col0 = blockIdx.x * TILE_N;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(c[i][j], 0.0f);

    int numTiles = (K + TILE_K - 1) / TILE_K;
    for (int t = 0; t < numTiles; t++) {
        int k0 = t * TILE_K;

        /* load A tile, zero outside of the matrix */
        for (int idx = tid; idx < TILE_M * TILE_K; idx += NTHREADS) {
            int r  = idx / TILE_K;
            int cc = idx % TILE_K;
            if (row0 + r < M && k0 + cc < K)
                As[r][cc] = A[(row0 + r) * K + k0 + cc];
            else
                As[r][cc] = __float2half(0.0f);
        }
        /* load B tile */
        for (int idx = tid; idx < TILE_K * TILE_N; idx += NTHREADS) {
            int r  = idx / TILE_N;
            int cc = idx % TILE_N;
            if (k0 + r < K && col0 + cc < N)
                Bs[r][cc] = B[(k0 + r) * N + col0 + cc];
            else
                Bs[r][cc] = __float2half(0.0f);
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16) {
            for (int i = 0; i < 2; i++)
                wmma::load_matrix_sync(a[i], &As[wm + i * 16][kk], TILE_K + PAD);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b[j], &Bs[kk][wn + j * 16], TILE_N + PAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
        }
        __syncthreads();
    }

    /* through shared memory because the edge tiles are not complete */
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&Cs[wm + i * 16][wn + j * 16], c[i][j], TILE_N + PAD, wmma::mem_row_major);
    __syncthreads();
    for (int idx = tid; idx < TILE_M * TILE_N; idx += NTHREADS) {
        int r  = idx / TILE_N;
        int cc = idx % TILE_N;
        if (row0 + r < M && col0 + cc < N)
            C[(row0 + r) * N + col0 + cc] = Cs[r][cc];
    }
}

void matmul_cpu(const half *A, const half *B, float *C, int M, int N, int K)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
            C[i * N + j] = sum;
        }
}

int compare(const float *ref, const float *c, int n, const char *name)
{
    int errors = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(ref[i] - c[i]) > 1e-3f * fmaxf(1.0f, fabsf(ref[i]))) {
            if (errors < 5)
                printf("  %s: mismatch at %d: expected %f got %f\n", name, i, ref[i], c[i]);
            errors++;
        }
    printf("%s: %s (%d errors)\n", name, errors ? "FAILED" : "PASSED", errors);
    return errors;
}

int main(int argc, char **argv)
{
    int M = 300, N = 200, K = 500;
    if (argc == 4) {
        M = atoi(argv[1]);
        N = atoi(argv[2]);
        K = atoi(argv[3]);
    }
    printf("M = %d, N = %d, K = %d\n", M, N, K);

    half  *hA = (half *)malloc(sizeof(half) * M * K);
    half  *hB = (half *)malloc(sizeof(half) * K * N);
    float *hC = (float *)malloc(sizeof(float) * M * N);
    float *hRef = (float *)malloc(sizeof(float) * M * N);
    srand(1);
    for (int i = 0; i < M * K; i++) hA[i] = __float2half((float)rand() / RAND_MAX - 0.5f);
    for (int i = 0; i < K * N; i++) hB[i] = __float2half((float)rand() / RAND_MAX - 0.5f);

    half *dA, *dB;
    float *dC;
    CHECK(cudaMalloc(&dA, sizeof(half) * M * K));
    CHECK(cudaMalloc(&dB, sizeof(half) * K * N));
    CHECK(cudaMalloc(&dC, sizeof(float) * M * N));
    CHECK(cudaMemcpy(dA, hA, sizeof(half) * M * K, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dB, hB, sizeof(half) * K * N, cudaMemcpyHostToDevice));
    matmul_cpu(hA, hB, hRef, M, N, K);

    dim3 block(BLOCK_SIZE, BLOCK_SIZE);
    dim3 grid((N + BLOCK_SIZE - 1) / BLOCK_SIZE, (M + BLOCK_SIZE - 1) / BLOCK_SIZE);
    matmul_naive<<<grid, block>>>(dA, dB, dC, M, N, K);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(hC, dC, sizeof(float) * M * N, cudaMemcpyDeviceToHost));
    int errors = compare(hRef, hC, M * N, "naive");

    CHECK(cudaMemset(dC, 0, sizeof(float) * M * N));
    dim3 gridW((N + TILE_N - 1) / TILE_N, (M + TILE_M - 1) / TILE_M);
    matmul_wmma<<<gridW, NTHREADS>>>(dA, dB, dC, M, N, K);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(hC, dC, sizeof(float) * M * N, cudaMemcpyDeviceToHost));
    errors += compare(hRef, hC, M * N, "wmma");

    cudaFree(dA); cudaFree(dB); cudaFree(dC);
    free(hA); free(hB); free(hC); free(hRef);
    return errors != 0;
}
