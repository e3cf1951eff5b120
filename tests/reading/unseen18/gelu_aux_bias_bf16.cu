// Linear layer with bias and GELU, like cublasLt's EPILOGUE_GELU_AUX_BIAS: the pre-activation is kept for backward.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <torch/extension.h>

#include <vector>

namespace {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 32;

__device__ __forceinline__ float gelu_tanh(float x) {
  constexpr float kBeta = 0.7978845608028654f;
  constexpr float kKappa = 0.044715f;
  return 0.5f * x * (1.f + tanhf(kBeta * (x + kKappa * x * x * x)));
}

__global__ void linear_gelu_aux_kernel(const bf16* __restrict__ input, const bf16* __restrict__ weight,
                                       const bf16* __restrict__ bias, bf16* __restrict__ output,
                                       bf16* __restrict__ pre_activation, int batch, int in_features,
                                       int out_features) {
  __shared__ float stage[4][16][20];
  const int warp = threadIdx.x / warpSize, lane = threadIdx.x % warpSize;
  const int row = blockIdx.x * BLOCK_M + (warp / 2) * 16;
  const int col = blockIdx.y * BLOCK_N + (warp % 2) * 16;
  if (row >= batch || col >= out_features) return;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int k = 0; k < in_features; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> w;
    wmma::load_matrix_sync(x, input + row * in_features + k, in_features);
    wmma::load_matrix_sync(w, weight + col * in_features + k, in_features);
    wmma::mma_sync(acc, x, w, acc);
  }
  wmma::store_matrix_sync(&stage[warp][0][0], acc, 20, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += warpSize) {
    const int r = i / 16, c = i % 16;
    const float z = stage[warp][r][c] + __bfloat162float(bias[col + c]);
    const size_t at = (size_t)(row + r) * out_features + col + c;
    pre_activation[at] = __float2bfloat16(z);
    output[at] = __float2bfloat16(gelu_tanh(z));
  }
}

}  // namespace

std::vector<torch::Tensor> linear_gelu_aux_forward(torch::Tensor input, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(input.is_cuda() && input.scalar_type() == at::kBFloat16, "input must be a bf16 CUDA tensor");
  TORCH_CHECK(input.size(-1) == weight.size(1), "in_features differ");
  const at::cuda::OptionalCUDAGuard guard(device_of(input));
  auto x = input.contiguous().view({-1, weight.size(1)});
  const int batch = x.size(0), in_features = x.size(1), out_features = weight.size(0);
  TORCH_CHECK(batch % 16 == 0 && in_features % 16 == 0 && out_features % 16 == 0);
  auto output = torch::empty({batch, out_features}, x.options());
  auto aux = torch::empty_like(output);
  const dim3 grid((batch + BLOCK_M - 1) / BLOCK_M, (out_features + BLOCK_N - 1) / BLOCK_N);
  linear_gelu_aux_kernel<<<grid, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const bf16*>(x.data_ptr<at::BFloat16>()),
      reinterpret_cast<const bf16*>(weight.data_ptr<at::BFloat16>()),
      reinterpret_cast<const bf16*>(bias.data_ptr<at::BFloat16>()),
      reinterpret_cast<bf16*>(output.data_ptr<at::BFloat16>()),
      reinterpret_cast<bf16*>(aux.data_ptr<at::BFloat16>()), batch, in_features, out_features);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {output, aux};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &linear_gelu_aux_forward, "Linear + bias + GELU, keeps the pre-activation");
}
