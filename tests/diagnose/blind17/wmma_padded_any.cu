// HPC homework 4, part c: C = alpha * A * B + beta * C on tensor cores.
// v1: one warp per tile, v2: shared memory, v3 (this one): + padding against bank conflicts, + sizes that are no
// multiples of the tile.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BM 64
#define BN 32
#define BK 32
#define WM 32
#define WN 16
#define SKEW 8
#define A_LD (BK + SKEW)
#define B_LD (BN + SKEW)
#define C_LD (BN + 4)
#define THREADS 128

__global__ void matmul_v3(const half *A, const half *B, float *C, int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half As[BM * A_LD];
    __shared__ __align__(32) half Bs[BK * B_LD];
    __shared__ __align__(32) float Cs[BM * C_LD];

    int tid = threadIdx.x;
    int warpId = tid / 32;
    int warpRow = warpId / (BN / WN);
    int warpCol = warpId % (BN / WN);
    int rowStart = blockIdx.y * BM;
    int colStart = blockIdx.x * BN;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag[WM / 16];

    for (int i = 0; i < WM / 16; i++)
        wmma::fill_fragment(c_frag[i], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        // A tile
        for (int i = tid; i < BM * BK; i += THREADS) {
            int r = i / BK;
            int c = i % BK;
            int gr = rowStart + r;
            int gc = k0 + c;
            As[r * A_LD + c] = (gr < M && gc < K) ? A[gr * K + gc] : __float2half(0.0f);
        }
        // B tile
        for (int i = tid; i < BK * BN; i += THREADS) {
            int r = i / BN;
            int c = i % BN;
            int br = k0 + r;
            int bc = colStart + c;
            Bs[r * B_LD + c] = (br < K && bc < N) ? B[br * N + bc] : __float2half(0.0f);
        }
        __syncthreads();

        for (int kk = 0; kk < BK; kk += 16) {
            wmma::load_matrix_sync(b_frag, &Bs[kk * B_LD + warpCol * WN], B_LD);
            for (int i = 0; i < WM / 16; i++) {
                wmma::load_matrix_sync(a_frag, &As[(warpRow * WM + i * 16) * A_LD + kk], A_LD);
                wmma::mma_sync(c_frag[i], a_frag, b_frag, c_frag[i]);
            }
        }
        __syncthreads();  // before the tiles are overwritten
    }

    // a fragment cannot be guarded, so it goes through shared memory
    for (int i = 0; i < WM / 16; i++) {
        int r = warpRow * WM + i * 16;
        wmma::store_matrix_sync(&Cs[r * C_LD + warpCol * WN], c_frag[i], C_LD, wmma::mem_row_major);
    }
    __syncthreads();

    for (int i = tid; i < BM * BN; i += THREADS) {
        int r = i / BN;
        int c = i % BN;
        if (rowStart + r < M && colStart + c < N) {
            int idx = (rowStart + r) * N + colStart + c;
            C[idx] = alpha * Cs[r * C_LD + c] + beta * C[idx];
        }
    }
}
