#include <mma.h>

using namespace nvcuda;

// Single precision in, TF32 tensor cores, single precision out. Requires sm_80.
// 64x64 output tile per block, 4 warps of 32x32 each. Dimensions must be multiples of 64 (M, N) and 16 (K).
#define BM 64
#define BN 64
#define BK 16
#define PAD_A 4
#define PAD_B 4

__global__ void __launch_bounds__(128) tf32_gemm_smem(const float* __restrict__ A, const float* __restrict__ B,
                                                      float* __restrict__ C, int M, int N, int K, float alpha, float beta)
{
    __shared__ float As[BM][BK + PAD_A];
    __shared__ float Bs[BK][BN + PAD_B];

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int wm = (warp >> 1) * 32;
    const int wn = (warp & 1) * 32;
    const int bm = blockIdx.y * BM;
    const int bn = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK)
    {
        // 64x16 of A: 256 float4, two per thread
        #pragma unroll
        for (int l = 0; l < 2; l++)
        {
            int idx = tid + l * 128;
            int r = idx >> 2, c = (idx & 3) << 2;
            *(float4*)&As[r][c] = *(const float4*)&A[(size_t)(bm + r) * K + k0 + c];
        }
        // 16x64 of B
        #pragma unroll
        for (int l = 0; l < 2; l++)
        {
            int idx = tid + l * 128;
            int r = idx >> 4, c = (idx & 15) << 2;
            *(float4*)&Bs[r][c] = *(const float4*)&B[(size_t)(k0 + r) * N + bn + c];
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < BK; kk += 8)
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb[2];
            for (int i = 0; i < 2; i++)
            {
                wmma::load_matrix_sync(fa[i], &As[wm + i * 16][kk], BK + PAD_A);
                for (int t = 0; t < fa[i].num_elements; t++) fa[i].x[t] = wmma::__float_to_tf32(fa[i].x[t]);
                wmma::load_matrix_sync(fb[i], &Bs[kk][wn + i * 16], BN + PAD_B);
                for (int t = 0; t < fb[i].num_elements; t++) fb[i].x[t] = wmma::__float_to_tf32(fb[i].x[t]);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
    {
        for (int j = 0; j < 2; j++)
        {
            float* c = C + (size_t)(bm + wm + i * 16) * N + bn + wn + j * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 8, float> cf;
            wmma::load_matrix_sync(cf, c, N, wmma::mem_row_major);
            for (int t = 0; t < cf.num_elements; t++) cf.x[t] = alpha * acc[i][j].x[t] + beta * cf.x[t];
            wmma::store_matrix_sync(c, cf, N, wmma::mem_row_major);
        }
    }
}
