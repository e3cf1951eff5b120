/*
 * 3x3 convolution, stride 1, padding 1, by Winograd's F(2x2, 3x3), all in one kernel:
 *   V = B^T d B (input tiles), U = G g G^T (filters), M_xi = V_xi . U_xi (sixteen small GEMMs, WMMA), y = A^T M A.
 * x: NHWC half, w: KCRS half, bias: float, y: NHWC half.  A block has 16 output tiles of 2x2 pixels, and 16 filters.
 */
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define TILES_PB   16
#define K_PB       16
#define C_STEP     16
#define XI         16          /* 4x4 points of the transformed domain */
#define PITCH      (C_STEP + 8)
#define NTHREADS   128
#define XI_PER_WARP (XI / (NTHREADS / 32))

struct ConvShape {
    int N, C, H, W, K;
    int tiles_h, tiles_w;      /* ceil(H/2), ceil(W/2) */
};

struct TilePos { int n, y, x; };

__device__ inline TilePos tile_position(const ConvShape& s, int tile)
{
    TilePos p;
    p.x = tile % s.tiles_w * 2;
    tile /= s.tiles_w;
    p.y = tile % s.tiles_h * 2;
    p.n = tile / s.tiles_h;
    return p;
}

/* rows of B^T: (1 0 -1 0) (0 1 1 0) (0 -1 1 0) (0 1 0 -1) */
__device__ inline void input_row(const float d[4], float o[4])
{
    o[0] = d[0] - d[2];
    o[1] = d[1] + d[2];
    o[2] = d[2] - d[1];
    o[3] = d[1] - d[3];
}

__device__ inline void filter_row(const float g[3], float o[4])
{
    o[0] = g[0];
    o[1] = 0.5f * (g[0] + g[1] + g[2]);
    o[2] = 0.5f * (g[0] - g[1] + g[2]);
    o[3] = g[2];
}

__device__ inline void output_row(const float m[4], float o[2])
{
    o[0] = m[0] + m[1] + m[2];
    o[1] = m[1] - m[2] - m[3];
}

__device__ void transform_input(half (*V)[TILES_PB][PITCH], const half* __restrict__ x, const ConvShape& s, int tile0, int c0)
{
    for (int job = threadIdx.x; job < TILES_PB * C_STEP; job += NTHREADS) {
        const int t = job / C_STEP, c = job % C_STEP;
        float d[4][4], r[4][4];
        const bool live = tile0 + t < s.N * s.tiles_h * s.tiles_w && c0 + c < s.C;
        const TilePos p = tile_position(s, tile0 + t);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const int yy = p.y + i - 1, xx = p.x + j - 1;
                const bool in = live && yy >= 0 && yy < s.H && xx >= 0 && xx < s.W;
                d[i][j] = in ? __half2float(x[((p.n * s.H + yy) * s.W + xx) * s.C + c0 + c]) : 0.f;
            }
        for (int i = 0; i < 4; i++) input_row(d[i], r[i]);
        for (int j = 0; j < 4; j++) {
            const float col[4] = {r[0][j], r[1][j], r[2][j], r[3][j]};
            float o[4];
            input_row(col, o);
            for (int i = 0; i < 4; i++) V[i * 4 + j][t][c] = __float2half(o[i]);
        }
    }
}

__device__ void transform_filter(half (*U)[K_PB][PITCH], const half* __restrict__ w, const ConvShape& s, int k0, int c0)
{
    for (int job = threadIdx.x; job < K_PB * C_STEP; job += NTHREADS) {
        const int k = job / C_STEP, c = job % C_STEP;
        float g[3][3], r[3][4];
        const bool live = k0 + k < s.K && c0 + c < s.C;
        const half* src = w + ((size_t)(k0 + k) * s.C + c0 + c) * 9;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) g[i][j] = live ? __half2float(src[i * 3 + j]) : 0.f;
        for (int i = 0; i < 3; i++) filter_row(g[i], r[i]);
        for (int j = 0; j < 4; j++) {
            const float col[3] = {r[0][j], r[1][j], r[2][j]};
            float o[4];
            filter_row(col, o);
            for (int i = 0; i < 4; i++) U[i * 4 + j][k][c] = __float2half(o[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(NTHREADS)
winograd_f2x3(const half* __restrict__ x, const half* __restrict__ w, const float* __restrict__ bias, half* __restrict__ y, ConvShape s)
{
    __shared__ __align__(128) half V[XI][TILES_PB][PITCH];
    __shared__ __align__(128) half U[XI][K_PB][PITCH];
    __shared__ __align__(128) float M[XI][TILES_PB][K_PB];

    const int warp = threadIdx.x >> 5;
    const int tile0 = blockIdx.x * TILES_PB, k0 = blockIdx.y * K_PB;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[XI_PER_WARP];
    for (int q = 0; q < XI_PER_WARP; q++) wmma::fill_fragment(acc[q], 0.f);

    for (int c0 = 0; c0 < s.C; c0 += C_STEP) {
        transform_input(V, x, s, tile0, c0);
        transform_filter(U, w, s, k0, c0);
        __syncthreads();
        for (int q = 0; q < XI_PER_WARP; q++) {
            const int xi = warp * XI_PER_WARP + q;
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::load_matrix_sync(a, &V[xi][0][0], PITCH);
            wmma::load_matrix_sync(b, &U[xi][0][0], PITCH);
            wmma::mma_sync(acc[q], a, b, acc[q]);
        }
        __syncthreads();
    }

    for (int q = 0; q < XI_PER_WARP; q++)
        wmma::store_matrix_sync(&M[warp * XI_PER_WARP + q][0][0], acc[q], K_PB, wmma::mem_row_major);
    __syncthreads();

    for (int job = threadIdx.x; job < TILES_PB * K_PB; job += NTHREADS) {
        const int t = job / K_PB, k = job % K_PB;
        if (tile0 + t >= s.N * s.tiles_h * s.tiles_w || k0 + k >= s.K) continue;
        const TilePos p = tile_position(s, tile0 + t);
        float r[4][2];
        for (int i = 0; i < 4; i++) {
            const float m[4] = {M[i * 4][t][k], M[i * 4 + 1][t][k], M[i * 4 + 2][t][k], M[i * 4 + 3][t][k]};
            output_row(m, r[i]);
        }
        for (int j = 0; j < 2; j++) {
            const float col[4] = {r[0][j], r[1][j], r[2][j], r[3][j]};
            float o[2];
            output_row(col, o);
            for (int i = 0; i < 2; i++) {
                const int yy = p.y + i, xx = p.x + j;
                if (yy < s.H && xx < s.W)
                    y[((p.n * s.H + yy) * s.W + xx) * s.K + k0 + k] = __float2half(fmaxf(o[i] + bias[k0 + k], 0.f));
            }
        }
    }
}
