#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <cuda_runtime.h>

namespace myops {

template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask, 32);
  return v;
}

template <typename T>
__device__ T block_sum(T v) {
  static __shared__ T shared[32];
  int lane = threadIdx.x & 31;
  int wid = threadIdx.x >> 5;
  v = warp_sum(v);
  if (lane == 0) shared[wid] = v;
  __syncthreads();
  v = (threadIdx.x < (blockDim.x + 31) / 32) ? shared[lane] : T(0);
  return warp_sum(v);
}

template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* __restrict__ out,          // [..., hidden_size]
                                const scalar_t* __restrict__ input,  // [..., hidden_size]
                                const scalar_t* __restrict__ weight, // [hidden_size]
                                const float epsilon, const int num_tokens, const int hidden_size) {
  __shared__ float s_variance;
  float variance = 0.0f;
  const scalar_t* in_row = input + static_cast<int64_t>(blockIdx.x) * hidden_size;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float x = static_cast<float>(in_row[idx]);
    variance += x * x;
  }
  variance = block_sum<float>(variance);
  if (threadIdx.x == 0) {
    s_variance = rsqrtf(variance / hidden_size + epsilon);
  }
  __syncthreads();
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    float x = static_cast<float>(in_row[idx]);
    out[static_cast<int64_t>(blockIdx.x) * hidden_size + idx] =
        static_cast<scalar_t>(x * s_variance * static_cast<float>(weight[idx]));
  }
}

}  // namespace myops

void rms_norm(torch::Tensor& out, torch::Tensor& input, torch::Tensor& weight, double epsilon) {
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous(), "rms_norm: contiguous tensors only");
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;
  dim3 grid(num_tokens);
  dim3 block(std::min(hidden_size, 1024));
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "rms_norm_kernel", [&] {
    myops::rms_norm_kernel<scalar_t><<<grid, block, 0, stream>>>(
        out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
        static_cast<float>(epsilon), num_tokens, hidden_size);
  });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("rms_norm", &rms_norm, "RMSNorm (CUDA)");
}
