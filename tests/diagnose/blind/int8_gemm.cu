// int8 x int8 -> int32 matrix product with wmma; any M, N, K (boundary handled in shared memory)
#include <mma.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
using namespace nvcuda;

const int TILE = 32;
const int KSTEP = 32;
const int SKEW = 16;

__global__ void igemmTensorCore(const int8_t *matA, const int8_t *matB, int32_t *matC, int rowsA, int colsB, int inner)
{
    __shared__ __align__(32) int8_t tileA[TILE][KSTEP + SKEW];
    __shared__ __align__(32) int8_t tileB[KSTEP][TILE + SKEW];
    __shared__ __align__(32) int tileC[TILE][TILE];

    int blockRow = blockIdx.y * TILE;
    int blockCol = blockIdx.x * TILE;
    int t = threadIdx.y * 32 + threadIdx.x;      // block is (32, 4)
    int warpM = threadIdx.y / 2;
    int warpN = threadIdx.y % 2;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fragA;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fragB;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fragC;
    wmma::fill_fragment(fragC, 0);

    for (int k0 = 0; k0 < inner; k0 += KSTEP)
    {
        for (int idx = t; idx < TILE * KSTEP; idx += 128)
        {
            int r = idx / KSTEP;
            int c = idx % KSTEP;
            int gr = blockRow + r;
            int gc = k0 + c;
            if (gr < rowsA && gc < inner)
                tileA[r][c] = matA[gr * inner + gc];
            else
                tileA[r][c] = 0;
        }
        for (int idx = t; idx < KSTEP * TILE; idx += 128)
        {
            int r = idx / TILE;
            int c = idx % TILE;
            int gr = k0 + r;
            int gc = blockCol + c;
            tileB[r][c] = (gr < inner && gc < colsB) ? matB[gr * colsB + gc] : 0;
        }
        __syncthreads();

        for (int kk = 0; kk < KSTEP; kk += 16)
        {
            wmma::load_matrix_sync(fragA, (const signed char *)&tileA[warpM * 16][kk], KSTEP + SKEW);
            wmma::load_matrix_sync(fragB, (const signed char *)&tileB[kk][warpN * 16], TILE + SKEW);
            wmma::mma_sync(fragC, fragA, fragB, fragC);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&tileC[warpM * 16][warpN * 16], fragC, TILE, wmma::mem_row_major);
    __syncthreads();
    for (int idx = t; idx < TILE * TILE; idx += 128)
    {
        int r = blockRow + idx / TILE;
        int c = blockCol + idx % TILE;
        if (r < rowsA && c < colsB)
            matC[r * colsB + c] = tileC[idx / TILE][idx % TILE];
    }
}

int main(void)
{
    int M = 100, N = 72, K = 90;
    int8_t *a, *b;
    int32_t *c;
    cudaMallocManaged(&a, M * K);
    cudaMallocManaged(&b, K * N);
    cudaMallocManaged(&c, M * N * sizeof(int32_t));
    for (int i = 0; i < M * K; i++) a[i] = rand() % 255 - 127;
    for (int i = 0; i < K * N; i++) b[i] = rand() % 255 - 127;
    dim3 threads(32, 4);
    dim3 blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    igemmTensorCore<<<blocks, threads>>>(a, b, c, M, N, K);
    cudaDeviceSynchronize();
    printf("c[0]=%d\n", c[0]);
    return 0;
}
