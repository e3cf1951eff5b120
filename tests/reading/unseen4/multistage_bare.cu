// Multi-stage cp.async GEMM. C[M,N] = A[M,K] * B[K,N], fp16 in, fp32 accumulate, fp16 out.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

template <int kM, int kN, int kK, int kStages>
__global__ void hgemm_multistage(const half *A, const half *B, half *C, int m, int n, int k) {
    using namespace nvcuda;
    static_assert(kM == 64 && kN == 64, "four warps, 32x32 each");
    static_assert(kK % 16 == 0, "");
    static_assert(kStages >= 2, "");
    constexpr int LDA = kK + 8, LDB = kN + 8;
    __shared__ __align__(128) half sa[kStages][kM * LDA];
    __shared__ __align__(128) half sb[kStages][kK * LDB];
    const int tid = threadIdx.x, warp = tid / 32;
    const int bm = blockIdx.y * kM, bn = blockIdx.x * kN;
    const int wm = warp / 2 * 32, wn = warp % 2 * 32;

    auto load = [&](int stage, int k0) {
        for (int i = tid; i < kM * kK / 8; i += 128) {
            int r = i / (kK / 8), c = i % (kK / 8) * 8;
            __pipeline_memcpy_async(&sa[stage][r * LDA + c], &A[(size_t)(bm + r) * k + k0 + c], 16);
        }
        for (int i = tid; i < kK * kN / 8; i += 128) {
            int r = i / (kN / 8), c = i % (kN / 8) * 8;
            __pipeline_memcpy_async(&sb[stage][r * LDB + c], &B[(size_t)(k0 + r) * n + bn + c], 16);
        }
    };

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.f);

    const int tiles = k / kK;
#pragma unroll
    for (int s = 0; s < kStages - 1; s++) {
        if (s < tiles) load(s, s * kK);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; t++) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();
        const int cur = t % kStages;
        const int next = t + kStages - 1;
        if (next < tiles) load(next % kStages, next * kK);
        __pipeline_commit();
#pragma unroll
        for (int kk = 0; kk < kK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(fa[i], &sa[cur][(wm + i * 16) * LDA + kk], LDA);
                wmma::load_matrix_sync(fb[i], &sb[cur][kk * LDB + wn + i * 16], LDB);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, half> h;
            for (int e = 0; e < h.num_elements; e++) h.x[e] = __float2half(acc[i][j].x[e]);
            wmma::store_matrix_sync(&C[(size_t)(bm + wm + i * 16) * n + bn + wn + j * 16], h, n, wmma::mem_row_major);
        }
}
