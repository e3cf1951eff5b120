/* Implicit GEMM convolution, forward.
 *   x  NHWC half, w  KRSC half, bias K half (may be NULL), y  NPQK half
 *   padding, stride and dilation are arbitrary, C and K multiples of 8
 */
#include <assert.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>

#define TM 64 /* output pixels per block */
#define TN 32 /* filters per block */
#define TK 32 /* of C*R*S per step */

typedef struct {
    int n, h, w, c;      /* input */
    int k, r, s;         /* filter */
    int p, q;            /* output */
    int pad_h, pad_w, stride_h, stride_w, dil_h, dil_w;
    int relu;
} conv_desc_t;

__global__ void conv_fprop_kernel(conv_desc_t d, const half *__restrict__ x, const half *__restrict__ w,
                                  const half *__restrict__ bias, half *__restrict__ y)
{
    __shared__ __align__(32) half xs[TM][TK + 8];
    __shared__ __align__(32) half ws[TN][TK + 8];
    __shared__ __align__(32) float ys[TM][TN + 4];

    using namespace nvcuda::wmma;
    const int pixels = d.n * d.p * d.q;
    const int crs = d.c * d.r * d.s;
    const int m0 = blockIdx.x * TM, k0 = blockIdx.y * TN;
    const int warp = threadIdx.x / 32;

    fragment<accumulator, 16, 16, 16, float> acc[2];
    fill_fragment(acc[0], 0.0f);
    fill_fragment(acc[1], 0.0f);

    for (int t = 0; t < crs; t += TK) {
        for (int i = threadIdx.x; i < TM * TK; i += blockDim.x) {
            int row = i / TK, kk = t + i % TK;
            int pix = m0 + row;
            half v = __float2half(0.0f);
            if (pix < pixels && kk < crs) {
                int n = pix / (d.p * d.q), pq = pix % (d.p * d.q);
                int p = pq / d.q, q = pq % d.q;
                int ch = kk % d.c, rs = kk / d.c;
                int r = rs / d.s, s = rs % d.s;
                int ih = p * d.stride_h - d.pad_h + r * d.dil_h;
                int iw = q * d.stride_w - d.pad_w + s * d.dil_w;
                if (ih >= 0 && ih < d.h && iw >= 0 && iw < d.w)
                    v = x[((n * d.h + ih) * d.w + iw) * d.c + ch];
            }
            xs[row][i % TK] = v;
        }
        for (int i = threadIdx.x; i < TN * TK; i += blockDim.x) {
            int row = i / TK, kk = t + i % TK;
            ws[row][i % TK] = (k0 + row < d.k && kk < crs) ? w[(k0 + row) * crs + kk] : __float2half(0.0f);
        }
        __syncthreads();
        for (int kk = 0; kk < TK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            load_matrix_sync(a, &xs[warp * 16][kk], TK + 8);
            for (int j = 0; j < 2; j++) {
                fragment<matrix_b, 16, 16, 16, half, col_major> b;
                load_matrix_sync(b, &ws[j * 16][kk], TK + 8);
                mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; j++)
        store_matrix_sync(&ys[warp * 16][j * 16], acc[j], TN + 4, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TM * TN; i += blockDim.x) {
        int row = i / TN, col = i % TN;
        if (m0 + row < pixels && k0 + col < d.k) {
            float v = ys[row][col];
            if (bias) v += __half2float(bias[k0 + col]);
            if (d.relu) v = fmaxf(v, 0.0f);
            y[(m0 + row) * d.k + k0 + col] = __float2half(v);
        }
    }
}

static void conv_fprop(const conv_desc_t *d, const half *x, const half *w, const half *bias, half *y)
{
    assert(d->p == (d->h + 2 * d->pad_h - d->dil_h * (d->r - 1) - 1) / d->stride_h + 1);
    assert(d->q == (d->w + 2 * d->pad_w - d->dil_w * (d->s - 1) - 1) / d->stride_w + 1);
    dim3 grid((d->n * d->p * d->q + TM - 1) / TM, (d->k + TN - 1) / TN);
    conv_fprop_kernel<<<grid, 128>>>(*d, x, w, bias, y);
}

static float conv_ref(const conv_desc_t *d, const half *x, const half *w, const half *bias, int n, int p, int q, int k)
{
    float sum = bias ? __half2float(bias[k]) : 0.0f;
    for (int r = 0; r < d->r; r++)
        for (int s = 0; s < d->s; s++) {
            int ih = p * d->stride_h - d->pad_h + r * d->dil_h;
            int iw = q * d->stride_w - d->pad_w + s * d->dil_w;
            if (ih < 0 || ih >= d->h || iw < 0 || iw >= d->w) continue;
            for (int c = 0; c < d->c; c++)
                sum += __half2float(x[((n * d->h + ih) * d->w + iw) * d->c + c]) *
                       __half2float(w[((k * d->r + r) * d->s + s) * d->c + c]);
        }
    return d->relu && sum < 0.0f ? 0.0f : sum;
}

int main(void)
{
    conv_desc_t d = {2, 14, 14, 16, 48, 3, 3, 0, 0, 2, 2, 1, 1, 2, 2, 1};
    d.p = (d.h + 2 * d.pad_h - d.dil_h * (d.r - 1) - 1) / d.stride_h + 1;
    d.q = (d.w + 2 * d.pad_w - d.dil_w * (d.s - 1) - 1) / d.stride_w + 1;
    size_t nx = (size_t)d.n * d.h * d.w * d.c, nw = (size_t)d.k * d.r * d.s * d.c, ny = (size_t)d.n * d.p * d.q * d.k;
    half *x, *w, *bias, *y;
    cudaMallocManaged(&x, nx * sizeof(half));
    cudaMallocManaged(&w, nw * sizeof(half));
    cudaMallocManaged(&bias, d.k * sizeof(half));
    cudaMallocManaged(&y, ny * sizeof(half));
    for (size_t i = 0; i < nx; i++) x[i] = __float2half((float)(rand() % 17 - 8) / 8.0f);
    for (size_t i = 0; i < nw; i++) w[i] = __float2half((float)(rand() % 17 - 8) / 16.0f);
    for (int i = 0; i < d.k; i++) bias[i] = __float2half((float)(rand() % 9 - 4) / 4.0f);

    conv_fprop(&d, x, w, bias, y);
    cudaDeviceSynchronize();

    int errors = 0;
    for (int n = 0; n < d.n; n++)
        for (int p = 0; p < d.p; p++)
            for (int q = 0; q < d.q; q++)
                for (int k = 0; k < d.k; k++) {
                    float want = conv_ref(&d, x, w, bias, n, p, q, k);
                    float got = __half2float(y[((n * d.p + p) * d.q + q) * d.k + k]);
                    if (fabsf(want - got) > 0.02f * fmaxf(1.0f, fabsf(want))) errors++;
                }
    printf("%d errors\n", errors);
    cudaFree(x);
    cudaFree(w);
    cudaFree(bias);
    cudaFree(y);
    return errors != 0;
}
