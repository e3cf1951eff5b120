// Half precision GEMM with float accumulation: C = alpha * A * B + beta * C, all row-major.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BM 64
#define BN 64
#define BK 32
#define PAD 8
#define THREADS 128

__global__ void hgemm_staged(const half *A, const half *B, float *C, int M, int N, int K, float alpha, float beta) {
    __shared__ __align__(32) half As[BM][BK + PAD];
    __shared__ __align__(32) half Bs[BK][BN + PAD];
    __shared__ __align__(32) float Cs[BM][BN + 4];

    const int tid = threadIdx.x;
    const int warpId = tid / 32;
    const int warpRow = warpId / 2;
    const int warpCol = warpId % 2;
    const int rowBase = blockIdx.y * BM;
    const int colBase = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        // A tile: every warp takes one row of 32 values at a time
        for (int r = tid / BK; r < BM; r += THREADS / BK) {
            int c = tid % BK;
            half v = __float2half(0.0f);
            if (rowBase + r < M && k0 + c < K)
                v = A[(rowBase + r) * K + k0 + c];
            As[r][c] = v;
        }
        // B tile
        for (int r = tid / BN; r < BK; r += THREADS / BN) {
            int c = tid % BN;
            half v = __float2half(0.0f);
            if (k0 + r < K && colBase + c < N)
                v = B[(k0 + r) * N + colBase + c];
            Bs[r][c] = v;
        }
        __syncthreads();

        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++)
                wmma::load_matrix_sync(a[i], &As[warpRow * 32 + i * 16][kk], BK + PAD);
            for (int j = 0; j < 2; j++)
                wmma::load_matrix_sync(b[j], &Bs[kk][warpCol * 32 + j * 16], BN + PAD);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&Cs[warpRow * 32 + i * 16][warpCol * 32 + j * 16], acc[i][j], BN + 4,
                                    wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < BM * BN; i += THREADS) {
        int r = i / BN, c = i % BN;
        if (rowBase + r < M && colBase + c < N) {
            size_t at = (size_t)(rowBase + r) * N + colBase + c;
            C[at] = alpha * Cs[r][c] + beta * C[at];
        }
    }
}
