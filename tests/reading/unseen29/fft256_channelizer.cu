// 256 channel filterbank backend, second stage (after the PFB).
//
// The 256 point FFT is done as two radix-16 steps on the tensor cores, one warp per spectrum:
//
//    n = 16 n1 + n2,  k = k1 + 16 k2
//    X[k] = sum_n2 W16^(n2 k2) * W256^(n2 k1) * sum_n1 W16^(n1 k1) x[n]
//
// so that the input is a row-major 16 x 16 matrix (n1, n2), the output a column-major one (k1, k2).
//
// Loaded by backend/channelizer.py:
//
//    mod = cupy.RawModule(code=src, options=("-arch=sm_80", "-I/usr/local/cuda/include"), backend="nvrtc")
//    fft = mod.get_function("channelize")
//    fft(((n_spectra + 3) // 4,), (128,), (volt, out, n_spectra))
//
// volt  (n_spectra, 256, 2) float16, out (n_spectra, 256) complex64
// power (n_spectra / n_int, 256) float32

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define NCHAN 256
#define WARPS 4

typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> frag_a;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> frag_b;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> frag_c;

struct __align__(32) WarpBuffer {
    __half re[NCHAN];
    __half im[NCHAN];
    float  yre[NCHAN];
    float  yim[NCHAN];
};

struct __align__(32) DftMatrix {
    __half re[256];
    __half im[256];
    __half neg_im[256];
};

// W16^(i j), symmetric
__device__ void init_dft16(DftMatrix &f)
{
    for (int e = threadIdx.x; e < 256; e += blockDim.x) {
        int p = (e / 16) * (e % 16) % 16;
        float s, c;
        sincospif(-p / 8.0f, &s, &c);
        f.re[e]     = __float2half(c);
        f.im[e]     = __float2half(s);
        f.neg_im[e] = __float2half(-s);
    }
}

// result in w.yre / w.yim, natural order
__device__ void fft256(WarpBuffer &w, const DftMatrix &f, const __half2 *volt)
{
    const int lane = threadIdx.x % 32;

    for (int n = lane; n < NCHAN; n += 32) {
        __half2 v = volt[n];
        w.re[n] = __low2half(v);
        w.im[n] = __high2half(v);
    }
    __syncwarp();

    // first step, over n1:  Y = F x
    {
        frag_a fre, fim, fneg;
        frag_b xre, xim;
        frag_c yre, yim;
        wmma::load_matrix_sync(fre, f.re, 16);
        wmma::load_matrix_sync(fim, f.im, 16);
        wmma::load_matrix_sync(fneg, f.neg_im, 16);
        wmma::load_matrix_sync(xre, w.re, 16);
        wmma::load_matrix_sync(xim, w.im, 16);
        wmma::fill_fragment(yre, 0.0f);
        wmma::fill_fragment(yim, 0.0f);
        wmma::mma_sync(yre, fre, xre, yre);
        wmma::mma_sync(yre, fneg, xim, yre);
        wmma::mma_sync(yim, fre, xim, yim);
        wmma::mma_sync(yim, fim, xre, yim);
        wmma::store_matrix_sync(w.yre, yre, 16, wmma::mem_row_major);
        wmma::store_matrix_sync(w.yim, yim, 16, wmma::mem_row_major);
    }
    __syncwarp();

    // twiddles. 1/16 keeps the second step inside the fp16 range
    for (int e = lane; e < NCHAN; e += 32) {
        int k1 = e / 16, n2 = e % 16;
        float s, c;
        sincospif(-(k1 * n2) / 128.0f, &s, &c);
        float re = w.yre[e], im = w.yim[e];
        w.re[e] = __float2half((re * c - im * s) * 0.0625f);
        w.im[e] = __float2half((re * s + im * c) * 0.0625f);
    }
    __syncwarp();

    // second step, over n2:  X = Z F
    {
        frag_a zre, zim;
        frag_b fre, fim, fneg;
        frag_c xre, xim;
        wmma::load_matrix_sync(zre, w.re, 16);
        wmma::load_matrix_sync(zim, w.im, 16);
        wmma::load_matrix_sync(fre, f.re, 16);
        wmma::load_matrix_sync(fim, f.im, 16);
        wmma::load_matrix_sync(fneg, f.neg_im, 16);
        wmma::fill_fragment(xre, 0.0f);
        wmma::fill_fragment(xim, 0.0f);
        wmma::mma_sync(xre, zre, fre, xre);
        wmma::mma_sync(xre, zim, fneg, xre);
        wmma::mma_sync(xim, zre, fim, xim);
        wmma::mma_sync(xim, zim, fre, xim);
        for (int i = 0; i < xre.num_elements; i++) {
            xre.x[i] *= 16.0f;
            xim.x[i] *= 16.0f;
        }
        wmma::store_matrix_sync(w.yre, xre, 16, wmma::mem_col_major);
        wmma::store_matrix_sync(w.yim, xim, 16, wmma::mem_col_major);
    }
    __syncwarp();
}

// grid ceil(n_spectra / 4), 128 threads
extern "C" __global__ void channelize(const __half2 *volt, float2 *out, int n_spectra)
{
    __shared__ DftMatrix f;
    __shared__ WarpBuffer buf[WARPS];
    init_dft16(f);
    __syncthreads();

    const int warp = threadIdx.x / 32;
    const int spectrum = blockIdx.x * WARPS + warp;
    if (spectrum >= n_spectra)
        return;
    WarpBuffer &w = buf[warp];
    fft256(w, f, volt + (size_t)spectrum * NCHAN);
    for (int k = threadIdx.x % 32; k < NCHAN; k += 32)
        out[(size_t)spectrum * NCHAN + k] = make_float2(w.yre[k], w.yim[k]);
}

// |X|^2 averaged over n_int spectra, fftshifted (DC in channel 128)
// grid n_spectra / n_int, 128 threads; the warps take every fourth spectrum of the block
extern "C" __global__ void detect(const __half2 *volt, float *power, int n_int)
{
    __shared__ DftMatrix f;
    __shared__ WarpBuffer buf[WARPS];
    __shared__ float sums[WARPS][NCHAN];
    init_dft16(f);
    __syncthreads();

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    WarpBuffer &w = buf[warp];
    float acc[NCHAN / 32];
    for (int i = 0; i < NCHAN / 32; i++)
        acc[i] = 0.0f;
    for (int t = warp; t < n_int; t += WARPS) {
        fft256(w, f, volt + ((size_t)blockIdx.x * n_int + t) * NCHAN);
        for (int i = 0; i < NCHAN / 32; i++) {
            float re = w.yre[i * 32 + lane], im = w.yim[i * 32 + lane];
            acc[i] += re * re + im * im;
        }
        __syncwarp();
    }
    for (int i = 0; i < NCHAN / 32; i++)
        sums[warp][i * 32 + lane] = acc[i];
    __syncthreads();
    for (int k = threadIdx.x; k < NCHAN; k += blockDim.x) {
        float s = sums[0][k] + sums[1][k] + sums[2][k] + sums[3][k];
        power[(size_t)blockIdx.x * NCHAN + (k + NCHAN / 2) % NCHAN] = s / n_int;
    }
}
