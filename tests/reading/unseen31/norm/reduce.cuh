#pragma once

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace norm_ops {

constexpr unsigned int FULL_MASK = 0xffffffffu;

template <typename T>
__device__ __forceinline__ float to_float(T v);
template <>
__device__ __forceinline__ float to_float<float>(float v) { return v; }
template <>
__device__ __forceinline__ float to_float<half>(half v) { return __half2float(v); }
template <>
__device__ __forceinline__ float to_float<__nv_bfloat16>(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) { return v; }
template <>
__device__ __forceinline__ half from_float<half>(float v) { return __float2half_rn(v); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) { return __float2bfloat16_rn(v); }

// N values that travel together (16 bytes for N = 8 halves, N = 4 floats)
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T val[N];
};

__device__ __forceinline__ float warpReduceSum(float val) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(FULL_MASK, val, mask, 32);
  return val;
}

__device__ __forceinline__ float warpReduceMax(float val) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) val = fmaxf(val, __shfl_xor_sync(FULL_MASK, val, mask, 32));
  return val;
}

/* Calculate the sum of all elements in a block, the result is valid in warp 0 only.
 * blockDim.x has to be a multiple of 32.  A __syncthreads() is needed between two calls. */
__device__ __forceinline__ float blockReduceSum(float val) {
  static __shared__ float shared[32];
  int lane = threadIdx.x & 0x1f;
  int wid = threadIdx.x >> 5;

  val = warpReduceSum(val);
  if (lane == 0) shared[wid] = val;
  __syncthreads();

  if (wid == 0) {
    val = lane < (blockDim.x >> 5) ? shared[lane] : 0.0f;
    val = warpReduceSum(val);
  }
  return val;
}

/* The same with the maximum of non-negative values */
__device__ __forceinline__ float blockReduceAbsMax(float val) {
  static __shared__ float shared[32];
  int lane = threadIdx.x & 0x1f;
  int wid = threadIdx.x >> 5;

  val = warpReduceMax(val);
  if (lane == 0) shared[wid] = val;
  __syncthreads();

  if (wid == 0) {
    val = lane < (blockDim.x >> 5) ? shared[lane] : 0.0f;
    val = warpReduceMax(val);
  }
  return val;
}

// Welford's running mean and sum of squared differences
struct WelfordData {
  float mean;
  float m2;
  float count;
};

__device__ __forceinline__ void welfordAdd(WelfordData& w, float x) {
  w.count += 1.0f;
  float delta = x - w.mean;
  w.mean += delta / w.count;
  w.m2 += delta * (x - w.mean);
}

// Chan et al.: combines two partial results
__device__ __forceinline__ WelfordData welfordCombine(const WelfordData& a, const WelfordData& b) {
  float count = a.count + b.count;
  if (count == 0.0f) return a;
  float delta = b.mean - a.mean;
  float frac = b.count / count;
  WelfordData r;
  r.mean = a.mean + delta * frac;
  r.m2 = a.m2 + b.m2 + delta * delta * a.count * frac;
  r.count = count;
  return r;
}

__device__ __forceinline__ WelfordData welfordWarpReduce(WelfordData w) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) {
    WelfordData o;
    o.mean = __shfl_xor_sync(FULL_MASK, w.mean, mask, 32);
    o.m2 = __shfl_xor_sync(FULL_MASK, w.m2, mask, 32);
    o.count = __shfl_xor_sync(FULL_MASK, w.count, mask, 32);
    w = welfordCombine(w, o);
  }
  return w;
}

}  // namespace norm_ops
