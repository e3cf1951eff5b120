/*
 * hgemm with shared memory tiling, fp16 in, fp32 accumulate, fp16 out.
 * 64x64 block tile, 4 warps in a 2x2 arrangement, each warp 32x32 (2x2 fragments).
 */
#include <cuda_fp16.h>
#include <mma.h>

namespace wm = nvcuda::wmma;

template <int BM, int BN, int BK>
struct Tile {
    static constexpr int lda = BK + 8;   // pad to dodge bank conflicts
    static constexpr int ldb = BN + 8;
    static constexpr int ldc = BN + 4;
};
using T = Tile<64, 64, 32>;
__device__ constexpr int kStages = 4;

__device__ __forceinline__ half ld_guard(const half* p, int r, int c, int rows, int cols)
{
    return (r < rows && c < cols) ? p[(size_t)r * cols + c] : __float2half(0.f);
}

__global__ void hgemm_tiled(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
                            int m, int n, int k, float alpha, float beta)
{
    __shared__ __align__(128) half s_a[kStages * 64 * T::lda];
    __shared__ __align__(128) half s_b[kStages * 32 * T::ldb];
    __shared__ __align__(128) float s_c[64 * T::ldc];

    const int tid = threadIdx.x;
    const int warp = tid >> 5;
    const int wr = (warp >> 1) * 32;
    const int wc = (warp & 1) * 32;
    const int bm = blockIdx.y * 64;
    const int bn = blockIdx.x * 64;

    wm::fragment<wm::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wm::fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < k; k0 += 32) {
        // cooperative fill, zeros past the edges
        for (int i = tid; i < 64 * 32; i += 128) {
            int r = i / 32, cc = i % 32;
            s_a[r * T::lda + cc] = ld_guard(a, bm + r, k0 + cc, m, k);
        }
        for (int i = tid; i < 32 * 64; i += 128) {
            int r = i / 64, cc = i % 64;
            s_b[r * T::ldb + cc] = ld_guard(b, k0 + r, bn + cc, k, n);
        }
        __syncthreads();

        for (int kk = 0; kk < 32; kk += 16) {
            wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> fa[2];
            wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> fb[2];
            for (int i = 0; i < 2; i++)
                wm::load_matrix_sync(fa[i], s_a + (wr + i * 16) * T::lda + kk, T::lda);
            for (int j = 0; j < 2; j++)
                wm::load_matrix_sync(fb[j], s_b + kk * T::ldb + wc + j * 16, T::ldb);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wm::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wm::store_matrix_sync(s_c + (wr + i * 16) * T::ldc + wc + j * 16, acc[i][j], T::ldc, wm::mem_row_major);
    __syncthreads();

    for (int i = tid; i < 64 * 64; i += 128) {
        int r = i / 64, cc = i % 64;
        if (bm + r < m && bn + cc < n) {
            size_t at = (size_t)(bm + r) * n + bn + cc;
            c[at] = __float2half(alpha * s_c[r * T::ldc + cc] + beta * __half2float(c[at]));
        }
    }
}

void launch_hgemm(const half* a, const half* b, half* c, int m, int n, int k, float alpha, float beta, cudaStream_t st)
{
    dim3 grid((n + 63) / 64, (m + 63) / 64);
    hgemm_tiled<<<grid, 128, 0, st>>>(a, b, c, m, n, k, alpha, beta);
}
