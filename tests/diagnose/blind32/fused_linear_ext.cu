// fused_linear: out = residual + act(x @ weight.T + bias), one launch for a batch of layers (experts, heads, ensembles)
//
//   x        (B, M, K)
//   weight   (B, N, K)    as torch.nn.Linear keeps it
//   bias     (B, N)       float32 master copy, may be undefined
//   residual (B, M, N)    may be undefined
//   out      (B, M, N)
//
// Half or bfloat16 with float accumulation. K and N have to be multiples of 8 (16 byte loads), M is free.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

enum class Act : int { kNone = 0, kRelu = 1, kGelu = 2, kSilu = 3 };

template <Act act>
__device__ __forceinline__ float activate(float v) {
  if constexpr (act == Act::kRelu) {
    return fmaxf(v, 0.f);
  } else if constexpr (act == Act::kGelu) {
    // the tanh form, approximate="tanh"
    const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
    return 0.5f * v * (1.f + tanhf(inner));
  } else if constexpr (act == Act::kSilu) {
    return v / (1.f + expf(-v));
  } else {
    return v;
  }
}

__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void from_float(float v, __half& out) { out = __float2half_rn(v); }
__device__ __forceinline__ void from_float(float v, __nv_bfloat16& out) { out = __float2bfloat16_rn(v); }

template <typename scalar_t>
struct alignas(16) Vec8 {
  scalar_t v[8];
};

// TILE_ROWS x TILE_COLS of a row major (rows, cols) matrix, zeros where it ends
template <typename scalar_t, int TILE_ROWS, int TILE_COLS, int LD, int THREADS>
__device__ __forceinline__ void load_tile(scalar_t* tile, const scalar_t* src, int row0, int col0, int rows, int cols) {
  constexpr int VECS_PER_ROW = TILE_COLS / 8;
  for (int i = threadIdx.x; i < TILE_ROWS * VECS_PER_ROW; i += THREADS) {
    const int r = i / VECS_PER_ROW;
    const int c = (i % VECS_PER_ROW) * 8;
    uint4 value = make_uint4(0u, 0u, 0u, 0u);
    if (row0 + r < rows && col0 + c < cols) {
      value = *reinterpret_cast<const uint4*>(src + static_cast<int64_t>(row0 + r) * cols + col0 + c);
    }
    *reinterpret_cast<uint4*>(tile + r * LD + c) = value;
  }
}

template <typename scalar_t, int BLOCK_M, int BLOCK_N, int BLOCK_K, int WARP_M, int WARP_N, Act act>
__global__ void __launch_bounds__((BLOCK_M / WARP_M) * (BLOCK_N / WARP_N) * 32)
fused_linear_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                    const float* __restrict__ bias, const scalar_t* __restrict__ residual,
                    scalar_t* __restrict__ out, int M, int N, int K) {
  constexpr int WARPS_N = BLOCK_N / WARP_N;
  constexpr int NUM_WARPS = (BLOCK_M / WARP_M) * WARPS_N;
  constexpr int THREADS = NUM_WARPS * 32;
  constexpr int FRAGS_M = WARP_M / 16;
  constexpr int FRAGS_N = WARP_N / 16;
  constexpr int LD_AB = BLOCK_K + 8;  // skew against bank conflicts
  constexpr int LD_STAGE = 16 + 4;

  __shared__ __align__(128) scalar_t x_smem[BLOCK_M * LD_AB];
  __shared__ __align__(128) scalar_t w_smem[BLOCK_N * LD_AB];
  __shared__ __align__(128) float stage_smem[NUM_WARPS][16 * LD_STAGE];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = (warp / WARPS_N) * WARP_M;
  const int warp_n = (warp % WARPS_N) * WARP_N;
  const int block_m = blockIdx.y * BLOCK_M;
  const int block_n = blockIdx.x * BLOCK_N;

  const int64_t b = blockIdx.z;
  x += b * M * K;
  weight += b * N * K;
  out += b * M * N;
  if (bias != nullptr) bias += b * N;
  if (residual != nullptr) residual += b * M * N;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FRAGS_M][FRAGS_N];
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
#pragma unroll
    for (int j = 0; j < FRAGS_N; ++j) wmma::fill_fragment(acc[i][j], 0.f);
  }

  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    load_tile<scalar_t, BLOCK_M, BLOCK_K, LD_AB, THREADS>(x_smem, x, block_m, k0, M, K);
    load_tile<scalar_t, BLOCK_N, BLOCK_K, LD_AB, THREADS>(w_smem, weight, block_n, k0, N, K);
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, scalar_t, wmma::row_major> a_frag[FRAGS_M];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, scalar_t, wmma::col_major> b_frag[FRAGS_N];
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i)
        wmma::load_matrix_sync(a_frag[i], x_smem + (warp_m + i * 16) * LD_AB + kk, LD_AB);
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
        wmma::load_matrix_sync(b_frag[j], w_smem + (warp_n + j * 16) * LD_AB + kk, LD_AB);
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
      }
    }
    __syncthreads();
  }

  // Epilogue, one 16 x 16 tile at a time by way of the warp's own staging tile: a lane gets half a row of it
  float* stage = stage_smem[warp];
  const int stage_row = lane / 2;
  const int stage_col = (lane % 2) * 8;
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
#pragma unroll
    for (int j = 0; j < FRAGS_N; ++j) {
      wmma::store_matrix_sync(stage, acc[i][j], LD_STAGE, wmma::mem_row_major);
      __syncwarp();

      const int row = block_m + warp_m + i * 16 + stage_row;
      const int col = block_n + warp_n + j * 16 + stage_col;
      if (row < M && col < N) {
        const int64_t offset = static_cast<int64_t>(row) * N + col;
        const float* values = stage + stage_row * LD_STAGE + stage_col;
        Vec8<scalar_t> res, result;
        if (residual != nullptr) res = *reinterpret_cast<const Vec8<scalar_t>*>(residual + offset);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float v = values[e];
          if (bias != nullptr) v += bias[col + e];
          v = activate<act>(v);
          if (residual != nullptr) v += to_float(res.v[e]);
          from_float(v, result.v[e]);
        }
        *reinterpret_cast<Vec8<scalar_t>*>(out + offset) = result;
      }
      __syncwarp();  // the next tile goes to the same place
    }
  }
}

template <typename scalar_t, Act act>
void launch(const torch::Tensor& x, const torch::Tensor& weight, const float* bias, const void* residual,
            torch::Tensor& out) {
  constexpr int BM = 64, BN = 64, BK = 32, WM = 32, WN = 32;
  const int B = x.size(0), M = x.size(1), K = x.size(2), N = weight.size(1);
  const dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM, B);
  const dim3 block((BM / WM) * (BN / WN) * 32);
  fused_linear_kernel<scalar_t, BM, BN, BK, WM, WN, act><<<grid, block, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const scalar_t*>(x.data_ptr()), reinterpret_cast<const scalar_t*>(weight.data_ptr()), bias,
      reinterpret_cast<const scalar_t*>(residual), reinterpret_cast<scalar_t*>(out.data_ptr()), M, N, K);
}

torch::Tensor fused_linear(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias,
                           c10::optional<torch::Tensor> residual) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && weight.is_contiguous(), "contiguous CUDA tensors expected");
  TORCH_CHECK(x.size(2) % 8 == 0 && weight.size(1) % 8 == 0, "K and N must be multiples of 8");
  auto out = torch::empty({x.size(0), x.size(1), weight.size(1)}, x.options());
  const float* bias_ptr = bias.has_value() ? bias->data_ptr<float>() : nullptr;
  const void* residual_ptr = residual.has_value() ? residual->data_ptr() : nullptr;
  if (x.scalar_type() == torch::kHalf) {
    launch<__half, Act::kGelu>(x, weight, bias_ptr, residual_ptr, out);
  } else {
    launch<__nv_bfloat16, Act::kGelu>(x, weight, bias_ptr, residual_ptr, out);
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fused_linear", &fused_linear, "residual + gelu(x @ w.T + b)"); }
