#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

using namespace nvcuda;

// y = x * dequant(W), W[k][n] = (q[k][n] - zero[k / group][n]) * scale[k / group][n], q in 4 bits.
//
//   x       [m, k]            half
//   qweight [k / 8, n]        eight consecutive k in one int32, the lowest bits first
//   scales  [k / group, n]    half
//   qzeros  [k / group, n / 8] eight consecutive n in one int32
//   y       [m, n]            half

#define TM 16
#define TN 64
#define TK 32

__global__ void w4a16_gemm_kernel(const half* x, const uint32_t* qweight, const half* scales, const uint32_t* qzeros,
                                  half* y, int m, int n, int k, int group_size) {
    __shared__ half xs[TM][TK + 8];
    __shared__ half ws[TK][TN + 8];
    __shared__ float ys[TM][TN];
    const int tid = threadIdx.x, warp = tid >> 5;
    const int m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < k; k0 += TK) {
        for (int i = tid; i < TM * TK; i += blockDim.x) {
            const int r = i / TK, c = i % TK;
            xs[r][c] = m0 + r < m ? x[(m0 + r) * k + k0 + c] : __float2half(0.0f);
        }
        for (int i = tid; i < TK / 8 * TN; i += blockDim.x) {
            const int pack = i / TN, c = i % TN;
            const uint32_t word = qweight[(k0 / 8 + pack) * n + n0 + c];
            const int g = (k0 + pack * 8) / group_size;
            const half s = scales[g * n + n0 + c];
            const int z = (qzeros[g * (n / 8) + (n0 + c) / 8] >> (4 * ((n0 + c) % 8))) & 0xF;
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const int q = (word >> (4 * j)) & 0xF;
                ws[pack * 8 + j][c] = __hmul(__int2half_rn(q - z), s);
            }
        }
        __syncthreads();
        for (int kk = 0; kk < TK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a, &xs[0][kk], TK + 8);
            wmma::load_matrix_sync(b, &ws[kk][warp * 16], TN + 8);
            wmma::mma_sync(acc, a, b, acc);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(&ys[0][warp * 16], acc, TN, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < TM * TN; i += blockDim.x) {
        const int r = i / TN, c = i % TN;
        if (m0 + r < m) y[(m0 + r) * n + n0 + c] = __float2half(ys[r][c]);
    }
}

void w4a16_gemm(const half* x, const uint32_t* qweight, const half* scales, const uint32_t* qzeros, half* y, int m,
                int n, int k, int group_size = 128, cudaStream_t stream = nullptr) {
    dim3 grid(n / TN, (m + TM - 1) / TM);
    w4a16_gemm_kernel<<<grid, 128, 0, stream>>>(x, qweight, scales, qzeros, y, m, n, k, group_size);
}
