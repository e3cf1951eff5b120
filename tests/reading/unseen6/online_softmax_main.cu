// Online softmax over the rows of a matrix: one warp per row, running max and sum.
// nvcc -O3 -arch=sm_80 online_softmax_main.cu -o softmax && ./softmax
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                   \
  do {                                                                             \
    cudaError_t e = (x);                                                           \
    if (e != cudaSuccess) {                                                        \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));    \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

struct __align__(8) MD {
  float m;
  float d;
};

__device__ __forceinline__ MD combine(MD a, MD b) {
  bool a_bigger = a.m > b.m;
  MD big = a_bigger ? a : b;
  MD small = a_bigger ? b : a;
  MD r;
  r.d = big.d + (small.m == -INFINITY ? 0.f : small.d * __expf(small.m - big.m));
  r.m = big.m;
  return r;
}

__global__ void softmax_online(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float* xr = x + (size_t)row * cols;
  float* yr = y + (size_t)row * cols;
  MD p = {-INFINITY, 0.f};
  for (int c = threadIdx.x; c < cols; c += 32) p = combine(p, MD{xr[c], 1.f});
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    MD q;
    q.m = __shfl_xor_sync(0xffffffff, p.m, o);
    q.d = __shfl_xor_sync(0xffffffff, p.d, o);
    p = combine(p, q);
  }
  float inv = 1.f / p.d;
  for (int c = threadIdx.x; c < cols; c += 32) yr[c] = __expf(xr[c] - p.m) * inv;
}

static void softmax_cpu(const float* x, float* y, int rows, int cols) {
  for (int i = 0; i < rows; i++) {
    float m = -INFINITY, s = 0.f;
    for (int j = 0; j < cols; j++) m = fmaxf(m, x[i * cols + j]);
    for (int j = 0; j < cols; j++) s += expf(x[i * cols + j] - m);
    for (int j = 0; j < cols; j++) y[i * cols + j] = expf(x[i * cols + j] - m) / s;
  }
}

int main(int argc, char** argv) {
  int rows = 128, cols = 500;
  if (argc > 2) {
    rows = atoi(argv[1]);
    cols = atoi(argv[2]);
  }
  size_t bytes = sizeof(float) * rows * cols;
  float *hx = (float*)malloc(bytes), *hy = (float*)malloc(bytes), *ref = (float*)malloc(bytes);
  srand(1);
  for (int i = 0; i < rows * cols; i++) hx[i] = 8.f * rand() / RAND_MAX - 4.f;
  float *dx, *dy;
  CHECK(cudaMalloc(&dx, bytes));
  CHECK(cudaMalloc(&dy, bytes));
  CHECK(cudaMemcpy(dx, hx, bytes, cudaMemcpyHostToDevice));
  dim3 block(32, 4);
  softmax_online<<<(rows + 3) / 4, block>>>(dx, dy, rows, cols);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(hy, dy, bytes, cudaMemcpyDeviceToHost));
  softmax_cpu(hx, ref, rows, cols);
  float worst = 0.f;
  for (int i = 0; i < rows * cols; i++) worst = fmaxf(worst, fabsf(hy[i] - ref[i]));
  printf("max diff %g: %s\n", worst, worst < 1e-5f ? "PASS" : "FAIL");
  cudaFree(dx);
  cudaFree(dy);
  free(hx);
  free(hy);
  free(ref);
  return worst < 1e-5f ? 0 : 1;
}
