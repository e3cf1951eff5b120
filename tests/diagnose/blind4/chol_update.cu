/*
 * Trailing update of a blocked Cholesky factorisation, lower triangle, column-major as in LAPACK:
 *
 *     C(i, j) -= sum_k L(i, k) * L(j, k)          for i >= j
 *
 * in TF32 with FP32 sums.  One thread block per 32 x 32 tile, launched on the full square; the tiles above
 * the diagonal return at once.  Entries above the diagonal are never touched: the caller keeps other data there.
 */
#include <mma.h>

using namespace nvcuda;

#define TILE 32
#define KB 16                         /* columns of the panel that are staged at a time */
#define LDS (TILE + 4)
#define NTHREADS 128

#define C_(i, j) C[(i) + (size_t)(j) * ldc]
#define L_(i, k) L[(i) + (size_t)(k) * ldl]

/* rows [row0, row0 + TILE) of KB columns of the panel, as s[k][i] */
static __device__ void load_panel(float s[KB][LDS], const float *L, int ldl, int row0, int n, int k0, int nb)
{
    for (int t = threadIdx.x; t < KB * TILE; t += NTHREADS) {
        int i = t % TILE;
        int k = t / TILE;
        float v = 0.f;
        if (row0 + i < n && k0 + k < nb)
            v = L_(row0 + i, k0 + k);
        s[k][i] = wmma::__float_to_tf32(v);
    }
}

extern "C" __global__ void syrk_lower_tf32(int n, int nb, const float *L, int ldl, float *C, int ldc)
{
    __shared__ __align__(32) float s_row[KB][LDS];
    __shared__ __align__(32) float s_col[KB][LDS];
    __shared__ __align__(32) float s_out[TILE][LDS];

    const int tile_i = blockIdx.x * TILE;
    const int tile_j = blockIdx.y * TILE;
    if (tile_j > tile_i)
        return;

    const int warp = threadIdx.x >> 5;
    const int wi = (warp & 1) * 16;
    const int wj = (warp >> 1) * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fill_fragment(sum, 0.f);

    for (int k0 = 0; k0 < nb; k0 += KB) {
        load_panel(s_row, L, ldl, tile_i, n, k0, nb);
        load_panel(s_col, L, ldl, tile_j, n, k0, nb);
        __syncthreads();

        #pragma unroll
        for (int k = 0; k < KB; k += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::col_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
            wmma::load_matrix_sync(a, &s_row[k][wi], LDS);
            wmma::load_matrix_sync(b, &s_col[k][wj], LDS);
            wmma::mma_sync(sum, a, b, sum);
        }
        __syncthreads();
    }

    /* s_out[j][i]: neighbours along i, so that the writes below coalesce */
    wmma::store_matrix_sync(&s_out[wj][wi], sum, LDS, wmma::mem_col_major);
    __syncthreads();

    for (int t = threadIdx.x; t < TILE * TILE; t += NTHREADS) {
        const int i = tile_i + t % TILE;
        const int j = tile_j + t / TILE;
        if (i < n && j <= i)
            C_(i, j) -= s_out[t / TILE][t % TILE];
    }
}

extern "C" void trailing_update(int n, int nb, const float *L, int ldl, float *C, int ldc, cudaStream_t stream)
{
    const int tiles = (n + TILE - 1) / TILE;
    syrk_lower_tf32<<<dim3(tiles, tiles), NTHREADS, 0, stream>>>(n, nb, L, ldl, C, ldc);
}
