/*
 * A first GEMM on tensor cores, step by step (part 3: any size, shared memory with padding).
 *
 *     D = alpha * A x B + beta * C
 *
 * A is M x K, B is K x N (half, row-major), C and D are M x N (float, row-major).
 * One block makes a 64 x 64 tile of D with four warps; every warp has a 32 x 32 corner of it.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

#define CHECK_CUDA(call)                                                              \
    do {                                                                              \
        cudaError_t status = (call);                                                  \
        if (status != cudaSuccess) {                                                  \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

// The tile of a block, the depth of a step, and the skew that keeps rows in different banks
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define SKEW_HALF 8
#define SKEW_FLOAT 4

#define LD_A (TILE_K + SKEW_HALF)
#define LD_B (TILE_N + SKEW_HALF)
#define LD_C (TILE_N + SKEW_FLOAT)

#define THREADS 128

__global__ void wmma_gemm_padded(const half *A, const half *B, const float *C, float *D,
                                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half  tile_a[TILE_M * LD_A];
    __shared__ __align__(32) half  tile_b[TILE_K * LD_B];
    __shared__ __align__(32) float tile_c[TILE_M * LD_C];

    int warp     = threadIdx.x / 32;
    int warp_row = (warp / 2) * 32;
    int warp_col = (warp % 2) * 32;
    int row0     = blockIdx.y * TILE_M;
    int col0     = blockIdx.x * TILE_N;

    // 1. The accumulators start from zero
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    // 2. C is fetched once; rows and columns behind the end count as zero
    for (int idx = threadIdx.x; idx < TILE_M * TILE_N; idx += THREADS) {
        int r = idx / TILE_N;
        int c = idx % TILE_N;
        bool inside = row0 + r < M && col0 + c < N;
        tile_c[r * LD_C + c] = inside ? C[(row0 + r) * N + col0 + c] : 0.0f;
    }

    // 3. Walk along K
    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        for (int idx = threadIdx.x; idx < TILE_M * TILE_K; idx += THREADS) {
            int r = idx / TILE_K;
            int k = idx % TILE_K;
            half value = __float2half(0.0f);
            if (row0 + r < M && k0 + k < K)
                value = A[(row0 + r) * K + k0 + k];
            tile_a[r * LD_A + k] = value;
        }
        for (int idx = threadIdx.x; idx < TILE_K * TILE_N; idx += THREADS) {
            int k = idx / TILE_N;
            int c = idx % TILE_N;
            half value = __float2half(0.0f);
            if (k0 + k < K && col0 + c < N)
                value = B[(k0 + k) * N + col0 + c];
            tile_b[k * LD_B + c] = value;
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b[2];
            for (int i = 0; i < 2; i++)
                wmma::load_matrix_sync(frag_a[i], tile_a + (warp_row + i * 16) * LD_A + kk, LD_A);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(frag_b[j], tile_b + kk * LD_B + warp_col + j * 16, LD_B);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], frag_a[i], frag_b[j], acc[i][j]);
        }
        __syncthreads();
    }

    // 4. alpha * acc + beta * C, element by element: both fragments have the same layout
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            float *corner = tile_c + (warp_row + i * 16) * LD_C + warp_col + j * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c;
            wmma::load_matrix_sync(frag_c, corner, LD_C, wmma::mem_row_major);
            for (int e = 0; e < frag_c.num_elements; e++)
                frag_c.x[e] = alpha * acc[i][j].x[e] + beta * frag_c.x[e];
            wmma::store_matrix_sync(corner, frag_c, LD_C, wmma::mem_row_major);
        }
    }
    __syncthreads();

    // 5. Write what lies inside
    for (int idx = threadIdx.x; idx < TILE_M * TILE_N; idx += THREADS) {
        int r = idx / TILE_N;
        int c = idx % TILE_N;
        if (row0 + r < M && col0 + c < N)
            D[(row0 + r) * N + col0 + c] = tile_c[r * LD_C + c];
    }
}

int main(int argc, char **argv)
{
    int M = argc > 1 ? atoi(argv[1]) : 512, N = argc > 2 ? atoi(argv[2]) : 512, K = argc > 3 ? atoi(argv[3]) : 512;
    half *A, *B;
    float *C, *D;
    CHECK_CUDA(cudaMalloc(&A, sizeof(half) * M * K));
    CHECK_CUDA(cudaMalloc(&B, sizeof(half) * K * N));
    CHECK_CUDA(cudaMalloc(&C, sizeof(float) * M * N));
    CHECK_CUDA(cudaMalloc(&D, sizeof(float) * M * N));

    dim3 grid((N + TILE_N - 1) / TILE_N, (M + TILE_M - 1) / TILE_M);
    wmma_gemm_padded<<<grid, THREADS>>>(A, B, C, D, M, N, K, 1.5f, 0.5f);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
