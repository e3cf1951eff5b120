#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace kernels {

template <typename T>
__global__ void swiglu_kernel(const T* __restrict__ gate, const T* __restrict__ up, T* __restrict__ output, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float g = static_cast<float>(gate[i]);
  const float u = static_cast<float>(up[i]);
  output[i] = static_cast<T>(g / (1.0f + expf(-g)) * u);
}

template <typename T>
void swiglu(const T* gate, const T* up, T* output, int n, cudaStream_t stream) {
  constexpr int kBlock = 256;
  swiglu_kernel<T><<<(n + kBlock - 1) / kBlock, kBlock, 0, stream>>>(gate, up, output, n);
}

template void swiglu<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*, int, cudaStream_t);

}  // namespace kernels
