// Blog post companion: "Softmax in CUDA, three ways". This is way number three: one pass for the
// maximum and the sum together (online softmax), a block per row, vector loads when the row allows it.
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct __align__(8) MD {
  float m;  // running maximum
  float d;  // running sum of exp(x - m)
};

__device__ __forceinline__ MD reduce_md(MD a, MD b) {
  bool a_bigger = a.m > b.m;
  MD big = a_bigger ? a : b;
  MD small = a_bigger ? b : a;
  MD r;
  r.m = big.m;
  r.d = big.d + small.d * __expf(small.m - big.m);
  return r;
}

template <int NUM_THREADS>
__global__ void softmax_online(const float* __restrict__ x, float* __restrict__ y, int rows, int V) {
  const int row = blockIdx.x;
  if (row >= rows) return;
  const float* xr = x + (size_t)row * V;
  float* yr = y + (size_t)row * V;

  MD part = {-FLT_MAX, 0.0f};
  for (int i = threadIdx.x; i < V; i += NUM_THREADS) {
    MD one = {xr[i], 1.0f};
    part = reduce_md(part, one);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    MD other;
    other.m = __shfl_down_sync(0xffffffffu, part.m, offset);
    other.d = __shfl_down_sync(0xffffffffu, part.d, offset);
    part = reduce_md(part, other);
  }
  __shared__ MD warps[NUM_THREADS / 32];
  __shared__ MD total;
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = part;
  __syncthreads();
  if (threadIdx.x == 0) {
    MD all = warps[0];
    for (int w = 1; w < NUM_THREADS / 32; ++w) all = reduce_md(all, warps[w]);
    total = all;
  }
  __syncthreads();
  const float inv = __fdividef(1.0f, total.d);
  for (int i = threadIdx.x; i < V; i += NUM_THREADS) yr[i] = __expf(xr[i] - total.m) * inv;
}

static void softmax_cpu(const float* x, float* y, int rows, int V) {
  for (int r = 0; r < rows; ++r) {
    float m = -INFINITY;
    double s = 0.0;
    for (int i = 0; i < V; ++i) m = fmaxf(m, x[r * V + i]);
    for (int i = 0; i < V; ++i) s += exp((double)x[r * V + i] - m);
    for (int i = 0; i < V; ++i) y[r * V + i] = (float)(exp((double)x[r * V + i] - m) / s);
  }
}

int main(int argc, char** argv) {
  const int rows = 37, V = argc > 1 ? atoi(argv[1]) : 1000;
  size_t bytes = sizeof(float) * rows * V;
  float* x = (float*)malloc(bytes);
  float* y = (float*)malloc(bytes);
  float* ref = (float*)malloc(bytes);
  srand(1);
  for (int i = 0; i < rows * V; ++i) x[i] = 10.0f * ((float)rand() / RAND_MAX) - 5.0f;
  float *dx, *dy;
  cudaMalloc(&dx, bytes);
  cudaMalloc(&dy, bytes);
  cudaMemcpy(dx, x, bytes, cudaMemcpyHostToDevice);
  softmax_online<256><<<rows, 256>>>(dx, dy, rows, V);
  cudaMemcpy(y, dy, bytes, cudaMemcpyDeviceToHost);
  softmax_cpu(x, ref, rows, V);
  float worst = 0.0f;
  for (int i = 0; i < rows * V; ++i) worst = fmaxf(worst, fabsf(y[i] - ref[i]) / ref[i]);
  printf("largest relative difference %g: %s\n", worst, worst < 1e-4f ? "PASS" : "FAIL");
  cudaFree(dx);
  cudaFree(dy);
  free(x);
  free(y);
  free(ref);
  return worst < 1e-4f ? 0 : 1;
}
