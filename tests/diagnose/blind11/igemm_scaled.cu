// W8A8 linear layer: Y[m][n] = sx[m] * sw[n] * sum_k X[m][k] * W[n][k], integers on the tensor cores.
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

template <int TM, int TN>
__global__ void igemm_scaled(const int8_t *__restrict__ x, const int8_t *__restrict__ w, const float *__restrict__ sx,
                             const float *__restrict__ sw, float *__restrict__ y, int M, int N, int K) {
    // both operands in slices of 16 along k
    __shared__ __align__(32) int8_t xs[2][TM][16];
    __shared__ __align__(32) int8_t ws[2][TN][16];
    __shared__ __align__(32) int out[TM][TN];

    int tid = threadIdx.x;
    int warp = tid / 32;
    int bm = blockIdx.x * TM;
    int bn = blockIdx.y * TN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum[TN / 16];
    for (int n = 0; n < TN / 16; n++) wmma::fill_fragment(sum[n], 0);

    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int i = tid; i < TM * 32; i += blockDim.x) {
            int r = i / 32, c = i % 32;
            int8_t v = 0;
            if (bm + r < M && k0 + c < K) v = x[(long)(bm + r) * K + k0 + c];
            xs[c / 16][r][c % 16] = v;
        }
        for (int i = tid; i < TN * 32; i += blockDim.x) {
            int r = i / 32, c = i % 32;
            int8_t v = 0;
            if (bn + r < N && k0 + c < K) v = w[(long)(bn + r) * K + k0 + c];
            ws[c / 16][r][c % 16] = v;
        }
        __syncthreads();
        for (int s = 0; s < 2; s++) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, int8_t, wmma::row_major> fa;
            wmma::load_matrix_sync(fa, &xs[s][warp * 16][0], 16);
            for (int n = 0; n < TN / 16; n++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, int8_t, wmma::col_major> fb;
                wmma::load_matrix_sync(fb, &ws[s][n * 16][0], 16);
                wmma::mma_sync(sum[n], fa, fb, sum[n]);
            }
        }
        __syncthreads();
    }

    for (int n = 0; n < TN / 16; n++)
        wmma::store_matrix_sync(&out[warp * 16][n * 16], sum[n], TN, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < TM * TN; i += blockDim.x) {
        int row = bm + i / TN, col = bn + i % TN;
        if (row < M && col < N) y[(long)row * N + col] = (float)out[i / TN][i % TN] * sx[row] * sw[col];
    }
}

template __global__ void igemm_scaled<32, 64>(const int8_t *, const int8_t *, const float *, const float *, float *, int,
                                              int, int);
