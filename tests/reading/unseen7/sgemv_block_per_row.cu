#include <cuda_runtime.h>

// y = alpha * A x + beta * y, A row-major M x N, one block of 128 threads per row
template <int kThreads>
__global__ void sgemv_n(int M, int N, float alpha, const float* A, int lda, const float* x, float beta, float* y) {
  __shared__ float partial[kThreads / 32];
  const int row = blockIdx.x;
  float sum = 0.f;
  for (int j = threadIdx.x; j < N; j += kThreads) sum += A[(size_t)row * lda + j] * x[j];
  for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.f;
    for (int w = 0; w < kThreads / 32; ++w) total += partial[w];
    y[row] = alpha * total + beta * y[row];
  }
}

void sgemv(int M, int N, float alpha, const float* A, int lda, const float* x, float beta, float* y, cudaStream_t s) {
  sgemv_n<128><<<M, 128, 0, s>>>(M, N, alpha, A, lda, x, beta, y);
}
