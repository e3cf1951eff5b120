/* Box stencil of radius 3 on FP64 tensor cores.
 *
 * For one row of weights w[dy][0..6], eight neighbouring outputs are a product with a banded matrix:
 *     out[y][x .. x+7] += in[y+dy][x-3 .. x+12] * BAND[dy],   BAND[dy][u][j] = w[dy][u - j]   (0 <= u - j <= 6)
 * so a tile of 8 x 8 outputs is 7 products of 8x16 by 16x8, each four m8n8k4 steps.
 * The RADIUS outermost cells on every side are boundary conditions and are copied.
 */
#include <mma.h>
using namespace nvcuda;

#define RADIUS      3
#define DIAM        (2 * RADIUS + 1)
#define TILE        8                         /* outputs of a fragment, either way   */
#define SPAN        16                        /* inputs that 8 outputs touch, padded */
#define WARPS       4
#define BLOCK_H     16
#define BLOCK_W     32
#define HALO_H      (BLOCK_H + 2 * RADIUS)
#define HALO_W      (BLOCK_W + SPAN - TILE)   /* 8 more, of which 6 are looked at    */
#define PITCH       (HALO_W + 2)
#define IDX(y, x)   ((y) * nx + (x))

#define FOR_EACH(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)

__global__ void box2d3r_dmma(const double *__restrict__ in, const double *__restrict__ weights, double *__restrict__ out,
                             int ny, int nx)
{
    __shared__ __align__(32) double tile[HALO_H * PITCH];
    __shared__ __align__(32) double band[DIAM][SPAN * TILE];
    __shared__ __align__(32) double result[BLOCK_H * BLOCK_W];

    const int y0 = blockIdx.y * BLOCK_H;      /* first output of the block */
    const int x0 = blockIdx.x * BLOCK_W;
    const int warp = threadIdx.x / 32;

    FOR_EACH(i, HALO_H * HALO_W) {
        int ty = i / HALO_W, tx = i % HALO_W;
        int y = y0 + ty - RADIUS, x = x0 + tx - RADIUS;
        int inside = y >= 0 && y < ny && x >= 0 && x < nx;
        tile[ty * PITCH + tx] = inside ? in[IDX(y, x)] : 0.0;
    }
    FOR_EACH(i, DIAM * SPAN * TILE) {
        int dy = i / (SPAN * TILE), u = i / TILE % SPAN, j = i % TILE;
        int dx = u - j;
        band[dy][u * TILE + j] = (dx >= 0 && dx < DIAM) ? weights[dy * DIAM + dx] : 0.0;
    }
    __syncthreads();

    /* a warp takes one column of fragments, two below each other */
    for (int part = 0; part < BLOCK_H / TILE; part++) {
        const int ty = part * TILE, tx = warp * TILE;
        wmma::fragment<wmma::accumulator, 8, 8, 4, double> acc;
        wmma::fill_fragment(acc, 0.0);
#pragma unroll
        for (int dy = 0; dy < DIAM; dy++) {
#pragma unroll
            for (int u = 0; u < SPAN; u += 4) {
                wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> b;
                wmma::load_matrix_sync(a, tile + (ty + dy) * PITCH + tx + u, PITCH);
                wmma::load_matrix_sync(b, band[dy] + u * TILE, TILE);
                wmma::mma_sync(acc, a, b, acc);
            }
        }
        wmma::store_matrix_sync(result + ty * BLOCK_W + tx, acc, BLOCK_W, wmma::mem_row_major);
    }
    __syncthreads();

    FOR_EACH(i, BLOCK_H * BLOCK_W) {
        int ty = i / BLOCK_W, tx = i % BLOCK_W;
        int y = y0 + ty, x = x0 + tx;
        if (y >= ny || x >= nx) continue;
        int border = y < RADIUS || y >= ny - RADIUS || x < RADIUS || x >= nx - RADIUS;
        out[IDX(y, x)] = border ? tile[(ty + RADIUS) * PITCH + tx + RADIUS] : result[i];
    }
}
