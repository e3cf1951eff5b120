// ConvTranspose1d + LeakyReLU (HiFi-GAN upsampler), as implicit GEMMs: one per output phase.
//   y[n, co, t] = bias[co] + sum over ci, r with (t + pad - r) % stride == 0 of x[n, ci, (t + pad - r) / stride] w[ci, co, r]
// Phase f: t = stride * u + f. Its taps are r = r0, r0 + stride, ... with r0 = (f + pad) % stride, so
//   GEMM: M = C_out, N = outputs of the phase, K = C_in * taps
#include <cuda_fp16.h>
#include <mma.h>

template <int KERNEL, int STRIDE_, int PADDING>
struct UpsampleConfig {
    static constexpr int kernel = KERNEL;
    static constexpr int stride = STRIDE_;
    static constexpr int padding = PADDING;
    static constexpr int taps = KERNEL / STRIDE_;
    static_assert(KERNEL % STRIDE_ == 0, "phases have the same number of taps");
};

constexpr int TILE_CO = 32;
constexpr int TILE_T = 32;
constexpr int TILE_K = 16;
constexpr int NUM_THREADS = 128;
constexpr int SKEW = 8;

template <class Config>
__global__ void conv_transpose1d(const __half *x, const __half *w, const float *bias, __half *y, int c_in, int c_out,
                                 int len_in, int len_out, float negative_slope) {
    using namespace nvcuda;
    __shared__ __align__(32) __half w_tile[TILE_K][TILE_CO + SKEW];      // K x M
    __shared__ __align__(32) __half x_tile[TILE_K][TILE_T + SKEW];       // K x N
    __shared__ __align__(32) float y_tile[TILE_CO][TILE_T];

    const int phase = blockIdx.z % Config::stride;
    const int sample = blockIdx.z / Config::stride;
    const int co0 = blockIdx.y * TILE_CO;
    const int u0 = blockIdx.x * TILE_T;

    const int first_tap = (phase + Config::padding) % Config::stride;
    const int shift = (phase + Config::padding) / Config::stride;        // of the input for the first tap
    const int gemm_k = c_in * Config::taps;

    x += (size_t)sample * c_in * len_in;
    y += (size_t)sample * c_out * len_out;

    const int warp = threadIdx.x / warpSize;
    const int warp_co = (warp / 2) * 16, warp_t = (warp % 2) * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);

    for (int k0 = 0; k0 < gemm_k; k0 += TILE_K) {
        for (int e = threadIdx.x; e < TILE_K * TILE_CO; e += NUM_THREADS) {
            const int kk = e / TILE_CO, m = e % TILE_CO;
            const int ci = (k0 + kk) / Config::taps;
            const int r = first_tap + (k0 + kk) % Config::taps * Config::stride;
            __half value = __float2half(0.0f);
            if (ci < c_in && co0 + m < c_out) value = w[((size_t)ci * c_out + co0 + m) * Config::kernel + r];
            w_tile[kk][m] = value;
        }
        for (int e = threadIdx.x; e < TILE_K * TILE_T; e += NUM_THREADS) {
            const int kk = e / TILE_T, n = e % TILE_T;
            const int ci = (k0 + kk) / Config::taps;
            const int tap = (k0 + kk) % Config::taps;
            const int s = u0 + n + shift - tap;                          // where the input is read
            __half value = __float2half(0.0f);
            if (ci < c_in && s >= 0 && s < len_in) value = x[(size_t)ci * len_in + s];
            x_tile[kk][n] = value;
        }
        __syncthreads();

        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> wf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> xf;
        wmma::load_matrix_sync(wf, &w_tile[0][warp_co], TILE_CO + SKEW);
        wmma::load_matrix_sync(xf, &x_tile[0][warp_t], TILE_T + SKEW);
        wmma::mma_sync(sum, wf, xf, sum);
        __syncthreads();
    }

    wmma::store_matrix_sync(&y_tile[warp_co][warp_t], sum, TILE_T, wmma::mem_row_major);
    __syncthreads();

    for (int e = threadIdx.x; e < TILE_CO * TILE_T; e += NUM_THREADS) {
        const int m = e / TILE_T, n = e % TILE_T;
        const int co = co0 + m;
        const int t = (u0 + n) * Config::stride + phase;
        if (co >= c_out || t >= len_out) continue;
        float v = y_tile[m][n] + bias[co];
        v = v > 0.0f ? v : v * negative_slope;
        y[(size_t)co * len_out + t] = __float2half(v);
    }
}

template __global__ void conv_transpose1d<UpsampleConfig<4, 2, 1>>(const __half *, const __half *, const float *, __half *,
                                                                   int, int, int, int, float);
template __global__ void conv_transpose1d<UpsampleConfig<6, 3, 1>>(const __half *, const __half *, const float *, __half *,
                                                                   int, int, int, int, float);
