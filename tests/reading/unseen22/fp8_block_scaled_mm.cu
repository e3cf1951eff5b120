// y = x @ w.T with fp8 e4m3 operands and block scales: x has one scale per row and 128 columns, w one per 128 x 128.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

namespace fp8mm {

constexpr int TILE_M = 64;
constexpr int TILE_N = 64;
constexpr int TILE_K = 64;
constexpr int SCALE_BLOCK = 128;
constexpr int ROW_BYTES = TILE_K + 16;

__device__ __forceinline__ void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <typename OutT>
__device__ __forceinline__ OutT from_float(float x);
template <>
__device__ __forceinline__ __nv_bfloat16 from_float(float x) { return __float2bfloat16(x); }
template <>
__device__ __forceinline__ float from_float(float x) { return x; }

template <typename OutT>
__global__ void __launch_bounds__(128)
block_scaled_mm_kernel(const __nv_fp8_e4m3* __restrict__ x, const __nv_fp8_e4m3* __restrict__ w,
                       const float* __restrict__ x_scale, const float* __restrict__ w_scale,
                       OutT* __restrict__ y, int M, int N, int K) {
  __shared__ __align__(16) uint8_t sx[TILE_M * ROW_BYTES];
  __shared__ __align__(16) uint8_t sw[TILE_N * ROW_BYTES];

  const int tid = threadIdx.x;
  const int warp = tid / 32, lane = tid % 32;
  const int g = lane / 4, t = lane % 4;
  const int m0 = blockIdx.y * TILE_M, n0 = blockIdx.x * TILE_N;
  const int k_blocks = K / SCALE_BLOCK;

  float total[TILE_N / 8][4] = {};
  float part[TILE_N / 8][4] = {};

  for (int k0 = 0; k0 < K; k0 += TILE_K) {
    for (int i = tid; i < TILE_M * TILE_K / 16; i += 128) {
      const int r = i / (TILE_K / 16), c = i % (TILE_K / 16) * 16;
      uint4 vx = make_uint4(0, 0, 0, 0), vw = make_uint4(0, 0, 0, 0);
      if (m0 + r < M) vx = *reinterpret_cast<const uint4*>(x + (int64_t)(m0 + r) * K + k0 + c);
      if (n0 + r < N) vw = *reinterpret_cast<const uint4*>(w + (int64_t)(n0 + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(sx + r * ROW_BYTES + c) = vx;
      *reinterpret_cast<uint4*>(sw + r * ROW_BYTES + c) = vw;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += 32) {
      const uint8_t* pa = sx + (warp * 16 + g) * ROW_BYTES + kk + t * 4;
      const uint32_t a[4] = {*reinterpret_cast<const uint32_t*>(pa), *reinterpret_cast<const uint32_t*>(pa + 8 * ROW_BYTES),
                             *reinterpret_cast<const uint32_t*>(pa + 16),
                             *reinterpret_cast<const uint32_t*>(pa + 8 * ROW_BYTES + 16)};
#pragma unroll
      for (int n = 0; n < TILE_N / 8; ++n) {
        const uint8_t* pb = sw + (n * 8 + g) * ROW_BYTES + kk + t * 4;
        const uint32_t b[2] = {*reinterpret_cast<const uint32_t*>(pb), *reinterpret_cast<const uint32_t*>(pb + 16)};
        mma_e4m3(part[n], a, b);
      }
    }
    __syncthreads();

    // promote to the scaled sum at the end of a scale block
    if ((k0 + TILE_K) % SCALE_BLOCK == 0) {
      const int kb = k0 / SCALE_BLOCK;
      const int row = m0 + warp * 16 + g;
      const float s0 = row < M ? x_scale[row * k_blocks + kb] : 0.f;
      const float s1 = row + 8 < M ? x_scale[(row + 8) * k_blocks + kb] : 0.f;
      const float sw_ = w_scale[n0 / SCALE_BLOCK * k_blocks + kb];
#pragma unroll
      for (int n = 0; n < TILE_N / 8; ++n) {
        total[n][0] += part[n][0] * s0 * sw_;
        total[n][1] += part[n][1] * s0 * sw_;
        total[n][2] += part[n][2] * s1 * sw_;
        total[n][3] += part[n][3] * s1 * sw_;
        part[n][0] = part[n][1] = part[n][2] = part[n][3] = 0.f;
      }
    }
  }

#pragma unroll
  for (int n = 0; n < TILE_N / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = m0 + warp * 16 + g + (e / 2) * 8;
      const int col = n0 + n * 8 + t * 2 + (e & 1);
      if (row < M && col < N) y[(int64_t)row * N + col] = from_float<OutT>(total[n][e]);
    }
  }
}

}  // namespace fp8mm

torch::Tensor block_scaled_mm(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& x_scale,
                              const torch::Tensor& w_scale, bool out_float) {
  TORCH_CHECK(x.is_cuda() && w.is_cuda(), "inputs must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat8_e4m3fn && w.scalar_type() == torch::kFloat8_e4m3fn);
  TORCH_CHECK(x.is_contiguous() && w.is_contiguous() && x_scale.is_contiguous() && w_scale.is_contiguous());
  const int M = x.size(0), K = x.size(1), N = w.size(0);
  TORCH_CHECK(K % fp8mm::SCALE_BLOCK == 0, "K must be a multiple of 128");
  TORCH_CHECK(x_scale.size(0) == M && x_scale.size(1) == K / 128);
  TORCH_CHECK(w_scale.size(0) == (N + 127) / 128 && w_scale.size(1) == K / 128);
  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty({M, N}, x.options().dtype(out_float ? torch::kFloat32 : torch::kBFloat16));
  const dim3 grid((N + fp8mm::TILE_N - 1) / fp8mm::TILE_N, (M + fp8mm::TILE_M - 1) / fp8mm::TILE_M);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto* px = reinterpret_cast<const __nv_fp8_e4m3*>(x.data_ptr());
  const auto* pw = reinterpret_cast<const __nv_fp8_e4m3*>(w.data_ptr());
  if (out_float) {
    fp8mm::block_scaled_mm_kernel<float><<<grid, 128, 0, stream>>>(px, pw, x_scale.data_ptr<float>(), w_scale.data_ptr<float>(),
                                                                  y.data_ptr<float>(), M, N, K);
  } else {
    fp8mm::block_scaled_mm_kernel<__nv_bfloat16><<<grid, 128, 0, stream>>>(
        px, pw, x_scale.data_ptr<float>(), w_scale.data_ptr<float>(), reinterpret_cast<__nv_bfloat16*>(y.data_ptr()), M, N, K);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("block_scaled_mm", &block_scaled_mm, "fp8 block scaled matmul"); }
