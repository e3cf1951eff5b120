// Batched 32x32x32 products, one warp per problem, TF32 tensor cores through inline PTX (m16n8k8).
// Problems are stored back to back; C_i += A_i * B_i
#include <cuda_runtime.h>
#include <stdint.h>

#include <cstdio>

#define N32 32

static __device__ __forceinline__ uint32_t f2tf32(float x) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

static __device__ __forceinline__ void mma_tf32(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void batched_matmul_32(const float* __restrict__ A, const float* __restrict__ B, float* C, int batch) {
  const int warps = blockDim.x >> 5;
  const int problem = blockIdx.x * warps + (threadIdx.x >> 5);
  if (problem >= batch) return;
  const int lane = threadIdx.x & 31, g = lane >> 2, q = lane & 3;
  A += (long long)problem * N32 * N32;
  B += (long long)problem * N32 * N32;
  C += (long long)problem * N32 * N32;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j) {
      float c[4];
      for (int r = 0; r < 4; ++r) c[r] = C[(i * 16 + g + (r >> 1) * 8) * N32 + j * 8 + q * 2 + (r & 1)];
      for (int k = 0; k < N32; k += 8) {
        uint32_t a[4], b[2];
        a[0] = f2tf32(A[(i * 16 + g) * N32 + k + q]);
        a[1] = f2tf32(A[(i * 16 + g + 8) * N32 + k + q]);
        a[2] = f2tf32(A[(i * 16 + g) * N32 + k + q + 4]);
        a[3] = f2tf32(A[(i * 16 + g + 8) * N32 + k + q + 4]);
        b[0] = f2tf32(B[(k + q) * N32 + j * 8 + g]);
        b[1] = f2tf32(B[(k + q + 4) * N32 + j * 8 + g]);
        mma_tf32(c, a, b);
      }
      for (int r = 0; r < 4; ++r) C[(i * 16 + g + (r >> 1) * 8) * N32 + j * 8 + q * 2 + (r & 1)] = c[r];
    }
}

extern "C" int launch_batched_matmul_32(const float* dA, const float* dB, float* dC, int batch, cudaStream_t s) {
  const int threads = 128;
  const int per_block = threads / 32;
  batched_matmul_32<<<(batch + per_block - 1) / per_block, threads, 0, s>>>(dA, dB, dC, batch);
  cudaError_t e = cudaPeekAtLastError();
  if (e != cudaSuccess) fprintf(stderr, "launch_batched_matmul_32: %s\n", cudaGetErrorString(e));
  return (int)e;
}
