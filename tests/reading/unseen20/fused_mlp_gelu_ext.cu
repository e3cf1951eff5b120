#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_BF16(x) TORCH_CHECK(x.scalar_type() == torch::kBFloat16, #x " must be bfloat16")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x); \
  CHECK_BF16(x)

namespace {

enum class Activation { kNone, kGelu };

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kLdAB = kTileK + 8;
constexpr int kLdC = kTileN + 4;
constexpr int kThreads = 128;

// tanh approximation, as torch.nn.functional.gelu(x, approximate="tanh")
__device__ __forceinline__ float gelu(float x) {
  constexpr float kBeta = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kKappa = 0.044715f;
  return 0.5f * x * (1.f + tanhf(kBeta * (x + kKappa * x * x * x)));
}

// rows x kTileK of a row-major matrix into shared memory, zero outside
__device__ __forceinline__ void load_tile(__nv_bfloat16* dst, const __nv_bfloat16* src, int row0, int rows,
                                          int k0, int k) {
  for (int i = threadIdx.x; i < kTileM * kTileK / 8; i += kThreads) {
    const int r = i / (kTileK / 8);
    const int c = i % (kTileK / 8) * 8;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row0 + r < rows && k0 + c < k)
      v = *reinterpret_cast<const float4*>(src + static_cast<int64_t>(row0 + r) * k + k0 + c);
    *reinterpret_cast<float4*>(dst + r * kLdAB + c) = v;
  }
}

// out[m, n] = act(sum_k input[m, k] * weight[n, k] + bias[n])
template <Activation act>
__global__ void linear_act_kernel(const __nv_bfloat16* __restrict__ input, const __nv_bfloat16* __restrict__ weight,
                                  const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ out,
                                  int batch, int out_features, int in_features) {
  using namespace nvcuda::wmma;
  __shared__ __align__(128) __nv_bfloat16 sh_input[kTileM * kLdAB];
  __shared__ __align__(128) __nv_bfloat16 sh_weight[kTileN * kLdAB];
  __shared__ __align__(128) float sh_out[kTileM * kLdC];

  const int m0 = blockIdx.x * kTileM;
  const int n0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x / 32;
  const int wm = warp / 2 * 32;
  const int wn = warp % 2 * 32;

  fragment<accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) fill_fragment(acc[i][j], 0.f);

  for (int k0 = 0; k0 < in_features; k0 += kTileK) {
    load_tile(sh_input, input, m0, batch, k0, in_features);
    load_tile(sh_weight, weight, n0, out_features, k0, in_features);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a[2];
      fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_matrix_sync(a[i], sh_input + (wm + i * 16) * kLdAB + kk, kLdAB);
        load_matrix_sync(b[i], sh_weight + (wn + i * 16) * kLdAB + kk, kLdAB);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      store_matrix_sync(sh_out + (wm + i * 16) * kLdC + wn + j * 16, acc[i][j], kLdC, mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
    const int m = m0 + i / kTileN, n = n0 + i % kTileN;
    if (m >= batch || n >= out_features) continue;
    float x = sh_out[i / kTileN * kLdC + i % kTileN] + __bfloat162float(bias[n]);
    if (act == Activation::kGelu) x = gelu(x);
    out[static_cast<int64_t>(m) * out_features + n] = __float2bfloat16(x);
  }
}

template <Activation act>
torch::Tensor linear_act(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias) {
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  CHECK_INPUT(bias);
  const int batch = input.size(0);
  const int in_features = input.size(1);
  const int out_features = weight.size(0);
  TORCH_CHECK(weight.size(1) == in_features && bias.size(0) == out_features, "shape mismatch");
  TORCH_CHECK(in_features % 8 == 0, "in_features must be a multiple of 8");

  auto out = torch::empty({batch, out_features}, input.options());
  const dim3 blocks((batch + kTileM - 1) / kTileM, (out_features + kTileN - 1) / kTileN);
  linear_act_kernel<act><<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __nv_bfloat16*>(input.data_ptr<at::BFloat16>()),
      reinterpret_cast<const __nv_bfloat16*>(weight.data_ptr<at::BFloat16>()),
      reinterpret_cast<const __nv_bfloat16*>(bias.data_ptr<at::BFloat16>()),
      reinterpret_cast<__nv_bfloat16*>(out.data_ptr<at::BFloat16>()), batch, out_features, in_features);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace

torch::Tensor linear_gelu_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias) {
  return linear_act<Activation::kGelu>(input, weight, bias);
}

// fc2(gelu(fc1(x)))
torch::Tensor mlp_forward(torch::Tensor input, torch::Tensor fc1_weight, torch::Tensor fc1_bias,
                          torch::Tensor fc2_weight, torch::Tensor fc2_bias) {
  auto hidden = linear_act<Activation::kGelu>(input, fc1_weight, fc1_bias);
  return linear_act<Activation::kNone>(hidden, fc2_weight, fc2_bias);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("linear_gelu_forward", &linear_gelu_forward, "Linear + bias + GELU forward (CUDA)");
  m.def("mlp_forward", &mlp_forward, "Two-layer MLP forward (CUDA)");
}
