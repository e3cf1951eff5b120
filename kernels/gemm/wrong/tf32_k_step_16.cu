#include <mma.h>
// TF32 GEMM:  C[M,N] = A[M,K] * B[K,N], A row major, B given transposed (i.e. column major, [N,K]).
using namespace nvcuda;
constexpr int kTileM = 32, kTileN = 32, kTileK = 32;
constexpr int kWarps = 4;

struct Smem {
    float a[kTileM][kTileK + 4];
    float bt[kTileN][kTileK + 4];
};

__global__ void __launch_bounds__(kWarps * 32) sgemm_tf32(const float* A, const float* Bt, float* C, int M, int N, int K)
{
    __shared__ __align__(32) Smem smem;
    const int warp_id = threadIdx.x / 32;
    const int m0 = blockIdx.y * kTileM, n0 = blockIdx.x * kTileN;
    const int wm = warp_id / 2, wn = warp_id % 2;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < K; k0 += kTileK) {
        for (int idx = threadIdx.x; idx < kTileM * kTileK; idx += kWarps * 32) {
            const int r = idx / kTileK, c = idx % kTileK;
            smem.a[r][c] = (m0 + r < M && k0 + c < K) ? A[(m0 + r) * K + k0 + c] : 0.0f;
            smem.bt[r][c] = (n0 + r < N && k0 + c < K) ? Bt[(n0 + r) * K + k0 + c] : 0.0f;
        }
        __syncthreads();
        for (int kk = 0; kk < kTileK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
            wmma::load_matrix_sync(fa, &smem.a[wm * 16][kk], kTileK + 4);
            wmma::load_matrix_sync(fb, &smem.bt[wn * 16][kk], kTileK + 4);
            for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
            for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
            wmma::mma_sync(acc, fa, fb, acc);
        }
        __syncthreads();
    }

    // tiles that stick out go through shared memory
    const int row = m0 + wm * 16, col = n0 + wn * 16;
    float* stage = &smem.a[0][0] + warp_id * 256;
    wmma::store_matrix_sync(stage, acc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < 256; i += 32)
        if (row + i / 16 < M && col + i % 16 < N)
            C[(row + i / 16) * N + col + i % 16] = stage[i];
}
