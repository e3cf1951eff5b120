/*
 * Implicit GEMM convolution on tensor cores (forward, NHWC).
 *
 *   GEMM M = N * OH * OW      output pixels
 *   GEMM N = K                filters
 *   GEMM K = R * S * C        taps times channels (C % 8 == 0)
 *
 * input  : NHWC  half
 * filter : KRSC  half
 * output : NHWK  float, + bias, relu
 */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define MTILE 64
#define NTILE 32
#define KTILE 32
#define SKEW 8
#define NTHREADS 128

typedef struct {
    int n, h, w, c;
    int k, r, s;
    int oh, ow;
    int stride_h, stride_w;
    int pad_h, pad_w;
    int dil_h, dil_w;
} conv_param_t;

/* fetches 8 channels of the (virtual) im2col matrix */
__device__ static uint4 fetch_input(const half *in, const conv_param_t &p, int gm, int gk)
{
    uint4 zero = make_uint4(0u, 0u, 0u, 0u);
    int pixels = p.n * p.oh * p.ow;
    int depth = p.r * p.s * p.c;
    if (gm >= pixels || gk >= depth)
        return zero;

    int img = gm / (p.oh * p.ow);
    int rem = gm % (p.oh * p.ow);
    int oy = rem / p.ow;
    int ox = rem % p.ow;

    int ch = gk % p.c;
    int tap = gk / p.c;
    int fs = tap % p.s;
    int fr = tap / p.s;

    int iy = oy * p.stride_h - p.pad_h + fr * p.dil_h;
    int ix = ox * p.stride_w - p.pad_w + fs * p.dil_w;
    if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w)
        return zero;
    return *(const uint4 *)(in + ((img * p.h + iy) * p.w + ix) * p.c + ch);
}

__device__ static uint4 fetch_filter(const half *flt, const conv_param_t &p, int gn, int gk)
{
    int depth = p.r * p.s * p.c;
    if (gn >= p.k || gk >= depth)
        return make_uint4(0u, 0u, 0u, 0u);
    return *(const uint4 *)(flt + gn * depth + gk);
}

extern "C" __global__ void conv_fprop_wmma(const half *in, const half *flt, const float *bias, float *out,
                                           conv_param_t p)
{
    __shared__ __align__(32) half smA[2][MTILE][KTILE + SKEW];
    __shared__ __align__(32) half smB[2][NTILE][KTILE + SKEW];
    __shared__ __align__(32) float smC[MTILE][NTILE + 4];

    const int tid = threadIdx.x;
    const int wid = tid / 32;
    const int m0 = blockIdx.x * MTILE;
    const int n0 = blockIdx.y * NTILE;
    const int depth = p.r * p.s * p.c;
    const int steps = (depth + KTILE - 1) / KTILE;

    /* 4 chunks of 8 halves in a row of a tile: thread -> row tid/4 (+32 for the second half of A), chunk tid%4 */
    const int ld_row = tid / 4;
    const int ld_col = (tid % 4) * 8;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[NTILE / 16];
#pragma unroll
    for (int j = 0; j < NTILE / 16; j++)
        wmma::fill_fragment(acc[j], 0.0f);

    uint4 ra0 = fetch_input(in, p, m0 + ld_row, ld_col);
    uint4 ra1 = fetch_input(in, p, m0 + ld_row + 32, ld_col);
    uint4 rb = fetch_filter(flt, p, n0 + ld_row, ld_col);
    *(uint4 *)&smA[0][ld_row][ld_col] = ra0;
    *(uint4 *)&smA[0][ld_row + 32][ld_col] = ra1;
    *(uint4 *)&smB[0][ld_row][ld_col] = rb;
    __syncthreads();

    int buf = 0;
    for (int step = 0; step < steps; step++) {
        const bool more = step + 1 < steps;
        if (more) {
            /* prefetch into registers, the loads overlap with the mma below */
            int gk = (step + 1) * KTILE + ld_col;
            ra0 = fetch_input(in, p, m0 + ld_row, gk);
            ra1 = fetch_input(in, p, m0 + ld_row + 32, gk);
            rb = fetch_filter(flt, p, n0 + ld_row, gk);
        }

#pragma unroll
        for (int kk = 0; kk < KTILE; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::load_matrix_sync(fa, &smA[buf][wid * 16][kk], KTILE + SKEW);
#pragma unroll
            for (int j = 0; j < NTILE / 16; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
                wmma::load_matrix_sync(fb, &smB[buf][j * 16][kk], KTILE + SKEW);
                wmma::mma_sync(acc[j], fa, fb, acc[j]);
            }
        }

        if (more) {
            int nb = buf ^ 1;
            *(uint4 *)&smA[nb][ld_row][ld_col] = ra0;
            *(uint4 *)&smA[nb][ld_row + 32][ld_col] = ra1;
            *(uint4 *)&smB[nb][ld_row][ld_col] = rb;
            __syncthreads();
            buf = nb;
        }
    }

#pragma unroll
    for (int j = 0; j < NTILE / 16; j++)
        wmma::store_matrix_sync(&smC[wid * 16][j * 16], acc[j], NTILE + 4, wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < MTILE * NTILE; i += NTHREADS) {
        int pm = m0 + i / NTILE;
        int f = n0 + i % NTILE;
        if (pm < p.n * p.oh * p.ow && f < p.k) {
            float v = smC[i / NTILE][i % NTILE] + bias[f];
            out[pm * p.k + f] = v > 0.0f ? v : 0.0f;
        }
    }
}

extern "C" int conv_fprop(const half *in, const half *flt, const float *bias, float *out, conv_param_t *p)
{
    p->oh = (p->h + 2 * p->pad_h - p->dil_h * (p->r - 1) - 1) / p->stride_h + 1;
    p->ow = (p->w + 2 * p->pad_w - p->dil_w * (p->s - 1) - 1) / p->stride_w + 1;
    dim3 grid((p->n * p->oh * p->ow + MTILE - 1) / MTILE, (p->k + NTILE - 1) / NTILE);
    conv_fprop_wmma<<<grid, NTHREADS>>>(in, flt, bias, out, *p);
    return (int)cudaGetLastError();
}
