// Normalisation layers of the inference engine: RMSNorm, RMSNorm with residual add,
// RMSNorm with dynamic int8 quantisation of the output, LayerNorm.
//
// Rows are tokens, the hidden size has to be a multiple of 8 (16-byte vectors of half/bf16);
// the launchers return cudaErrorInvalidValue for anything else.
#include "reduce.cuh"

#include <algorithm>

namespace norm_ops {

// out = x / sqrt(mean(x^2) + eps) * weight
template <typename T, int VEC>
__global__ void rmsNormKernel(T* __restrict__ out,            // [tokens, hidden]
                              const T* __restrict__ input,    // [tokens, hidden]
                              const T* __restrict__ weight,   // [hidden]
                              const float epsilon, const int hidden_size) {
  using V = Vec<T, VEC>;
  __shared__ float s_rstd;
  const int vec_hidden = hidden_size / VEC;
  const V* in_v = reinterpret_cast<const V*>(input) + (int64_t)blockIdx.x * vec_hidden;
  V* out_v = reinterpret_cast<V*>(out) + (int64_t)blockIdx.x * vec_hidden;
  const V* w_v = reinterpret_cast<const V*>(weight);

  float variance = 0.0f;
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V x = in_v[idx];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      float f = to_float(x.val[i]);
      variance += f * f;
    }
  }

  variance = blockReduceSum(variance);
  if (threadIdx.x == 0) s_rstd = rsqrtf(variance / hidden_size + epsilon);
  __syncthreads();

  const float rstd = s_rstd;
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V x = in_v[idx];
    V w = w_v[idx];
    V y;
#pragma unroll
    for (int i = 0; i < VEC; ++i) y.val[i] = from_float<T>(to_float(x.val[i]) * rstd * to_float(w.val[i]));
    out_v[idx] = y;
  }
}

// residual = input + residual;  input = rms_norm(residual) * weight, both in place
template <typename T, int VEC>
__global__ void fusedAddRmsNormKernel(T* __restrict__ input,         // [tokens, hidden]
                                      T* __restrict__ residual,      // [tokens, hidden]
                                      const T* __restrict__ weight,  // [hidden]
                                      const float epsilon, const int hidden_size) {
  using V = Vec<T, VEC>;
  __shared__ float s_rstd;
  const int vec_hidden = hidden_size / VEC;
  V* in_v = reinterpret_cast<V*>(input) + (int64_t)blockIdx.x * vec_hidden;
  V* res_v = reinterpret_cast<V*>(residual) + (int64_t)blockIdx.x * vec_hidden;
  const V* w_v = reinterpret_cast<const V*>(weight);

  float variance = 0.0f;
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V x = in_v[idx];
    V r = res_v[idx];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      r.val[i] = from_float<T>(to_float(x.val[i]) + to_float(r.val[i]));
      float f = to_float(r.val[i]);  // the rounded sum is what the next layer sees
      variance += f * f;
    }
    res_v[idx] = r;
  }

  variance = blockReduceSum(variance);
  if (threadIdx.x == 0) s_rstd = rsqrtf(variance / hidden_size + epsilon);
  __syncthreads();

  const float rstd = s_rstd;
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V r = res_v[idx];  // written by this very thread
    V w = w_v[idx];
    V y;
#pragma unroll
    for (int i = 0; i < VEC; ++i) y.val[i] = from_float<T>(to_float(r.val[i]) * rstd * to_float(w.val[i]));
    in_v[idx] = y;
  }
}

// out_int8 = round(rms_norm(x) * weight / scale), scale[token] = absmax / 127
template <typename T, int VEC>
__global__ void rmsNormDynamicQuantKernel(int8_t* __restrict__ out,      // [tokens, hidden]
                                          float* __restrict__ scale,     // [tokens]
                                          const T* __restrict__ input,   // [tokens, hidden]
                                          const T* __restrict__ weight,  // [hidden]
                                          const float epsilon, const int hidden_size) {
  using V = Vec<T, VEC>;
  using Q = Vec<int8_t, VEC>;
  __shared__ float s_rstd, s_absmax;
  const int vec_hidden = hidden_size / VEC;
  const V* in_v = reinterpret_cast<const V*>(input) + (int64_t)blockIdx.x * vec_hidden;
  Q* out_v = reinterpret_cast<Q*>(out) + (int64_t)blockIdx.x * vec_hidden;
  const V* w_v = reinterpret_cast<const V*>(weight);

  float variance = 0.0f;
  float absmax = 0.0f;  // of x * weight, rstd > 0 is a common factor
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V x = in_v[idx];
    V w = w_v[idx];
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      float f = to_float(x.val[i]);
      variance += f * f;
      absmax = fmaxf(absmax, fabsf(f * to_float(w.val[i])));
    }
  }

  variance = blockReduceSum(variance);
  absmax = blockReduceAbsMax(absmax);
  if (threadIdx.x == 0) {
    s_rstd = rsqrtf(variance / hidden_size + epsilon);
    s_absmax = absmax;
    scale[blockIdx.x] = fmaxf(absmax * s_rstd, 1e-10f) / 127.0f;
  }
  __syncthreads();

  // the rstd of the value and the rstd of the scale cancel
  const float inv_scale = 127.0f / fmaxf(s_absmax, 1e-10f / s_rstd);
  for (int idx = threadIdx.x; idx < vec_hidden; idx += blockDim.x) {
    V x = in_v[idx];
    V w = w_v[idx];
    Q q;
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      float f = to_float(x.val[i]) * to_float(w.val[i]) * inv_scale;
      q.val[i] = static_cast<int8_t>(min(127, max(-127, __float2int_rn(f))));
    }
    out_v[idx] = q;
  }
}

// One warp per row, WARPS rows per block
template <typename T, int VEC, int WARPS>
__global__ void layerNormWarpKernel(T* __restrict__ out, const T* __restrict__ input,
                                    const T* __restrict__ gamma, const T* __restrict__ beta,
                                    const float epsilon, const int rows, const int hidden_size) {
  using V = Vec<T, VEC>;
  const int lane = threadIdx.x & 31;
  const int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  if (row >= rows) return;

  const int vec_hidden = hidden_size / VEC;
  const V* in_v = reinterpret_cast<const V*>(input) + (int64_t)row * vec_hidden;
  V* out_v = reinterpret_cast<V*>(out) + (int64_t)row * vec_hidden;

  WelfordData w = {0.0f, 0.0f, 0.0f};
  for (int idx = lane; idx < vec_hidden; idx += 32) {
    V x = in_v[idx];
#pragma unroll
    for (int i = 0; i < VEC; ++i) welfordAdd(w, to_float(x.val[i]));
  }
  w = welfordWarpReduce(w);

  const float mean = w.mean;
  const float rstd = rsqrtf(w.m2 / w.count + epsilon);

  for (int idx = lane; idx < vec_hidden; idx += 32) {
    V x = in_v[idx];
    V g = reinterpret_cast<const V*>(gamma)[idx];
    V b = reinterpret_cast<const V*>(beta)[idx];
    V y;
#pragma unroll
    for (int i = 0; i < VEC; ++i)
      y.val[i] = from_float<T>((to_float(x.val[i]) - mean) * rstd * to_float(g.val[i]) + to_float(b.val[i]));
    out_v[idx] = y;
  }
}

static int roundedThreads(int vecs) {
  int threads = (vecs + 31) / 32 * 32;
  return std::min(threads, 1024);
}

template <typename T>
cudaError_t invokeRmsNorm(T* out, const T* input, const T* weight, float eps, int tokens, int hidden,
                          cudaStream_t stream) {
  if (hidden % 8 != 0) return cudaErrorInvalidValue;
  rmsNormKernel<T, 8><<<tokens, roundedThreads(hidden / 8), 0, stream>>>(out, input, weight, eps, hidden);
  return cudaGetLastError();
}

template <typename T>
cudaError_t invokeFusedAddRmsNorm(T* input, T* residual, const T* weight, float eps, int tokens, int hidden,
                                  cudaStream_t stream) {
  if (hidden % 8 != 0) return cudaErrorInvalidValue;
  fusedAddRmsNormKernel<T, 8>
      <<<tokens, roundedThreads(hidden / 8), 0, stream>>>(input, residual, weight, eps, hidden);
  return cudaGetLastError();
}

template <typename T>
cudaError_t invokeRmsNormDynamicQuant(int8_t* out, float* scale, const T* input, const T* weight, float eps,
                                      int tokens, int hidden, cudaStream_t stream) {
  if (hidden % 8 != 0) return cudaErrorInvalidValue;
  rmsNormDynamicQuantKernel<T, 8>
      <<<tokens, roundedThreads(hidden / 8), 0, stream>>>(out, scale, input, weight, eps, hidden);
  return cudaGetLastError();
}

template <typename T>
cudaError_t invokeLayerNorm(T* out, const T* input, const T* gamma, const T* beta, float eps, int tokens,
                            int hidden, cudaStream_t stream) {
  if (hidden % 8 != 0) return cudaErrorInvalidValue;
  constexpr int WARPS = 4;
  layerNormWarpKernel<T, 8, WARPS><<<(tokens + WARPS - 1) / WARPS, WARPS * 32, 0, stream>>>(
      out, input, gamma, beta, eps, tokens, hidden);
  return cudaGetLastError();
}

#define INSTANTIATE_NORMS(T)                                                                              \
  template cudaError_t invokeRmsNorm<T>(T*, const T*, const T*, float, int, int, cudaStream_t);           \
  template cudaError_t invokeFusedAddRmsNorm<T>(T*, T*, const T*, float, int, int, cudaStream_t);         \
  template cudaError_t invokeRmsNormDynamicQuant<T>(int8_t*, float*, const T*, const T*, float, int, int, \
                                                    cudaStream_t);                                        \
  template cudaError_t invokeLayerNorm<T>(T*, const T*, const T*, const T*, float, int, int, cudaStream_t);

INSTANTIATE_NORMS(half)
INSTANTIATE_NORMS(__nv_bfloat16)

}  // namespace norm_ops
