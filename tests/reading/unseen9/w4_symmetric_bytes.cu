#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

/* y[m][n] = sum_k x[m][k] * w[n][k], w in 4 bits, symmetric: w = (nibble - 8) * scale[n][k / group]
   two weights in a byte, the even k in the low half; qweight: [n][k / 2] */

#define M_TILE 16
#define N_TILE 32
#define K_TILE 32

__global__ void linear_w4_kernel(const half *x, const uint8_t *qweight, const half *scales, half *y, int m, int n, int k,
                                 int group)
{
    __shared__ __align__(32) half sx[M_TILE][K_TILE];
    __shared__ __align__(32) half sw[N_TILE][K_TILE];
    __shared__ __align__(32) float sy[M_TILE][N_TILE];
    const int tid = threadIdx.x, warp = tid / 32;
    const int m0 = blockIdx.y * M_TILE, n0 = blockIdx.x * N_TILE;

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < k; k0 += K_TILE) {
        for (int i = tid; i < M_TILE * K_TILE; i += blockDim.x) {
            int r = i / K_TILE, c = i % K_TILE;
            sx[r][c] = (m0 + r < m) ? x[(m0 + r) * k + k0 + c] : __float2half(0.0f);
        }
        for (int i = tid; i < N_TILE * K_TILE / 2; i += blockDim.x) {
            int r = i / (K_TILE / 2), c = i % (K_TILE / 2) * 2;
            uint8_t byte = qweight[(n0 + r) * (k / 2) + (k0 + c) / 2];
            float s = __half2float(scales[(n0 + r) * (k / group) + (k0 + c) / group]);
            sw[r][c] = __float2half((float)((int)(byte & 0x0F) - 8) * s);
            sw[r][c + 1] = __float2half((float)((int)(byte >> 4) - 8) * s);
        }
        __syncthreads();
        for (int kk = 0; kk < K_TILE; kk += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> b;
            nvcuda::wmma::load_matrix_sync(a, &sx[0][kk], K_TILE);
            nvcuda::wmma::load_matrix_sync(b, &sw[warp * 16][kk], K_TILE);
            nvcuda::wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }
    nvcuda::wmma::store_matrix_sync(&sy[0][warp * 16], acc, N_TILE, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < M_TILE * N_TILE; i += blockDim.x) {
        int r = i / N_TILE, c = i % N_TILE;
        if (m0 + r < m) y[(m0 + r) * n + n0 + c] = __float2half(sy[r][c]);
    }
}

void linear_w4(const half *x, const uint8_t *qweight, const half *scales, half *y, int m, int n, int k, int group)
{
    linear_w4_kernel<<<dim3(n / N_TILE, (m + M_TILE - 1) / M_TILE), 64>>>(x, qweight, scales, y, m, n, k, group);
}
