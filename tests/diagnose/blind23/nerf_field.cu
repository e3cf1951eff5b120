// NeRF field in one kernel: positional encoding -> 64 -> 64 -> (r, g, b, sigma).
// Biases are left out as in fully fused MLPs. A warp takes 16 samples along and keeps their activations in its own
// piece of shared memory; the weights of all layers are loaded once per block.
//
//   encoding of (x, y, z): x, y, z, then for l = 0 .. L-1:  sin(2^l pi x), sin(2^l pi y), sin(2^l pi z), cos(...) x 3
//   weights: w0 [ENC_PAD, 64], w1 [64, 64], w2 [64, 16]  row-major half; the last 12 columns of w2 are not used
#include <cuda_fp16.h>
#include <mma.h>

namespace nerf {

using namespace nvcuda;

template <int kFreqs>
struct FieldTraits {
    static constexpr int kEnc = 3 + 6 * kFreqs;
    static constexpr int kEncPad = (kEnc + 15) / 16 * 16;
    static constexpr int kWidth = 64;
    static constexpr int kOut = 16;
    static constexpr int kWarps = 4;
    static constexpr int kSkew = 8;
    static constexpr int kActLd = (kEncPad > kWidth ? kEncPad : kWidth) + kSkew;
    static constexpr int kWLd = kWidth + kSkew;
    static constexpr int kW2Ld = kOut + kSkew;
};

enum class Activation { None, ReLU };

// 16 x K activations times K x N weights; the result goes back to where the activations were
template <int K, int N, Activation act>
__device__ void layer(half* s_act, int ld_act, const half* s_w, int ld_w) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[N / 16];
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> rounded;

    for (int n = 0; n < N / 16; ++n) wmma::fill_fragment(sum[n], 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, s_act + k, ld_act);
        for (int n = 0; n < N / 16; ++n) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(b, s_w + k * ld_w + n * 16, ld_w);
            wmma::mma_sync(sum[n], a, b, sum[n]);
        }
    }
    __syncwarp();   // everybody has read the activations
    for (int n = 0; n < N / 16; ++n) {
        for (int i = 0; i < rounded.num_elements; ++i) {
            float v = sum[n].x[i];
            if (act == Activation::ReLU) v = fmaxf(v, 0.0f);
            rounded.x[i] = __float2half(v);
        }
        wmma::store_matrix_sync(s_act + n * 16, rounded, ld_act, wmma::mem_row_major);
    }
    __syncwarp();
}

template <int kRows, int kCols, int kThreads>
__device__ void load_weights(half* dst, int ld, const half* __restrict__ src) {
    for (int i = threadIdx.x * 8; i < kRows * kCols; i += kThreads * 8)
        *reinterpret_cast<int4*>(dst + (i / kCols) * ld + i % kCols) = *reinterpret_cast<const int4*>(src + i);
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }
__device__ __forceinline__ float softplus(float x) { return x > 15.0f ? x : log1pf(__expf(x)); }

template <int kFreqs>
__global__ void field_forward(const float* __restrict__ positions, const half* __restrict__ w0,
                              const half* __restrict__ w1, const half* __restrict__ w2, float4* __restrict__ rgb_sigma,
                              int n_samples, float density_bias) {
    using T = FieldTraits<kFreqs>;
    __shared__ __align__(32) half s_w0[T::kEncPad * T::kWLd];
    __shared__ __align__(32) half s_w1[T::kWidth * T::kWLd];
    __shared__ __align__(32) half s_w2[T::kWidth * T::kW2Ld];
    __shared__ __align__(32) half s_act[T::kWarps][16 * T::kActLd];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int kThreads = T::kWarps * 32;

    load_weights<T::kEncPad, T::kWidth, kThreads>(s_w0, T::kWLd, w0);
    load_weights<T::kWidth, T::kWidth, kThreads>(s_w1, T::kWLd, w1);
    load_weights<T::kWidth, T::kOut, kThreads>(s_w2, T::kW2Ld, w2);
    __syncthreads();

    half* act = s_act[warp];
    const int tiles = (n_samples + 15) / 16;
    for (int tile = blockIdx.x * T::kWarps + warp; tile < tiles; tile += gridDim.x * T::kWarps) {
        // encode: one (sample, coordinate) pair per lane and turn
        for (int i = lane; i < 16 * 3; i += 32) {
            const int r = i / 3, dim = i % 3;
            const int sample = tile * 16 + r;
            const float x = sample < n_samples ? positions[sample * 3 + dim] : 0.0f;
            half* row = act + r * T::kActLd;
            row[dim] = __float2half(x);
            for (int l = 0; l < kFreqs; ++l) {
                float s, c;
                sincospif(x * (float)(1 << l), &s, &c);
                row[3 + l * 6 + dim] = __float2half(s);
                row[3 + l * 6 + 3 + dim] = __float2half(c);
            }
        }
        // the rest of the padded row
        for (int i = lane; i < 16 * (T::kEncPad - T::kEnc); i += 32) {
            const int r = i / (T::kEncPad - T::kEnc), c = T::kEnc + i % (T::kEncPad - T::kEnc);
            act[r * T::kActLd + c] = __float2half(0.0f);
        }
        __syncwarp();

        layer<T::kEncPad, T::kWidth, Activation::ReLU>(act, T::kActLd, s_w0, T::kWLd);
        layer<T::kWidth, T::kWidth, Activation::ReLU>(act, T::kActLd, s_w1, T::kWLd);
        layer<T::kWidth, T::kOut, Activation::None>(act, T::kActLd, s_w2, T::kW2Ld);

        if (lane < 16 && tile * 16 + lane < n_samples) {
            const half* row = act + lane * T::kActLd;
            float4 out;
            out.x = sigmoid(__half2float(row[0]));
            out.y = sigmoid(__half2float(row[1]));
            out.z = sigmoid(__half2float(row[2]));
            out.w = softplus(__half2float(row[3]) + density_bias);
            rgb_sigma[tile * 16 + lane] = out;
        }
        __syncwarp();
    }
}

void launch_field(const float* positions, const half* w0, const half* w1, const half* w2, float4* rgb_sigma, int n_samples,
                  cudaStream_t stream) {
    const int blocks = (n_samples + 63) / 64 < 216 ? (n_samples + 63) / 64 : 216;
    field_forward<5><<<blocks, 128, 0, stream>>>(positions, w0, w1, w2, rgb_sigma, n_samples, -1.0f);
}

}  // namespace nerf
