#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>

#include <cub/cub.cuh>

// Fused residual add + RMSNorm + dynamic per-token symmetric int8 quantization.
//
//   residual   <- input + residual
//   y          =  residual / rms(residual) * weight
//   scales[t]  =  max|y[t]| / 127
//   out[t]     =  round(y[t] / scales[t])

namespace vllm {

static inline __device__ int8_t float_to_int8_rn(float x) {
  uint32_t dst;
  asm volatile("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(dst) : "f"(x));
  return reinterpret_cast<const int8_t&>(dst);
}

struct MaxOp {
  __device__ __forceinline__ float operator()(const float& a, const float& b) const { return fmaxf(a, b); }
};

template <typename scalar_t>
__global__ void fused_add_rms_norm_dynamic_int8_quant_kernel(
    int8_t* __restrict__ out,             // [num_tokens, hidden_size]
    float* __restrict__ scales,           // [num_tokens]
    const scalar_t* __restrict__ input,   // [num_tokens, hidden_size]
    scalar_t* __restrict__ residual,      // [num_tokens, hidden_size]
    const scalar_t* __restrict__ weight,  // [hidden_size]
    const float epsilon, const int hidden_size) {
  __shared__ float s_inv_rms;
  __shared__ float s_absmax;
  using BlockReduce = cub::BlockReduce<float, 1024>;
  __shared__ typename BlockReduce::TempStorage reduce_store;

  const int64_t token_offset = (int64_t)blockIdx.x * hidden_size;
  input += token_offset;
  residual += token_offset;
  out += token_offset;

  // pass 1: residual add, sum of squares (of the rounded sum, as the unfused kernels see it)
  float variance = 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const scalar_t z = (scalar_t)((float)input[idx] + (float)residual[idx]);
    const float x = (float)z;
    variance += x * x;
    residual[idx] = z;
  }
  variance = BlockReduce(reduce_store).Sum(variance, blockDim.x);
  if (threadIdx.x == 0) {
    s_inv_rms = rsqrtf(variance / hidden_size + epsilon);
  }
  __syncthreads();

  // pass 2: the largest normalized value of the token
  const float inv_rms = s_inv_rms;
  float absmax = 0.0f;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float y = (float)residual[idx] * inv_rms * (float)weight[idx];
    absmax = fmaxf(absmax, fabsf(y));
  }
  absmax = BlockReduce(reduce_store).Reduce(absmax, MaxOp{}, blockDim.x);
  if (threadIdx.x == 0) {
    s_absmax = absmax;
    scales[blockIdx.x] = absmax / 127.0f;
  }
  __syncthreads();

  // pass 3: quantize
  absmax = s_absmax;
  const float inv_scale = absmax == 0.0f ? 0.0f : 127.0f / absmax;
  for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
    const float y = (float)residual[idx] * inv_rms * (float)weight[idx];
    out[idx] = float_to_int8_rn(y * inv_scale);
  }
}

}  // namespace vllm

void fused_add_rms_norm_dynamic_int8_quant(torch::Tensor& out,           // [..., hidden_size], int8
                                           torch::Tensor& scales,        // [num_tokens, 1], float
                                           torch::Tensor const& input,   // [..., hidden_size]
                                           torch::Tensor& residual,      // [..., hidden_size]
                                           torch::Tensor const& weight,  // [hidden_size]
                                           double epsilon) {
  TORCH_CHECK(input.is_contiguous());
  TORCH_CHECK(residual.is_contiguous());
  TORCH_CHECK(out.is_contiguous());
  TORCH_CHECK(scales.numel() == input.numel() / input.size(-1));
  const int hidden_size = input.size(-1);
  const int num_tokens = input.numel() / hidden_size;

  dim3 grid(num_tokens);
  // whole warps, at most 1024 threads
  dim3 block(std::min((hidden_size + 31) / 32 * 32, 1024));
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_REDUCED_FLOATING_TYPES(input.scalar_type(), "fused_add_rms_norm_dynamic_int8_quant_kernel", [&] {
    vllm::fused_add_rms_norm_dynamic_int8_quant_kernel<scalar_t><<<grid, block, 0, stream>>>(
        out.data_ptr<int8_t>(), scales.data_ptr<float>(), input.data_ptr<scalar_t>(), residual.data_ptr<scalar_t>(),
        weight.data_ptr<scalar_t>(), (float)epsilon, hidden_size);
  });
}
