#include <cuda_runtime.h>

#ifndef NUM_BINS
#define NUM_BINS 256
#endif

// Histogram of bytes; every block counts in shared memory, then adds to the global bins.
__global__ void histogram_smem(const unsigned char* __restrict__ data, unsigned int* __restrict__ bins, int n) {
  __shared__ unsigned int local[NUM_BINS];
  for (int b = threadIdx.x; b < NUM_BINS; b += blockDim.x) local[b] = 0u;
  __syncthreads();
  const int stride = blockDim.x * gridDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < NUM_BINS; b += blockDim.x)
    if (local[b]) atomicAdd(&bins[b], local[b]);
}

void histogram(const unsigned char* data, unsigned int* bins, int n) {
  cudaMemset(bins, 0, NUM_BINS * sizeof(unsigned int));
  int blocks = (n + 1023) / 1024;
  if (blocks > 64) blocks = 64;
  histogram_smem<<<blocks, 256>>>(data, bins, n);
}
