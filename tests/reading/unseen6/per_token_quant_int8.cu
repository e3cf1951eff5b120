#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
#include <cmath>

static inline __device__ int8_t float_to_int8_rn(float x) {
  uint32_t dst;
  asm volatile("cvt.rni.sat.s8.f32 %0, %1;\n" : "=r"(dst) : "f"(x));
  return reinterpret_cast<const int8_t&>(dst);
}

template <typename scalar_t>
__global__ void dynamic_scaled_int8_quant_kernel(const scalar_t* __restrict__ input, int8_t* __restrict__ out,
                                                 float* __restrict__ scale, const int hidden_size) {
  __shared__ float warp_max[32];
  const int token = blockIdx.x;
  const int tid = threadIdx.x;
  float absmax = 0.f;
  for (int i = tid; i < hidden_size; i += blockDim.x)
    absmax = fmaxf(absmax, fabsf(static_cast<float>(input[token * hidden_size + i])));
  for (int o = 16; o > 0; o >>= 1) absmax = fmaxf(absmax, __shfl_xor_sync(0xffffffffu, absmax, o));
  if (tid % 32 == 0) warp_max[tid / 32] = absmax;
  __syncthreads();
  if (tid < 32) {
    absmax = tid < blockDim.x / 32 ? warp_max[tid] : 0.f;
    for (int o = 16; o > 0; o >>= 1) absmax = fmaxf(absmax, __shfl_xor_sync(0xffffffffu, absmax, o));
    if (tid == 0) {
      warp_max[0] = absmax;
      scale[token] = absmax / 127.0f;
    }
  }
  __syncthreads();
  const float block_absmax = warp_max[0];
  const float inv = block_absmax > 0.f ? 127.0f / block_absmax : 0.f;
  for (int i = tid; i < hidden_size; i += blockDim.x)
    out[token * hidden_size + i] = float_to_int8_rn(static_cast<float>(input[token * hidden_size + i]) * inv);
}

std::tuple<torch::Tensor, torch::Tensor> quant_per_token(torch::Tensor input) {
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;
  auto out = torch::empty_like(input, torch::kInt8);
  auto scales = torch::empty({num_tokens, 1}, input.options().dtype(torch::kFloat32));
  dim3 const grid(num_tokens);
  dim3 const block(256);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "dynamic_scaled_int8_quant_kernel", [&] {
    dynamic_scaled_int8_quant_kernel<scalar_t><<<grid, block, 0, stream>>>(
        input.data_ptr<scalar_t>(), out.data_ptr<int8_t>(), scales.data_ptr<float>(), hidden_size);
  });
  return {out, scales};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("quant_per_token", &quant_per_token); }
