// Weight-only int8 linear layer:  y = act(x @ dequant(W)^T + b)
//
//   x      [M, K]            fp16
//   qweight[N, K]            int8, symmetric
//   scales [N, K / group]    fp16, group = 32, 64, 128 or K
//   bias   [N]               fp16, optional
//   y      [M, N]            fp16
//
// K % 32 == 0 and group % 32 == 0; M and N are free.
// Weights are dequantised while they go to shared memory, the rest is a plain 64x64x32 WMMA GEMM.

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace {

using namespace nvcuda;

constexpr int TILE_M = 64;
constexpr int TILE_N = 64;
constexpr int TILE_K = 32;
constexpr int LDS = TILE_K + 8;
constexpr int LDC = TILE_N + 4;
constexpr int NUM_THREADS = 128;

enum Activation { kNone = 0, kSilu = 1 };

template <int ACT>
__device__ __forceinline__ float activate(float v) {
  if (ACT == kSilu) return v / (1.0f + __expf(-v));
  return v;
}

template <int ACT>
__global__ void __launch_bounds__(NUM_THREADS) w8a16_gemm_kernel(
    const half* __restrict__ x, const int8_t* __restrict__ qweight, const half* __restrict__ scales,
    const half* __restrict__ bias, half* __restrict__ y, int M, int N, int K, int group) {
  __shared__ __align__(32) half sx[TILE_M * LDS];
  __shared__ __align__(32) half sw[TILE_N * LDS];
  __shared__ __align__(32) float sc[TILE_M * LDC];

  const int tid = threadIdx.x;
  const int warp = tid >> 5;
  const int wm = (warp >> 1) * 32;
  const int wn = (warp & 1) * 32;
  const int m0 = blockIdx.y * TILE_M;
  const int n0 = blockIdx.x * TILE_N;
  const int groups_per_row = K / group;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

  for (int k0 = 0; k0 < K; k0 += TILE_K) {
    // activations: 64 rows of 4 x 8 halves
    for (int c = tid; c < TILE_M * TILE_K / 8; c += NUM_THREADS) {
      const int r = c >> 2;
      const int kc = (c & 3) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m0 + r < M) v = *reinterpret_cast<const uint4*>(x + (int64_t)(m0 + r) * K + k0 + kc);
      *reinterpret_cast<uint4*>(&sx[r * LDS + kc]) = v;
    }
    // weights: 64 rows of 2 x 16 int8, one 16 byte load for each thread
    {
      const int r = tid >> 1;
      const int kc = (tid & 1) * 16;
      uint4 packed = make_uint4(0, 0, 0, 0);
      float s = 0.0f;
      if (n0 + r < N) {
        packed = *reinterpret_cast<const uint4*>(qweight + (int64_t)(n0 + r) * K + k0 + kc);
        s = __half2float(scales[(int64_t)(n0 + r) * groups_per_row + k0 / group]);
      }
      const int8_t* q = reinterpret_cast<const int8_t*>(&packed);
#pragma unroll
      for (int e = 0; e < 16; ++e) sw[r * LDS + kc + e] = __float2half(static_cast<float>(q[e]) * s);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(a[i], &sx[(wm + i * 16) * LDS + kk], LDS);
#pragma unroll
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(b[j], &sw[(wn + j * 16) * LDS + kk], LDS);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&sc[(wm + i * 16) * LDC + wn + j * 16], acc[i][j], LDC, wmma::mem_row_major);
  __syncthreads();

  for (int c = tid; c < TILE_M * TILE_N; c += NUM_THREADS) {
    const int r = c / TILE_N;
    const int n = c % TILE_N;
    if (m0 + r < M && n0 + n < N) {
      float v = sc[r * LDC + n];
      if (bias != nullptr) v += __half2float(bias[n0 + n]);
      y[(int64_t)(m0 + r) * N + n0 + n] = __float2half(activate<ACT>(v));
    }
  }
}

}  // namespace

torch::Tensor w8a16_linear(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales,
                           c10::optional<torch::Tensor> bias, bool silu) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.scalar_type() == at::kHalf, "x must be a contiguous fp16 CUDA tensor");
  TORCH_CHECK(qweight.is_contiguous() && qweight.scalar_type() == at::kChar, "qweight must be int8");
  TORCH_CHECK(scales.is_contiguous() && scales.scalar_type() == at::kHalf, "scales must be fp16");
  const int M = x.size(0), K = x.size(1), N = qweight.size(0);
  TORCH_CHECK(qweight.size(1) == K, "shape mismatch");
  const int group = K / scales.size(1);
  TORCH_CHECK(K % 32 == 0 && group % 32 == 0 && K % group == 0, "K and the group must be multiples of 32");

  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty({M, N}, x.options());
  const half* bias_ptr = bias.has_value() ? reinterpret_cast<const half*>(bias->data_ptr<at::Half>()) : nullptr;
  dim3 grid((N + TILE_N - 1) / TILE_N, (M + TILE_M - 1) / TILE_M);
  auto stream = at::cuda::getCurrentCUDAStream();
  auto launch = silu ? w8a16_gemm_kernel<kSilu> : w8a16_gemm_kernel<kNone>;
  launch<<<grid, NUM_THREADS, 0, stream>>>(
      reinterpret_cast<const half*>(x.data_ptr<at::Half>()), qweight.data_ptr<int8_t>(),
      reinterpret_cast<const half*>(scales.data_ptr<at::Half>()), bias_ptr,
      reinterpret_cast<half*>(y.data_ptr<at::Half>()), M, N, K, group);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("w8a16_linear", &w8a16_linear, "int8 weight-only linear", py::arg("x"), py::arg("qweight"), py::arg("scales"),
        py::arg("bias") = py::none(), py::arg("silu") = false);
}
