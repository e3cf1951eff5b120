// C[M][N] = A[M][K] * W^T; W is N x K, two 4-bit values in a byte, with a scale and a zero point per group along K.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

#define TILE_M 16
#define TILE_N 64
#define TILE_K 32

__global__ void int4_dequant_gemm(const half *__restrict__ A, const uint8_t *__restrict__ Wq,
                                  const half *__restrict__ scales, const uint8_t *__restrict__ zeros,
                                  half *__restrict__ C, int M, int N, int K, int group) {
    __shared__ __align__(32) half a_s[TILE_M][TILE_K + 8];
    __shared__ __align__(32) half w_s[TILE_N][TILE_K + 8];
    __shared__ __align__(32) float c_s[TILE_M][TILE_N + 4];

    const int tid = threadIdx.x, warp = tid / 32;
    const int bm = blockIdx.y * TILE_M, bn = blockIdx.x * TILE_N;
    const int groups = K / group;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        for (int i = tid; i < TILE_M * TILE_K; i += 128) {
            int r = i / TILE_K, c = i % TILE_K;
            a_s[r][c] = bm + r < M ? A[(bm + r) * K + k0 + c] : __float2half(0.0f);
        }
        // one byte, that is two weights, at a time
        for (int i = tid; i < TILE_N * TILE_K / 2; i += 128) {
            int r = i / (TILE_K / 2), c = i % (TILE_K / 2) * 2;
            float lo = 0.0f, hi = 0.0f;
            if (bn + r < N) {
                uint8_t packed = Wq[((bn + r) * K + k0 + c) / 2];
                int g = (bn + r) * groups + (k0 + c) / group;
                float s = __half2float(scales[g]);
                int z = zeros[g];
                lo = ((packed & 0xF) - z) * s;
                hi = ((packed >> 4) - z) * s;
            }
            w_s[r][c] = __float2half(lo);
            w_s[r][c + 1] = __float2half(hi);
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> w;
            wmma::load_matrix_sync(a, &a_s[0][kk], TILE_K + 8);
            wmma::load_matrix_sync(w, &w_s[warp * 16][kk], TILE_K + 8);
            wmma::mma_sync(acc, a, w, acc);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&c_s[0][warp * 16], acc, TILE_N + 4, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < TILE_M * TILE_N; i += 128) {
        int r = i / TILE_N, c = i % TILE_N;
        if (bm + r < M && bn + c < N) C[(bm + r) * N + bn + c] = __float2half(c_s[r][c]);
    }
}
