// Fused residual add + RMSNorm (fp16), in place on residual, vectorised by half2; vLLM's "fused_add_rms_norm" contract:
//   residual += input;  input = rms_norm(residual) * weight
#include <cuda_fp16.h>
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

namespace ln {

template <int NUM_WARPS>
__device__ __forceinline__ float block_reduce_sum(float v) {
  __shared__ float shared[NUM_WARPS];
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.f;
#pragma unroll
  for (int i = 0; i < NUM_WARPS; ++i) total += shared[i];
  return total;
}

template <int THREADS>
__global__ void fused_add_rms_norm_kernel(half2* __restrict__ input, half2* __restrict__ residual, const half2* __restrict__ weight,
                                          const float epsilon, const int num_tokens, const int vec_hidden) {
  float variance = 0.f;
  half2* in_row = input + (size_t)blockIdx.x * vec_hidden;
  half2* res_row = residual + (size_t)blockIdx.x * vec_hidden;
  for (int i = threadIdx.x; i < vec_hidden; i += THREADS) {
    const half2 z = __hadd2(in_row[i], res_row[i]);
    const float2 zf = __half22float2(z);
    variance += zf.x * zf.x + zf.y * zf.y;
    res_row[i] = z;
  }
  const float total = block_reduce_sum<THREADS / 32>(variance);
  const float inv = rsqrtf(total / (2 * vec_hidden) + epsilon);
  for (int i = threadIdx.x; i < vec_hidden; i += THREADS) {
    float2 z = __half22float2(res_row[i]);
    z.x *= inv;
    z.y *= inv;
    in_row[i] = __hmul2(__float22half2_rn(z), weight[i]);
  }
}

}  // namespace ln

void fused_add_rms_norm(torch::Tensor& input,     // [..., hidden_size]
                        torch::Tensor& residual,  // [..., hidden_size]
                        torch::Tensor& weight,    // [hidden_size]
                        double epsilon) {
  TORCH_CHECK(input.is_contiguous() && residual.is_contiguous());
  int hidden_size = input.size(-1);
  int num_tokens = input.numel() / hidden_size;
  TORCH_CHECK(hidden_size % 2 == 0);
  dim3 grid(num_tokens);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(input));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  ln::fused_add_rms_norm_kernel<256><<<grid, 256, 0, stream>>>(
      reinterpret_cast<half2*>(input.data_ptr()), reinterpret_cast<half2*>(residual.data_ptr()),
      reinterpret_cast<const half2*>(weight.data_ptr()), epsilon, num_tokens, hidden_size / 2);
}
