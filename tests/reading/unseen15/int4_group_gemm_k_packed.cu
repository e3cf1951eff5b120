// 4-bit weight GEMM, fp16 activations. Weights are packed eight along K per uint32 (low nibble first),
// one fp16 scale and one 4-bit zero (packed eight along N) for every GROUP rows of K.
//   y[m, n] = sum_k x[m, k] * (q[k, n] - z[k / GROUP, n]) * s[k / GROUP, n]
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

#define GROUP 128
#define BM 16
#define BN 64
#define BK 64

__global__ void gemm_w4a16_kernel(const half* __restrict__ x,          // [M, K]
                                  const uint32_t* __restrict__ qweight,  // [K / 8, N]
                                  const uint32_t* __restrict__ qzeros,   // [K / GROUP, N / 8]
                                  const half* __restrict__ scales,       // [K / GROUP, N]
                                  half* __restrict__ y,                  // [M, N]
                                  int M, int N, int K)
{
    using namespace nvcuda;
    __shared__ half xs[BM][BK + 8];
    __shared__ half ws[BK][BN + 8];
    __shared__ float ys[BM][BN];
    const int n0 = blockIdx.x * BN, m0 = blockIdx.y * BM;
    const int warp = threadIdx.y;
    const int tid = threadIdx.y * 32 + threadIdx.x;

    wmma::fragment<wmma::accumulator, BM, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK / 2; i += 128) {
            int r = i / (BK / 2), col = i % (BK / 2) * 2;
            half2 v = __float2half2_rn(0.0f);
            if (m0 + r < M) v = *(const half2*)(x + (size_t)(m0 + r) * K + k0 + col);
            *(half2*)&xs[r][col] = v;
        }
        // 8 packed rows of 64 words, 128 threads: 4 words each
        for (int i = tid; i < BK / 8 * BN; i += 128) {
            int pr = i / BN, col = i % BN;
            uint32_t q = qweight[(size_t)(k0 / 8 + pr) * N + n0 + col];
            int g = (k0 + pr * 8) / GROUP;
            int z = (qzeros[g * (N / 8) + (n0 + col) / 8] >> (4 * ((n0 + col) % 8))) & 0xf;
            half s = scales[(size_t)g * N + n0 + col];
#pragma unroll
            for (int b = 0; b < 8; b++) {
                int v = (int)((q >> (4 * b)) & 0xf) - z;
                ws[pr * 8 + b][col] = __hmul(__int2half_rn(v), s);
            }
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, BM, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, BM, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a, &xs[0][kk], BK + 8);
            wmma::load_matrix_sync(b, &ws[kk][warp * 16], BN + 8);
            wmma::mma_sync(c, a, b, c);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(&ys[0][warp * 16], c, BN, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < BM * BN; i += 128) {
        int r = m0 + i / BN, col = n0 + i % BN;
        if (r < M) y[(size_t)r * N + col] = __float2half(ys[i / BN][i % BN]);
    }
}

extern "C" void gemm_w4a16(const void* x, const void* qweight, const void* qzeros, const void* scales, void* y,
                           int M, int N, int K, cudaStream_t stream)
{
    dim3 block(32, 4);
    dim3 grid(N / BN, (M + BM - 1) / BM);
    gemm_w4a16_kernel<<<grid, block, 0, stream>>>((const half*)x, (const uint32_t*)qweight, (const uint32_t*)qzeros,
                                                  (const half*)scales, (half*)y, M, N, K);
}
