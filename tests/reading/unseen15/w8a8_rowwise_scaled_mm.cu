// SPDX-License-Identifier: Apache-2.0
// W8A8 linear: per-token activation scales, per-channel weight scales, bf16 out.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <optional>

namespace quant {

using namespace nvcuda;

constexpr int TILE_M = 32;
constexpr int TILE_N = 64;
constexpr int TILE_K = 64;

__global__ void w8a8_scaled_mm_kernel(
    __nv_bfloat16* __restrict__ out,          // [num_tokens, out_features]
    const int8_t* __restrict__ input,         // [num_tokens, in_features]
    const int8_t* __restrict__ weight,        // [out_features, in_features]
    const float* __restrict__ input_scales,   // [num_tokens]
    const float* __restrict__ weight_scales,  // [out_features]
    const __nv_bfloat16* __restrict__ bias,   // [out_features] or nullptr
    const int num_tokens, const int out_features, const int in_features) {
  __shared__ __align__(16) int8_t s_in[TILE_M][TILE_K + 16];
  __shared__ __align__(16) int8_t s_w[TILE_N][TILE_K + 16];
  __shared__ int s_acc[TILE_M][TILE_N];

  const int tok0 = blockIdx.x * TILE_M;
  const int out0 = blockIdx.y * TILE_N;
  const int warp_id = threadIdx.x / 32;
  const int wm = (warp_id & 1) * 16;
  const int wn = (warp_id >> 1) * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[2];
  wmma::fill_fragment(acc[0], 0);
  wmma::fill_fragment(acc[1], 0);

  for (int k0 = 0; k0 < in_features; k0 += TILE_K) {
    for (int idx = threadIdx.x; idx < TILE_M * TILE_K / 16; idx += blockDim.x) {
      const int r = idx / (TILE_K / 16), c = (idx % (TILE_K / 16)) * 16;
      int4 v = make_int4(0, 0, 0, 0);
      if (tok0 + r < num_tokens)
        v = *reinterpret_cast<const int4*>(input + static_cast<int64_t>(tok0 + r) * in_features + k0 + c);
      *reinterpret_cast<int4*>(&s_in[r][c]) = v;
    }
    for (int idx = threadIdx.x; idx < TILE_N * TILE_K / 16; idx += blockDim.x) {
      const int r = idx / (TILE_K / 16), c = (idx % (TILE_K / 16)) * 16;
      int4 v = make_int4(0, 0, 0, 0);
      if (out0 + r < out_features)
        v = *reinterpret_cast<const int4*>(weight + static_cast<int64_t>(out0 + r) * in_features + k0 + c);
      *reinterpret_cast<int4*>(&s_w[r][c]) = v;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
      wmma::load_matrix_sync(a, reinterpret_cast<const signed char*>(&s_in[wm][kk]), TILE_K + 16);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
        wmma::load_matrix_sync(b, reinterpret_cast<const signed char*>(&s_w[wn + j * 16][kk]), TILE_K + 16);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(&s_acc[wm][wn], acc[0], TILE_N, wmma::mem_row_major);
  wmma::store_matrix_sync(&s_acc[wm][wn + 16], acc[1], TILE_N, wmma::mem_row_major);
  __syncthreads();
  for (int idx = threadIdx.x; idx < TILE_M * TILE_N; idx += blockDim.x) {
    const int t = tok0 + idx / TILE_N, o = out0 + idx % TILE_N;
    if (t < num_tokens && o < out_features) {
      float v = static_cast<float>(s_acc[idx / TILE_N][idx % TILE_N]) * input_scales[t] * weight_scales[o];
      if (bias != nullptr) v += __bfloat162float(bias[o]);
      out[static_cast<int64_t>(t) * out_features + o] = __float2bfloat16(v);
    }
  }
}

}  // namespace quant

void w8a8_scaled_mm(torch::Tensor& out, torch::Tensor const& input, torch::Tensor const& weight,
                    torch::Tensor const& input_scales, torch::Tensor const& weight_scales,
                    std::optional<torch::Tensor> const& bias) {
  TORCH_CHECK(input.dtype() == torch::kInt8);
  TORCH_CHECK(weight.dtype() == torch::kInt8);
  int num_tokens = input.numel() / input.size(-1);
  int in_features = input.size(-1);
  int out_features = weight.size(0);
  TORCH_CHECK(in_features % quant::TILE_K == 0);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  dim3 grid((num_tokens + quant::TILE_M - 1) / quant::TILE_M, (out_features + quant::TILE_N - 1) / quant::TILE_N);
  quant::w8a8_scaled_mm_kernel<<<grid, 128, 0, stream>>>(
      reinterpret_cast<__nv_bfloat16*>(out.data_ptr()), input.data_ptr<int8_t>(), weight.data_ptr<int8_t>(),
      input_scales.data_ptr<float>(), weight_scales.data_ptr<float>(),
      bias.has_value() ? reinterpret_cast<const __nv_bfloat16*>(bias->data_ptr()) : nullptr, num_tokens, out_features,
      in_features);
}

TORCH_LIBRARY(quant_ops, m) {
  m.def("w8a8_scaled_mm(Tensor! out, Tensor input, Tensor weight, Tensor input_scales, Tensor weight_scales, Tensor? bias) -> ()");
  m.impl("w8a8_scaled_mm", torch::kCUDA, &w8a8_scaled_mm);
}
