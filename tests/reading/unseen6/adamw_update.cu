#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <math.h>

__device__ inline float lerp_(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

// AdamW with decoupled weight decay, master parameters in float, moments in float.
template <typename Tp, typename Tg>
__global__ void adamw_kernel(Tp* params, const Tg* grads, float* m_memory, float* v_memory, size_t num_parameters,
                             float learning_rate, float beta1, float beta2, float beta1_correction,
                             float beta2_correction, float eps, float weight_decay) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= num_parameters) return;
  float grad = (float)grads[i];
  float m = lerp_(grad, m_memory[i], beta1);
  float v = lerp_(grad * grad, v_memory[i], beta2);
  m_memory[i] = m;
  v_memory[i] = v;
  m /= beta1_correction;
  v /= beta2_correction;
  float p = (float)params[i];
  params[i] = (Tp)(p - learning_rate * (m / (sqrtf(v) + eps) + weight_decay * p));
}

template <typename Tp, typename Tg>
void adamw_update(Tp* params, const Tg* grads, float* m, float* v, size_t n, float lr, float beta1, float beta2, int t,
                  float eps, float weight_decay, cudaStream_t stream) {
  const int block = 512;
  float c1 = 1.0f - powf(beta1, t);
  float c2 = 1.0f - powf(beta2, t);
  adamw_kernel<<<(n + block - 1) / block, block, 0, stream>>>(params, grads, m, v, n, lr, beta1, beta2, c1, c2, eps,
                                                              weight_decay);
}

template void adamw_update<float, float>(float*, const float*, float*, float*, size_t, float, float, float, int, float,
                                         float, cudaStream_t);
