// Conv1d (kernel 3, padding 1, stride 1 or 2) + bias + GELU, as in the stem of a speech encoder.
//
//   x    [B][C_IN][T_IN]            fp16
//   w    [C_OUT][C_IN][3]           fp16, torch layout
//   bias [C_OUT]                    fp32
//   y    [B][C_OUT][T_OUT]          fp16
//
// No im2col: a slab of the input, CI channels of all time steps that a tile of outputs needs, is transposed into shared
// memory once. The three taps are the same slab shifted by one row, and the stride is nothing but the leading dimension
// of the B fragments.
#include <cuda_fp16.h>
#include <mma.h>

namespace asr {

namespace wmma = nvcuda::wmma;

struct ConvShape {
  int c_in, c_out;
  int t_in, t_out;
};

template <int STRIDE>
struct ConvConfig {
  static constexpr int TAPS = 3;
  static constexpr int PAD = 1;
  static constexpr int TILE_C = 64;                                  // output channels per block, 16 per warp
  static constexpr int TILE_T = 32;                                  // output time steps per block
  static constexpr int CI = 16;                                      // input channels per step
  static constexpr int SLAB_T = (TILE_T - 1) * STRIDE + TAPS;        // input time steps of a tile
  static constexpr int LD_X = CI + 16;
  static constexpr int LD_W = CI + 16;
  static constexpr int LD_Y = TILE_T + 4;
  static constexpr int THREADS = 128;
};

__device__ __forceinline__ float gelu_erf(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }

template <int STRIDE>
__global__ void conv1d_gelu(const __half* __restrict__ x, const __half* __restrict__ w,
                            const float* __restrict__ bias, __half* __restrict__ y, ConvShape shape) {
  using Cfg = ConvConfig<STRIDE>;

  __shared__ __align__(32) __half x_slab[Cfg::SLAB_T][Cfg::LD_X];             // [time][channel]
  __shared__ __align__(32) __half w_tile[Cfg::TAPS][Cfg::TILE_C][Cfg::LD_W];  // [tap][out][in]
  __shared__ __align__(32) float y_tile[Cfg::TILE_C][Cfg::LD_Y];

  const int t0 = blockIdx.x * Cfg::TILE_T;
  const int co0 = blockIdx.y * Cfg::TILE_C;
  const int b = blockIdx.z;
  const int warp = threadIdx.x / 32;

  const __half* xb = x + static_cast<size_t>(b) * shape.c_in * shape.t_in;
  const int t_first = t0 * STRIDE - Cfg::PAD;  // input time of row 0 of the slab

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[Cfg::TILE_T / 16];
  for (auto& f : acc) wmma::fill_fragment(f, 0.0f);

  for (int ci0 = 0; ci0 < shape.c_in; ci0 += Cfg::CI) {
    // input: time runs along the lanes, so that global reads are coalesced
    for (int i = threadIdx.x; i < Cfg::CI * Cfg::SLAB_T; i += Cfg::THREADS) {
      const int ci = i / Cfg::SLAB_T;
      const int t = i % Cfg::SLAB_T;
      const int t_src = t_first + t;
      const bool inside = ci0 + ci < shape.c_in && t_src >= 0 && t_src < shape.t_in;
      x_slab[t][ci] = inside ? xb[static_cast<size_t>(ci0 + ci) * shape.t_in + t_src] : __float2half(0.0f);
    }
    // weights: (out, in, tap) -> (tap, out, in)
    for (int i = threadIdx.x; i < Cfg::TILE_C * Cfg::CI * Cfg::TAPS; i += Cfg::THREADS) {
      const int co = i / (Cfg::CI * Cfg::TAPS);
      const int rest = i % (Cfg::CI * Cfg::TAPS);
      const int ci = rest / Cfg::TAPS;
      const int tap = rest % Cfg::TAPS;
      const bool inside = co0 + co < shape.c_out && ci0 + ci < shape.c_in;
      w_tile[tap][co][ci] =
          inside ? w[(static_cast<size_t>(co0 + co) * shape.c_in + ci0 + ci) * Cfg::TAPS + tap] : __float2half(0.0f);
    }
    __syncthreads();

#pragma unroll
    for (int tap = 0; tap < Cfg::TAPS; ++tap) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> wf;
      wmma::load_matrix_sync(wf, &w_tile[tap][warp * 16][0], Cfg::LD_W);
#pragma unroll
      for (int j = 0; j < Cfg::TILE_T / 16; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> xf;
        wmma::load_matrix_sync(xf, &x_slab[j * 16 * STRIDE + tap][0], STRIDE * Cfg::LD_X);
        wmma::mma_sync(acc[j], wf, xf, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < Cfg::TILE_T / 16; ++j)
    wmma::store_matrix_sync(&y_tile[warp * 16][j * 16], acc[j], Cfg::LD_Y, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < Cfg::TILE_C * Cfg::TILE_T; i += Cfg::THREADS) {
    const int co = i / Cfg::TILE_T;
    const int t = i % Cfg::TILE_T;
    if (co0 + co >= shape.c_out || t0 + t >= shape.t_out) continue;
    const float v = y_tile[co][t] + bias[co0 + co];
    y[(static_cast<size_t>(b) * shape.c_out + co0 + co) * shape.t_out + t0 + t] = __float2half(gelu_erf(v));
  }
}

void conv1d_gelu_launch(const __half* x, const __half* w, const float* bias, __half* y, int batch, int c_in, int c_out,
                        int t_in, int stride, cudaStream_t stream) {
  const ConvShape shape{c_in, c_out, t_in, (t_in + 2 - 3) / stride + 1};
  const dim3 grid((shape.t_out + 31) / 32, (c_out + 63) / 64, batch);
  if (stride == 1) {
    conv1d_gelu<1><<<grid, 128, 0, stream>>>(x, w, bias, y, shape);
  } else {
    conv1d_gelu<2><<<grid, 128, 0, stream>>>(x, w, bias, y, shape);
  }
}

}  // namespace asr
