#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

/*
 * Triangle multiplicative update, "outgoing" edges, channels first:
 *    z[c, i, j] = sum_k a[c, i, k] * b[c, j, k]
 * a, b: [C, N, N] bfloat16; z: [C, N, N] float. N need not be a multiple of the tile.
 */
#define TILE 64
#define TK   32
#define PAD  8

static __device__ __forceinline__ void load_tile(__nv_bfloat16 (*dst)[TK + PAD], const __nv_bfloat16 *src, int row0, int k0, int n)
{
    for (int i = threadIdx.x; i < TILE * TK; i += blockDim.x) {
        int r = i / TK, k = i % TK;
        dst[r][k] = (row0 + r < n && k0 + k < n) ? src[(int64_t)(row0 + r) * n + k0 + k] : __float2bfloat16(0.f);
    }
}

extern "C" __global__ void triangle_mul_out(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *z, int n)
{
    __shared__ __align__(16) __nv_bfloat16 sa[TILE][TK + PAD];
    __shared__ __align__(16) __nv_bfloat16 sb[TILE][TK + PAD];
    __shared__ __align__(32) float sc[4][16 * 16];
    const int64_t chan = (int64_t)blockIdx.z * n * n;
    const int i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    const int w = threadIdx.x / 32, lane = threadIdx.x % 32;

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int t = 0; t < 4; ++t) nvcuda::wmma::fill_fragment(acc[t], 0.f);
    for (int k0 = 0; k0 < n; k0 += TK) {
        load_tile(sa, a + chan, i0, k0, n);
        load_tile(sb, b + chan, j0, k0, n);
        __syncthreads();
        for (int kk = 0; kk < TK; kk += 16) {
            nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> fa;
            nvcuda::wmma::load_matrix_sync(fa, &sa[w * 16][kk], TK + PAD);
            for (int t = 0; t < 4; ++t) {
                nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::col_major> fb;
                nvcuda::wmma::load_matrix_sync(fb, &sb[t * 16][kk], TK + PAD);
                nvcuda::wmma::mma_sync(acc[t], fa, fb, acc[t]);
            }
        }
        __syncthreads();
    }
    for (int t = 0; t < 4; ++t) {
        nvcuda::wmma::store_matrix_sync(sc[w], acc[t], 16, nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            int i = i0 + w * 16 + e / 16, j = j0 + t * 16 + e % 16;
            if (i < n && j < n) z[chan + (int64_t)i * n + j] = sc[w][e];
        }
        __syncwarp();
    }
}

extern "C" void triangle_mul_out_launch(const void *a, const void *b, void *z, int channels, int n, void *stream)
{
    dim3 grid((n + TILE - 1) / TILE, (n + TILE - 1) / TILE, channels);
    triangle_mul_out<<<grid, 128, 0, (cudaStream_t)stream>>>((const __nv_bfloat16 *)a, (const __nv_bfloat16 *)b, (float *)z, n);
}
