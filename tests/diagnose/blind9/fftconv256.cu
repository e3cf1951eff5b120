// Long convolution by FFT on tensor cores (in the manner of FlashFFTConv), length 256 = 16 x 16:
//   y[b, c, :] = ifft(fft(u[b, c, :]) * kf[c, :]) + skip[c] * u[b, c, :]
// A warp has one sequence. n = 16*n1 + n2, k = k1 + 16*k2, so a DFT is F . X, a twiddle, and . F
#include <cuda_fp16.h>
#include <mma.h>

namespace fftconv {

using namespace nvcuda;

constexpr int R = 16;
constexpr int N = R * R;
constexpr int kWarps = 2;

using FragA = wmma::fragment<wmma::matrix_a, R, R, R, half, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, R, R, R, half, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, R, R, R, float>;

struct Complex16x16 {
    half re[N];
    half im[N];
};

struct Dft {
    half re[N];
    half im[N];
    half neg_im[N];
};

struct WarpScratch {
    Complex16x16 x;
    float re[N];
    float im[N];
};

__device__ __forceinline__ float2 cmul(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

__device__ __forceinline__ float2 twiddle(int num, int den) {
    float s, c;
    sincospif(-2.0f * num / den, &s, &c);
    return make_float2(c, s);
}

// scratch <- M . x
__device__ void left_multiply(WarpScratch& w, const half* m_re, const half* m_im, const half* m_neg_im) {
    FragA fr, fi, fn;
    FragB xr, xi;
    FragC yr, yi;
    wmma::load_matrix_sync(fr, m_re, R);
    wmma::load_matrix_sync(fi, m_im, R);
    wmma::load_matrix_sync(fn, m_neg_im, R);
    wmma::load_matrix_sync(xr, w.x.re, R);
    wmma::load_matrix_sync(xi, w.x.im, R);
    wmma::fill_fragment(yr, 0.0f);
    wmma::fill_fragment(yi, 0.0f);
    wmma::mma_sync(yr, fr, xr, yr);
    wmma::mma_sync(yr, fn, xi, yr);
    wmma::mma_sync(yi, fi, xr, yi);
    wmma::mma_sync(yi, fr, xi, yi);
    wmma::store_matrix_sync(w.re, yr, R, wmma::mem_row_major);
    wmma::store_matrix_sync(w.im, yi, R, wmma::mem_row_major);
    __syncwarp();
}

// scratch <- x . M
__device__ void right_multiply(WarpScratch& w, const half* m_re, const half* m_im, const half* m_neg_im) {
    FragA xr, xi;
    FragB fr, fi, fn;
    FragC yr, yi;
    wmma::load_matrix_sync(xr, w.x.re, R);
    wmma::load_matrix_sync(xi, w.x.im, R);
    wmma::load_matrix_sync(fr, m_re, R);
    wmma::load_matrix_sync(fi, m_im, R);
    wmma::load_matrix_sync(fn, m_neg_im, R);
    wmma::fill_fragment(yr, 0.0f);
    wmma::fill_fragment(yi, 0.0f);
    wmma::mma_sync(yr, xr, fr, yr);
    wmma::mma_sync(yr, xi, fn, yr);
    wmma::mma_sync(yi, xr, fi, yi);
    wmma::mma_sync(yi, xi, fr, yi);
    wmma::store_matrix_sync(w.re, yr, R, wmma::mem_row_major);
    wmma::store_matrix_sync(w.im, yi, R, wmma::mem_row_major);
    __syncwarp();
}

// x <- half(scratch * factor(i)); ends with the warp in step
template <typename Factor>
__device__ __forceinline__ void pointwise(WarpScratch& w, int lane, Factor factor) {
    for (int i = lane; i < N; i += 32) {
        const float2 v = cmul(make_float2(w.re[i], w.im[i]), factor(i));
        w.x.re[i] = __float2half(v.x);
        w.x.im[i] = __float2half(v.y);
    }
    __syncwarp();
}

__global__ void __launch_bounds__(kWarps * 32)
    conv_fwd(const half* __restrict__ u, const float2* __restrict__ kf, const float* __restrict__ skip, half* __restrict__ y,
             int batch, int channels, int length) {
    __shared__ __align__(32) Dft dft;
    __shared__ __align__(32) WarpScratch scratch[kWarps];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < N; i += blockDim.x) {
        const float2 f = twiddle((i / R) * (i % R) % R, R);
        dft.re[i] = __float2half(f.x);
        dft.im[i] = __float2half(f.y);
        dft.neg_im[i] = __float2half(-f.y);
    }
    __syncthreads();

    WarpScratch& w = scratch[warp];
    for (int s = blockIdx.x * kWarps + warp; s < batch * channels; s += gridDim.x * kWarps) {
        const int c = s % channels;
        const half* seq = u + (size_t)s * length;
        for (int i = lane; i < N; i += 32) {
            w.x.re[i] = i < length ? seq[i] : __float2half(0.0f);
            w.x.im[i] = __float2half(0.0f);
        }
        __syncwarp();

        // forward: columns first, scaled by 1/16 on the way to stay in half's range
        left_multiply(w, dft.re, dft.im, dft.neg_im);
        pointwise(w, lane, [](int i) { return twiddle((i / R) * (i % R), N); });
        right_multiply(w, dft.re, dft.im, dft.neg_im);

        // the filter's spectrum lies in natural order, ours is [k1][k2]
        const float2* spectrum = kf + (size_t)c * N;
        pointwise(w, lane, [spectrum](int i) {
            const float2 f = spectrum[i / R + R * (i % R)];
            return make_float2(f.x / R, f.y / R);
        });

        // inverse: the conjugate matrices, in the other order
        right_multiply(w, dft.re, dft.neg_im, dft.im);
        pointwise(w, lane, [](int i) {
            const float2 t = twiddle((i / R) * (i % R), N);
            return make_float2(t.x, -t.y);
        });
        left_multiply(w, dft.re, dft.neg_im, dft.im);

        half* out = y + (size_t)s * length;
        for (int i = lane; i < length; i += 32)
            out[i] = __float2half(w.re[i] / R + skip[c] * __half2float(seq[i]));
        __syncwarp();
    }
}

}  // namespace fftconv
