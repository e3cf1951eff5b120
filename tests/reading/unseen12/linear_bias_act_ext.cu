#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <mma.h>

namespace {

using namespace nvcuda;
typedef __nv_bfloat16 bf16;

enum class Act : int { kNone = 0, kRelu = 1, kGelu = 2 };

template <Act act>
__device__ __forceinline__ float apply(float x) {
  if constexpr (act == Act::kRelu) return fmaxf(x, 0.f);
  if constexpr (act == Act::kGelu) {
    const float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.f + tanhf(u));
  }
  return x;
}

constexpr int kTileM = 64, kTileN = 64, kTileK = 32, kThreads = 128;

// out = act(x @ w.T + bias);  x: [tokens, in_features], w: [out_features, in_features]
template <Act act, bool kHasBias>
__global__ void __launch_bounds__(kThreads)
    linear_act_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, const bf16* __restrict__ bias,
                      bf16* __restrict__ out, int64_t tokens, int64_t out_features, int64_t in_features) {
  __shared__ __align__(32) bf16 s_x[kTileM][kTileK + 8];
  __shared__ __align__(32) bf16 s_w[kTileN][kTileK + 8];
  __shared__ __align__(32) float s_out[4][16][16 + 4];

  const int64_t row0 = int64_t(blockIdx.y) * kTileM, col0 = int64_t(blockIdx.x) * kTileN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bf16 zero = __float2bfloat16(0.f);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
#pragma unroll
  for (auto& one : acc) wmma::fill_fragment(one, 0.f);

  for (int64_t k0 = 0; k0 < in_features; k0 += kTileK) {
    for (int i = threadIdx.x; i < kTileM * kTileK; i += kThreads) {
      const int r = i / kTileK, c = i % kTileK;
      s_x[r][c] = (row0 + r < tokens && k0 + c < in_features) ? x[(row0 + r) * in_features + k0 + c] : zero;
      s_w[r][c] = (col0 + r < out_features && k0 + c < in_features) ? w[(col0 + r) * in_features + k0 + c] : zero;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
      wmma::load_matrix_sync(fa, &s_x[warp * 16][kk], kTileK + 8);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
        wmma::load_matrix_sync(fb, &s_w[j * 16][kk], kTileK + 8);
        wmma::mma_sync(acc[j], fa, fb, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 4; ++j) {
    wmma::store_matrix_sync(&s_out[warp][0][0], acc[j], 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32) {
      const int64_t r = row0 + warp * 16 + i / 16, c = col0 + j * 16 + i % 16;
      if (r < tokens && c < out_features) {
        float v = s_out[warp][i / 16][i % 16];
        if constexpr (kHasBias) v += __bfloat162float(bias[c]);
        out[r * out_features + c] = __float2bfloat16(apply<act>(v));
      }
    }
    __syncwarp();
  }
}

}  // namespace

#define CHECK_INPUT(t)                                         \
  TORCH_CHECK((t).is_cuda(), #t " must be a CUDA tensor");     \
  TORCH_CHECK((t).is_contiguous(), #t " must be contiguous");  \
  TORCH_CHECK((t).scalar_type() == at::kBFloat16, #t " must be bfloat16")

#define LAUNCH(ACT, BIAS)                                                                                          \
  linear_act_kernel<ACT, BIAS><<<grid, kThreads, 0, stream>>>(                                                     \
      reinterpret_cast<const bf16*>(x.data_ptr<at::BFloat16>()),                                                   \
      reinterpret_cast<const bf16*>(weight.data_ptr<at::BFloat16>()),                                              \
      BIAS ? reinterpret_cast<const bf16*>(bias->data_ptr<at::BFloat16>()) : nullptr,                              \
      reinterpret_cast<bf16*>(out.data_ptr<at::BFloat16>()), tokens, out_features, in_features)

at::Tensor fused_linear(const at::Tensor& x, const at::Tensor& weight, const c10::optional<at::Tensor>& bias,
                        const std::string& activation) {
  CHECK_INPUT(x);
  CHECK_INPUT(weight);
  const at::cuda::CUDAGuard guard(x.device());
  const int64_t in_features = x.size(-1);
  const int64_t out_features = weight.size(0);
  const int64_t tokens = x.numel() / in_features;
  TORCH_CHECK(weight.size(1) == in_features, "shape mismatch");

  auto sizes = x.sizes().vec();
  sizes.back() = out_features;
  auto out = at::empty(sizes, x.options());
  const dim3 grid((out_features + kTileN - 1) / kTileN, (tokens + kTileM - 1) / kTileM);
  auto stream = at::cuda::getCurrentCUDAStream();

  if (activation == "gelu") {
    if (bias.has_value()) { LAUNCH(Act::kGelu, true); } else { LAUNCH(Act::kGelu, false); }
  } else if (activation == "relu") {
    if (bias.has_value()) { LAUNCH(Act::kRelu, true); } else { LAUNCH(Act::kRelu, false); }
  } else {
    if (bias.has_value()) { LAUNCH(Act::kNone, true); } else { LAUNCH(Act::kNone, false); }
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("fused_linear", &fused_linear, "act(x @ w.T + b)", py::arg("x"), py::arg("weight"), py::arg("bias") = py::none(),
        py::arg("activation") = "none");
}
