/* Short-time Fourier transform, 256 points, with tensor cores.
 *
 * 256 = 16 x 16:  n = 16*n1 + n2,  k = k1 + 16*k2
 *     Y[k1][n2] = sum_n1  w16^(k1 n1) x[16 n1 + n2]        (product 1, x is real)
 *     Y[k1][n2] *= w256^(k1 n2)                            (twiddle)
 *     X[k1 + 16 k2] = sum_n2 Y[k1][n2] w16^(n2 k2)         (product 2, complex)
 * One warp does one frame; only the bins 0 .. 128 are written, as (re, im).
 */
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define NFFT   256
#define R16    16
#define BINS   (NFFT / 2 + 1)
#define WARPS  4
#define LDT    20              /* pitch of the float scratch of product 1 */

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_a;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_b;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c;

/* w16^(i j) as three half matrices: real part, imaginary part, minus imaginary part */
__device__ void make_dft16(half *re, half *im, half *im_neg)
{
    for (int t = threadIdx.x; t < R16 * R16; t += blockDim.x) {
        int i = t / R16, j = t % R16;
        float s, c;
        sincospif(-2.0f * (float)((i * j) % R16) / R16, &s, &c);
        re[t] = __float2half(c);
        im[t] = __float2half(s);
        im_neg[t] = __float2half(-s);
    }
}

__global__ void stft256_kernel(const float *signal, const float *window, float *spec,
                               int length, int hop, int n_frames, float gain)
{
    __shared__ __align__(32) half  w_re[R16 * R16], w_im[R16 * R16], w_imn[R16 * R16];
    __shared__ __align__(32) half  y_re_s[WARPS][NFFT], y_im_s[WARPS][NFFT];
    __shared__ __align__(32) float t_re_s[WARPS][R16 * LDT], t_im_s[WARPS][R16 * LDT];

    int lane = threadIdx.x % 32;
    int warp = threadIdx.x / 32;
    half  *y_re = y_re_s[warp], *y_im = y_im_s[warp];
    float *t_re = t_re_s[warp], *t_im = t_im_s[warp];

    make_dft16(w_re, w_im, w_imn);
    __syncthreads();

    for (int frame = blockIdx.x * WARPS + warp; frame < n_frames; frame += gridDim.x * WARPS) {
        /* windowed frame; behind the end of the signal there are zeros */
        for (int n = lane; n < NFFT; n += 32) {
            int at = frame * hop + n;
            float v = at < length ? signal[at] * window[n] : 0.0f;
            y_re[n] = __float2half(v);
        }
        __syncwarp();

        /* product 1 */
        {
            frag_a fr, fi;
            frag_b x;
            frag_c cr, ci;
            wmma::fill_fragment(cr, 0.0f);
            wmma::fill_fragment(ci, 0.0f);
            wmma::load_matrix_sync(x, y_re, R16);
            wmma::load_matrix_sync(fr, w_re, R16);
            wmma::load_matrix_sync(fi, w_im, R16);
            wmma::mma_sync(cr, fr, x, cr);
            wmma::mma_sync(ci, fi, x, ci);
            wmma::store_matrix_sync(t_re, cr, LDT, wmma::mem_row_major);
            wmma::store_matrix_sync(t_im, ci, LDT, wmma::mem_row_major);
        }
        __syncwarp();

        /* twiddle */
        for (int t = lane; t < R16 * R16; t += 32) {
            int k1 = t / R16, n2 = t % R16;
            float s, c;
            sincospif(-2.0f * (float)(k1 * n2) / NFFT, &s, &c);
            float a = t_re[k1 * LDT + n2];
            float b = t_im[k1 * LDT + n2];
            y_re[t] = __float2half(a * c - b * s);
            y_im[t] = __float2half(a * s + b * c);
        }
        __syncwarp();

        /* product 2: (yr + i yi)(fr + i fi) */
        {
            frag_a yr, yi;
            frag_b fr, fi, fin;
            frag_c cr, ci;
            wmma::fill_fragment(cr, 0.0f);
            wmma::fill_fragment(ci, 0.0f);
            wmma::load_matrix_sync(yr, y_re, R16);
            wmma::load_matrix_sync(yi, y_im, R16);
            wmma::load_matrix_sync(fr, w_re, R16);
            wmma::load_matrix_sync(fi, w_im, R16);
            wmma::load_matrix_sync(fin, w_imn, R16);
            wmma::mma_sync(cr, yr, fr, cr);
            wmma::mma_sync(cr, yi, fin, cr);
            wmma::mma_sync(ci, yr, fi, ci);
            wmma::mma_sync(ci, yi, fr, ci);
            wmma::store_matrix_sync(t_re, cr, R16, wmma::mem_col_major);   /* k1 + 16*k2 */
            wmma::store_matrix_sync(t_im, ci, R16, wmma::mem_col_major);
        }
        __syncwarp();

        float *dst = spec + (size_t)frame * BINS * 2;
        for (int k = lane; k < BINS; k += 32) {
            dst[2 * k]     = gain * t_re[k];
            dst[2 * k + 1] = gain * t_im[k];
        }
        __syncwarp();
    }
}
