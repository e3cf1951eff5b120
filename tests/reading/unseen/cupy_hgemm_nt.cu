/* hgemm_nt: C[M,N] = A[M,K] * B[N,K]^T   (half in, half out, float accumulate)
 *
 * Compile at run time:
 *
 *   mod = cupy.RawModule(code=open("cupy_hgemm_nt.cu").read(),
 *                        options=("-std=c++14", "-DTILE_M=64", "-DTILE_N=64"))
 *   k = mod.get_function("hgemm_nt")
 *   k(((N + 63)//64, (M + 63)//64), (128,), (A, B, C, M, N, K))
 *
 * K must be a multiple of 8 (128-bit loads). M and N are free.
 */
#include <cuda_fp16.h>
#include <mma.h>

#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef TILE_K
#define TILE_K 32
#endif
#define WARP_SIZE 32
#define WARPS_M 2
#define WARPS_N 2
#define NTHREADS (WARPS_M * WARPS_N * WARP_SIZE)
#define SKEW 8
#define LDT (TILE_K + SKEW)
#define FM (TILE_M / WARPS_M / 16)
#define FN (TILE_N / WARPS_N / 16)

#define LOAD_TILE(dst, src, row0, rows_total, rows_tile)                                   \
    for (int v = tid; v < (rows_tile) * (TILE_K / 8); v += NTHREADS) {                     \
        const int r = v / (TILE_K / 8);                                                    \
        const int c = v % (TILE_K / 8) * 8;                                                \
        uint4 val = make_uint4(0u, 0u, 0u, 0u);                                            \
        if ((row0) + r < (rows_total) && k0 + c < K)                                       \
            val = *(const uint4 *)(src + (size_t)((row0) + r) * K + k0 + c);               \
        *(uint4 *)&dst[r * LDT + c] = val;                                                 \
    }

using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(NTHREADS)
hgemm_nt(const __half *__restrict__ A, const __half *__restrict__ B, __half *__restrict__ C,
         int M, int N, int K)
{
    __shared__ __align__(128) __half smem_a[TILE_M * LDT];
    __shared__ __align__(128) __half smem_b[TILE_N * LDT];
    __shared__ __align__(128) float stage[WARPS_M * WARPS_N][16 * 20];

    const int tid = threadIdx.x;
    const int lane = tid % WARP_SIZE;
    const int warp = tid / WARP_SIZE;
    const int wm = warp / WARPS_N;
    const int wn = warp % WARPS_N;
    const int m0 = blockIdx.y * TILE_M;
    const int n0 = blockIdx.x * TILE_N;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[FM];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb[FN];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc[FM][FN];

    for (int i = 0; i < FM; i++)
        for (int j = 0; j < FN; j++)
            wmma::fill_fragment(fc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        LOAD_TILE(smem_a, A, m0, M, TILE_M)
        LOAD_TILE(smem_b, B, n0, N, TILE_N)
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16) {
            for (int i = 0; i < FM; i++)
                wmma::load_matrix_sync(fa[i], smem_a + (wm * FM + i) * 16 * LDT + kk, LDT);
            for (int j = 0; j < FN; j++)
                wmma::load_matrix_sync(fb[j], smem_b + (wn * FN + j) * 16 * LDT + kk, LDT);
            for (int i = 0; i < FM; i++)
                for (int j = 0; j < FN; j++)
                    wmma::mma_sync(fc[i][j], fa[i], fb[j], fc[i][j]);
        }
        __syncthreads();
    }

    /* each warp drains its fragments through a private 16x16 staging tile */
    for (int i = 0; i < FM; i++) {
        for (int j = 0; j < FN; j++) {
            wmma::store_matrix_sync(stage[warp], fc[i][j], 20, wmma::mem_row_major);
            __syncwarp();
            const int gm0 = m0 + (wm * FM + i) * 16;
            const int gn0 = n0 + (wn * FN + j) * 16;
            for (int e = lane; e < 256; e += WARP_SIZE) {
                const int r = e / 16, c = e % 16;
                if (gm0 + r < M && gn0 + c < N)
                    C[(size_t)(gm0 + r) * N + gn0 + c] = __float2half_rn(stage[warp][r * 20 + c]);
            }
            __syncwarp();
        }
    }
}
