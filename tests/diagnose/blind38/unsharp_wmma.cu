/* unsharp_wmma.cu -- unsharp masking of planar 8-bit images, Gaussian blur on tensor cores
 *
 *   out = img + amount * (img - G_v * img * G_h)
 *
 * A separable filter of 2*radius+1 taps is a product with a banded matrix from either side. For one 32x32 tile:
 *
 *   tmp [48 x 32] = patch [48 x 48] * BH [48 x 32]          BH[i][j] = tap[i - j - (HALO - radius)]
 *   blur[32 x 32] = BV [32 x 48] * tmp [48 x 32]            BV[i][j] = tap[j - i - (HALO - radius)] = BH transposed
 *
 * The patch is the tile with HALO pixels around it, borders replicated. Taps outside of 0..2*radius are zero.
 * radius <= HALO. Images: height x width, rows `pitch` bytes apart; the result is half, dense.
 */
#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

enum { TILE = 32, HALO = 8, PATCH = TILE + 2 * HALO, BLOCK = 192 };
enum { LD_PATCH = PATCH + 8, LD_BAND = PATCH + 8, LD_TMP = TILE + 8, LD_BLUR = TILE + 4 };

static __device__ __forceinline__ int clampi(int v, int lo, int hi)
{
    return v < lo ? lo : (v > hi ? hi : v);
}

struct unsharp_smem {
    half  patch[PATCH][LD_PATCH];
    half  band[TILE][LD_BAND];              /* BV, row by row; BH read column by column */
    half  tmp[PATCH][LD_TMP];
    union {
        float row_sums[PATCH][LD_BLUR];     /* tmp before it is rounded */
        float blur[TILE][LD_BLUR];
    } acc;
};

extern "C" __global__ void __launch_bounds__(BLOCK)
unsharp_kernel(const uint8_t *__restrict__ img, half *__restrict__ out, const float *__restrict__ taps,
               int radius, float amount, int width, int height, int pitch)
{
    using namespace nvcuda::wmma;

    __shared__ __align__(128) unsharp_smem sm;

    const int tid    = threadIdx.x;
    const int warp   = tid >> 5;
    const int tile_x = blockIdx.x * TILE;
    const int tile_y = blockIdx.y * TILE;
    const uint8_t *plane     = img + (size_t)blockIdx.z * height * pitch;
    half          *plane_out = out + (size_t)blockIdx.z * height * width;

    /* ---- band matrix ---------------------------------------------------------------------------------------- */
    for (int e = tid; e < TILE * PATCH; e += BLOCK) {
        const int i   = e / PATCH;
        const int j   = e % PATCH;
        const int tap = j - i - (HALO - radius);
        sm.band[i][j] = __float2half(tap >= 0 && tap <= 2 * radius ? taps[tap] : 0.0f);
    }

    /* ---- patch, borders replicated -------------------------------------------------------------------------- */
    for (int e = tid; e < PATCH * PATCH; e += BLOCK) {
        const int py = e / PATCH;
        const int px = e % PATCH;
        const int y  = clampi(tile_y + py - HALO, 0, height - 1);
        const int x  = clampi(tile_x + px - HALO, 0, width - 1);
        sm.patch[py][px] = __int2half_rn(plane[(size_t)y * pitch + x]);
    }
    __syncthreads();

    /* ---- along rows: 3 x 2 pieces of 16 x 16, one for each warp --------------------------------------------- */
    {
        const int r = (warp / 2) * 16;
        const int c = (warp % 2) * 16;
        fragment<accumulator, 16, 16, 16, float> sum;
        fill_fragment(sum, 0.0f);
        /* columns c .. c+15 of the tile need columns c .. c+31 of the patch only */
        for (int k = c; k < c + 32; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            fragment<matrix_b, 16, 16, 16, half, col_major> b;
            load_matrix_sync(a, &sm.patch[r][k], LD_PATCH);
            load_matrix_sync(b, &sm.band[c][k], LD_BAND);
            mma_sync(sum, a, b, sum);
        }
        store_matrix_sync(&sm.acc.row_sums[r][c], sum, LD_BLUR, mem_row_major);
    }
    __syncthreads();

    for (int e = tid; e < PATCH * TILE; e += BLOCK)
        sm.tmp[e / TILE][e % TILE] = __float2half(sm.acc.row_sums[e / TILE][e % TILE]);
    __syncthreads();

    /* ---- along columns: 2 x 2 pieces ------------------------------------------------------------------------ */
    if (warp < 4) {
        const int r = (warp / 2) * 16;
        const int c = (warp % 2) * 16;
        fragment<accumulator, 16, 16, 16, float> sum;
        fill_fragment(sum, 0.0f);
        for (int k = r; k < r + 32; k += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            fragment<matrix_b, 16, 16, 16, half, row_major> b;
            load_matrix_sync(a, &sm.band[r][k], LD_BAND);
            load_matrix_sync(b, &sm.tmp[k][c], LD_TMP);
            mma_sync(sum, a, b, sum);
        }
        store_matrix_sync(&sm.acc.blur[r][c], sum, LD_BLUR, mem_row_major);
    }
    __syncthreads();

    /* ---- sharpen -------------------------------------------------------------------------------------------- */
    for (int e = tid; e < TILE * TILE; e += BLOCK) {
        const int ty = e / TILE;
        const int tx = e % TILE;
        const int y  = tile_y + ty;
        const int x  = tile_x + tx;
        if (y < height && x < width) {
            const float centre = __half2float(sm.patch[ty + HALO][tx + HALO]);
            const float detail = centre - sm.acc.blur[ty][tx];
            plane_out[(size_t)y * width + x] = __float2half(centre + amount * detail);
        }
    }
}

void unsharp(const uint8_t *img, half *out, const float *taps, int radius, float amount, int width, int height,
             int pitch, int planes, cudaStream_t stream)
{
    const dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE, planes);
    unsharp_kernel<<<grid, BLOCK, 0, stream>>>(img, out, taps, radius, amount, width, height, pitch);
}
