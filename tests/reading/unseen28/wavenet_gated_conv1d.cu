// Gated dilated causal convolution of a WaveNet layer (bf16, channels last)
//
//   z[b,t,:] = bias + sum_tap  x[b, t - (taps - 1 - tap) * dilation, :] * w[tap]     (x before t = 0 is 0)
//   y[b,t,c] = tanh(z[b,t,c]) * sigmoid(z[b,t,C + c])
//
//   x [B, T, C]   w [taps, C, 2C]   bias [2C] fp32   y [B, T, C]
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace wavenet {

using bf16 = __nv_bfloat16;
namespace wm = nvcuda::wmma;

constexpr int kTimeTile = 64;
constexpr int kChanTile = 32;          // output channels per block, filter and gate side by side
constexpr int kRedTile  = 32;          // input channels per step
constexpr int kLdX      = kRedTile + 8;
constexpr int kLdW      = 2 * kChanTile + 8;
constexpr int kLdZ      = 2 * kChanTile + 4;

template <int C>
__global__ void __launch_bounds__(128)
gated_conv1d_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, const float* __restrict__ bias,
                    bf16* __restrict__ y, int T, int taps, int dilation)
{
    static_assert(C % kRedTile == 0, "channels");
    __shared__ __align__(32) bf16  xs[kTimeTile][kLdX];
    __shared__ __align__(32) bf16  ws[kRedTile][kLdW];
    __shared__ __align__(32) float zs[kTimeTile][kLdZ];

    const int t0   = blockIdx.x * kTimeTile;
    const int c0   = blockIdx.y * kChanTile;
    const bf16* xb = x + (size_t)blockIdx.z * T * C;
    const int warp = threadIdx.x / 32;

    // a warp has 16 time steps and all 64 columns
    wm::fragment<wm::accumulator, 16, 16, 16, float> acc[4];
#pragma unroll
    for (auto& f : acc) wm::fill_fragment(f, 0.f);

    for (int tap = 0; tap < taps; ++tap) {
        const int shift = (taps - 1 - tap) * dilation;
        for (int ci = 0; ci < C; ci += kRedTile) {
            for (int i = threadIdx.x; i < kTimeTile * kRedTile / 8; i += 128) {
                const int r = i / 4, q = i % 4 * 8;
                const int t = t0 + r - shift;
                uint4 v{0, 0, 0, 0};
                if (t >= 0 && t < T) v = *reinterpret_cast<const uint4*>(xb + (size_t)t * C + ci + q);
                *reinterpret_cast<uint4*>(&xs[r][q]) = v;
            }
            // columns 0..31 filter, 32..63 gate
            for (int i = threadIdx.x; i < kRedTile * 8; i += 128) {
                const int r = i / 8, q = i % 8 * 8;
                const int col = q < kChanTile ? c0 + q : C + c0 + q - kChanTile;
                *reinterpret_cast<uint4*>(&ws[r][q]) =
                    *reinterpret_cast<const uint4*>(w + ((size_t)tap * C + ci + r) * (2 * C) + col);
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < kRedTile; k += 16) {
                wm::fragment<wm::matrix_a, 16, 16, 16, bf16, wm::row_major> fx;
                wm::load_matrix_sync(fx, &xs[warp * 16][k], kLdX);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    wm::fragment<wm::matrix_b, 16, 16, 16, bf16, wm::row_major> fw;
                    wm::load_matrix_sync(fw, &ws[k][j * 16], kLdW);
                    wm::mma_sync(acc[j], fx, fw, acc[j]);
                }
            }
            __syncthreads();
        }
    }

#pragma unroll
    for (int j = 0; j < 4; ++j) wm::store_matrix_sync(&zs[warp * 16][j * 16], acc[j], kLdZ, wm::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTimeTile * kChanTile; i += 128) {
        const int r = i / kChanTile, c = i % kChanTile;
        if (t0 + r >= T) continue;
        const float f = zs[r][c] + bias[c0 + c];
        const float g = zs[r][kChanTile + c] + bias[C + c0 + c];
        y[((size_t)blockIdx.z * T + t0 + r) * C + c0 + c] = __float2bfloat16(tanhf(f) / (1.f + __expf(-g)));
    }
}

// channels: 64 or 128
inline cudaError_t gated_conv1d(const bf16* x, const bf16* w, const float* bias, bf16* y, int batch, int T,
                                int channels, int taps, int dilation, cudaStream_t stream = nullptr)
{
    const dim3 grid((T + kTimeTile - 1) / kTimeTile, channels / kChanTile, batch);
    if (channels == 64)
        gated_conv1d_kernel<64><<<grid, 128, 0, stream>>>(x, w, bias, y, T, taps, dilation);
    else if (channels == 128)
        gated_conv1d_kernel<128><<<grid, 128, 0, stream>>>(x, w, bias, y, T, taps, dilation);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

}  // namespace wavenet
