#include <cuda_runtime.h>

__global__ void reduce_kernel(const float* input, float* output, int N) {
  __shared__ float sdata[256];
  int tid = threadIdx.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + tid; i < N; i += blockDim.x * gridDim.x) sum += input[i];
  sdata[tid] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(output, sdata[0]);
}

// input, output are device pointers
extern "C" void solve(const float* input, float* output, int N) {
  cudaMemset(output, 0, sizeof(float));
  int blocks = (N + 255) / 256;
  if (blocks > 128) blocks = 128;
  reduce_kernel<<<blocks, 256>>>(input, output, N);
  cudaDeviceSynchronize();
}
