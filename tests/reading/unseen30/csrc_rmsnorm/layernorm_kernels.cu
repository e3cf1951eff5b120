#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <algorithm>

#include "block_reduce.cuh"

namespace serve {

// out[t, :] = input[t, :] / rms(input[t, :]) * weight
template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* __restrict__ out,           // [..., hidden_size]
                                const scalar_t* __restrict__ input,   // [..., hidden_size]
                                const scalar_t* __restrict__ weight,  // [hidden_size]
                                const float epsilon, const int num_tokens, const int hidden_size) {
  __shared__ float s_variance;
  float variance = 0.0f;

  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float x = (float)input[blockIdx.x * hidden_size + idx];
    variance += x * x;
  }
  variance = blockReduceSum<float>(variance);
  if (threadIdx.x == 0) {
    s_variance = rsqrtf(variance / hidden_size + epsilon);
  }
  __syncthreads();

  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    float x = (float)input[blockIdx.x * hidden_size + idx];
    out[blockIdx.x * hidden_size + idx] = ((scalar_t)(x * s_variance)) * weight[idx];
  }
}

// residual += input; input = rms_norm(residual) * weight, both in place
template <typename scalar_t>
__global__ void fused_add_rms_norm_kernel(scalar_t* __restrict__ input,         // [..., hidden_size]
                                          scalar_t* __restrict__ residual,      // [..., hidden_size]
                                          const scalar_t* __restrict__ weight,  // [hidden_size]
                                          const float epsilon, const int num_tokens, const int hidden_size) {
  __shared__ float s_variance;
  float variance = 0.0f;

  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    scalar_t z = input[blockIdx.x * hidden_size + idx];
    z += residual[blockIdx.x * hidden_size + idx];
    float x = (float)z;
    variance += x * x;
    residual[blockIdx.x * hidden_size + idx] = z;
  }
  variance = blockReduceSum<float>(variance);
  if (threadIdx.x == 0) {
    s_variance = rsqrtf(variance / hidden_size + epsilon);
  }
  __syncthreads();

  // every thread reads back only what it wrote itself
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    float x = (float)residual[blockIdx.x * hidden_size + idx];
    input[blockIdx.x * hidden_size + idx] = ((scalar_t)(x * s_variance)) * weight[idx];
  }
}

// rms_norm followed by dynamic per-token int8 quantization
template <typename scalar_t>
__global__ void rms_norm_dynamic_int8_kernel(int8_t* __restrict__ out,             // [..., hidden_size]
                                             float* __restrict__ scale,            // [num_tokens]
                                             const scalar_t* __restrict__ input,   // [..., hidden_size]
                                             const scalar_t* __restrict__ weight,  // [hidden_size]
                                             const float epsilon, const int hidden_size) {
  __shared__ float s_rms;
  __shared__ float s_amax;
  const scalar_t* row = input + (int64_t)blockIdx.x * hidden_size;

  float sum = 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float x = (float)row[idx];
    sum += x * x;
  }
  sum = blockReduceSum<float>(sum);
  if (threadIdx.x == 0) s_rms = rsqrtf(sum / hidden_size + epsilon);
  __syncthreads();

  float amax = 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float v = (float)row[idx] * s_rms * (float)weight[idx];
    amax = fmaxf(amax, fabsf(v));
  }
  amax = blockReduceMax<float>(amax);
  if (threadIdx.x == 0) {
    s_amax = amax;
    scale[blockIdx.x] = amax / 127.0f;
  }
  __syncthreads();

  const float inv_scale = s_amax > 0.0f ? 127.0f / s_amax : 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float v = (float)row[idx] * s_rms * (float)weight[idx];
    int q = __float2int_rn(v * inv_scale);
    q = min(127, max(-128, q));
    out[(int64_t)blockIdx.x * hidden_size + idx] = (int8_t)q;
  }
}

static dim3 block_for(int hidden_size) {
  // a whole number of warps, at most 1024 threads
  return dim3(std::min((hidden_size + 31) / 32 * 32, 1024));
}

}  // namespace serve

void rms_norm(torch::Tensor& out, torch::Tensor& input, torch::Tensor& weight, double epsilon) {
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;

  dim3 grid(num_tokens);
  dim3 block = serve::block_for(hidden_size);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "rms_norm_kernel", [&] {
    serve::rms_norm_kernel<scalar_t><<<grid, block, 0, stream>>>(
        out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), epsilon, num_tokens,
        hidden_size);
  });
}

void fused_add_rms_norm(torch::Tensor& input, torch::Tensor& residual, torch::Tensor& weight, double epsilon) {
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;

  dim3 grid(num_tokens);
  dim3 block = serve::block_for(hidden_size);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "fused_add_rms_norm_kernel", [&] {
    serve::fused_add_rms_norm_kernel<scalar_t><<<grid, block, 0, stream>>>(
        input.data_ptr<scalar_t>(), residual.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), epsilon, num_tokens,
        hidden_size);
  });
}

void rms_norm_dynamic_int8(torch::Tensor& out, torch::Tensor& scale, torch::Tensor& input, torch::Tensor& weight,
                           double epsilon) {
  TORCH_CHECK(out.scalar_type() == at::kChar && scale.scalar_type() == at::kFloat);
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;

  dim3 grid(num_tokens);
  dim3 block = serve::block_for(hidden_size);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, input.scalar_type(), "rms_norm_dynamic_int8_kernel", [&] {
    serve::rms_norm_dynamic_int8_kernel<scalar_t><<<grid, block, 0, stream>>>(
        out.data_ptr<int8_t>(), scale.data_ptr<float>(), input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
        epsilon, hidden_size);
  });
}
