// W8A8 linear layer: per-token quantised activations (optionally asymmetric),
// per-output-channel symmetric weights, int32 tensor core accumulation.
//
//   x_q     : int8  [M, K]        x = x_scale[m] * (x_q - x_zp[m])
//   w_q     : int8  [N, K]        w = w_scale[n] * w_q
//   w_sum   : int32 [N]           sum over k of w_q (computed once when loading the model)
//   out     : fp16  [M, N]        x @ w.T + bias
//
//   sum_k (x_q - zp) * w_q = acc - zp * w_sum
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <cstdint>

namespace w8a8 {

constexpr int BLK_M = 64;
constexpr int BLK_N = 64;
constexpr int BLK_K = 64;              // bytes
constexpr int SMEM_STRIDE = BLK_K + 16;  // 20 words: the 8 rows x 4 words of a fragment hit 32 banks
constexpr int NUM_THREADS = 128;

__device__ __forceinline__ void mma_s8_16832(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// K % 16 == 0, M and N free
template <bool kHasZp, bool kHasBias>
__global__ void __launch_bounds__(NUM_THREADS)
w8a8_gemm_kernel(const int8_t* __restrict__ x, const int8_t* __restrict__ w,
                 const float* __restrict__ x_scale, const int32_t* __restrict__ x_zp,
                 const float* __restrict__ w_scale, const int32_t* __restrict__ w_sum,
                 const __half* __restrict__ bias, __half* __restrict__ out, int M, int N, int K) {
  __shared__ __align__(16) int8_t xs[BLK_M * SMEM_STRIDE];
  __shared__ __align__(16) int8_t ws[BLK_N * SMEM_STRIDE];

  const int m_block = blockIdx.y * BLK_M;
  const int n_block = blockIdx.x * BLK_N;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int warp_m = (warp >> 1) * 32;
  const int warp_n = (warp & 1) * 32;
  const int group = lane >> 2;   // row (a, c) or column (b) in the fragment
  const int tig = lane & 3;      // thread in group

  int acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int r = 0; r < 4; r++) acc[i][j][r] = 0;

  for (int k0 = 0; k0 < K; k0 += BLK_K) {
    // 64 rows x 4 chunks of 16 bytes = 256 chunks per operand
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int c = threadIdx.x + i * NUM_THREADS;
      const int row = c >> 2;
      const int kc = (c & 3) * 16;
      int4 vx = make_int4(0, 0, 0, 0);
      int4 vw = make_int4(0, 0, 0, 0);
      if (k0 + kc < K) {
        if (m_block + row < M)
          vx = *reinterpret_cast<const int4*>(x + (size_t)(m_block + row) * K + k0 + kc);
        if (n_block + row < N)
          vw = *reinterpret_cast<const int4*>(w + (size_t)(n_block + row) * K + k0 + kc);
      }
      *reinterpret_cast<int4*>(&xs[row * SMEM_STRIDE + kc]) = vx;
      *reinterpret_cast<int4*>(&ws[row * SMEM_STRIDE + kc]) = vw;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BLK_K; kk += 32) {
      uint32_t a[2][4];
      uint32_t b[4][2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int8_t* p = &xs[(warp_m + i * 16 + group) * SMEM_STRIDE + kk + tig * 4];
        a[i][0] = *reinterpret_cast<const uint32_t*>(p);
        a[i][1] = *reinterpret_cast<const uint32_t*>(p + 8 * SMEM_STRIDE);
        a[i][2] = *reinterpret_cast<const uint32_t*>(p + 16);
        a[i][3] = *reinterpret_cast<const uint32_t*>(p + 8 * SMEM_STRIDE + 16);
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const int8_t* p = &ws[(warp_n + j * 8 + group) * SMEM_STRIDE + kk + tig * 4];
        b[j][0] = *reinterpret_cast<const uint32_t*>(p);
        b[j][1] = *reinterpret_cast<const uint32_t*>(p + 16);
      }
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) mma_s8_16832(acc[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

  // dequantise: c0,c1 are (group, 2*tig), (group, 2*tig + 1); c2,c3 are eight rows below
#pragma unroll
  for (int i = 0; i < 2; i++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int m = m_block + warp_m + i * 16 + group + h * 8;
      if (m >= M) continue;
      const float sx = x_scale[m];
      const int zp = kHasZp ? x_zp[m] : 0;
#pragma unroll
      for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const int n = n_block + warp_n + j * 8 + tig * 2 + e;
          if (n >= N) continue;
          int v = acc[i][j][h * 2 + e];
          if (kHasZp) v -= zp * w_sum[n];
          float f = static_cast<float>(v) * sx * w_scale[n];
          if (kHasBias) f += __half2float(bias[n]);
          out[(size_t)m * N + n] = __float2half(f);
        }
      }
    }
  }
}

// one block per token: symmetric dynamic quantisation, q = round(x / s), s = max|x| / 127
template <typename scalar_t>
__global__ void quant_per_token_kernel(const scalar_t* __restrict__ x, int8_t* __restrict__ q,
                                       float* __restrict__ scale, int K) {
  __shared__ float red[32];
  const scalar_t* row = x + (size_t)blockIdx.x * K;
  float amax = 0.f;
  for (int i = threadIdx.x; i < K; i += blockDim.x) amax = fmaxf(amax, fabsf(static_cast<float>(row[i])));
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, o));
  if ((threadIdx.x & 31) == 0) red[threadIdx.x >> 5] = amax;
  __syncthreads();
  amax = red[0];
  for (int i = 1; i < (int)blockDim.x / 32; i++) amax = fmaxf(amax, red[i]);

  const float s = fmaxf(amax, 1e-8f) / 127.f;
  if (threadIdx.x == 0) scale[blockIdx.x] = s;
  const float inv = 1.f / s;
  for (int i = threadIdx.x; i < K; i += blockDim.x) {
    int v = __float2int_rn(static_cast<float>(row[i]) * inv);
    v = max(-127, min(127, v));
    q[(size_t)blockIdx.x * K + i] = static_cast<int8_t>(v);
  }
}

}  // namespace w8a8

std::vector<torch::Tensor> quant_per_token(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dim() == 2);
  const c10::cuda::CUDAGuard guard(x.device());
  auto q = torch::empty(x.sizes(), x.options().dtype(torch::kChar));
  auto s = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "quant_per_token", [&] {
    w8a8::quant_per_token_kernel<scalar_t><<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), q.data_ptr<int8_t>(), s.data_ptr<float>(), x.size(1));
  });
  return {q, s};
}

torch::Tensor w8a8_linear(torch::Tensor x, torch::Tensor w, torch::Tensor x_scale, c10::optional<torch::Tensor> x_zp,
                          torch::Tensor w_scale, c10::optional<torch::Tensor> w_sum,
                          c10::optional<torch::Tensor> bias) {
  const int M = x.size(0), K = x.size(1), N = w.size(0);
  TORCH_CHECK(w.size(1) == K && K % 16 == 0);
  TORCH_CHECK(x_zp.has_value() == w_sum.has_value(), "zero points need the weight sums");
  const c10::cuda::CUDAGuard guard(x.device());
  auto out = torch::empty({M, N}, x.options().dtype(torch::kHalf));
  dim3 grid((N + w8a8::BLK_N - 1) / w8a8::BLK_N, (M + w8a8::BLK_M - 1) / w8a8::BLK_M);
  auto stream = at::cuda::getCurrentCUDAStream();

#define LAUNCH(ZP, BIAS)                                                                              \
  w8a8::w8a8_gemm_kernel<ZP, BIAS><<<grid, w8a8::NUM_THREADS, 0, stream>>>(                           \
      x.data_ptr<int8_t>(), w.data_ptr<int8_t>(), x_scale.data_ptr<float>(),                          \
      ZP ? x_zp.value().data_ptr<int32_t>() : nullptr, w_scale.data_ptr<float>(),                     \
      ZP ? w_sum.value().data_ptr<int32_t>() : nullptr,                                               \
      BIAS ? reinterpret_cast<const __half*>(bias.value().data_ptr<at::Half>()) : nullptr,            \
      reinterpret_cast<__half*>(out.data_ptr<at::Half>()), M, N, K)

  if (x_zp.has_value()) {
    if (bias.has_value()) { LAUNCH(true, true); } else { LAUNCH(true, false); }
  } else {
    if (bias.has_value()) { LAUNCH(false, true); } else { LAUNCH(false, false); }
  }
#undef LAUNCH
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("quant_per_token", &quant_per_token);
  m.def("w8a8_linear", &w8a8_linear);
}
