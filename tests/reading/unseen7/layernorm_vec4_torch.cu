#include <torch/extension.h>
#include <cuda_runtime.h>

#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define WARP_SIZE 32

template <const int kWarpSize = WARP_SIZE>
__device__ __forceinline__ float warp_reduce_sum_f32(float val) {
#pragma unroll
  for (int mask = kWarpSize >> 1; mask >= 1; mask >>= 1) val += __shfl_xor_sync(0xffffffff, val, mask);
  return val;
}

template <const int NUM_THREADS = 256>
__device__ float block_reduce_sum_f32(float val) {
  constexpr int NUM_WARPS = (NUM_THREADS + WARP_SIZE - 1) / WARP_SIZE;
  int warp = threadIdx.x / WARP_SIZE;
  int lane = threadIdx.x % WARP_SIZE;
  static __shared__ float shared[NUM_WARPS];
  val = warp_reduce_sum_f32<WARP_SIZE>(val);
  if (lane == 0) shared[warp] = val;
  __syncthreads();
  val = (lane < NUM_WARPS) ? shared[lane] : 0.0f;
  val = warp_reduce_sum_f32<NUM_WARPS>(val);
  return val;
}

// x: N x K, y = (x - mean) / std * g + b; one row per block, K / 4 threads
template <const int NUM_THREADS = 256 / 4>
__global__ void layer_norm_f32x4_kernel(float* x, float* y, float g, float b, int N, int K) {
  int tid = threadIdx.x;
  int bid = blockIdx.x;
  int idx = (bid * blockDim.x + threadIdx.x) * 4;
  const float epsilon = 1e-5f;
  __shared__ float s_mean;
  __shared__ float s_variance;
  float4 reg_x = FLOAT4(x[idx]);
  float value = (idx < N * K) ? (reg_x.x + reg_x.y + reg_x.z + reg_x.w) : 0.0f;
  float sum = block_reduce_sum_f32<NUM_THREADS>(value);
  if (tid == 0) s_mean = sum / (float)K;
  __syncthreads();
  float4 hat;
  hat.x = reg_x.x - s_mean;
  hat.y = reg_x.y - s_mean;
  hat.z = reg_x.z - s_mean;
  hat.w = reg_x.w - s_mean;
  float variance = hat.x * hat.x + hat.y * hat.y + hat.z * hat.z + hat.w * hat.w;
  variance = block_reduce_sum_f32<NUM_THREADS>(variance);
  if (tid == 0) s_variance = rsqrtf(variance / ((float)K) + epsilon);
  __syncthreads();
  float4 reg_y;
  reg_y.x = hat.x * s_variance * g + b;
  reg_y.y = hat.y * s_variance * g + b;
  reg_y.z = hat.z * s_variance * g + b;
  reg_y.w = hat.w * s_variance * g + b;
  if (idx < N * K) FLOAT4(y[idx]) = reg_y;
}

void layer_norm_f32x4(torch::Tensor x, torch::Tensor y, float g, float b) {
  const int N = x.size(0);
  const int K = x.size(1);
  TORCH_CHECK(K == 256, "K must be 256");
  layer_norm_f32x4_kernel<64><<<N, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), g, b, N, K);
}
