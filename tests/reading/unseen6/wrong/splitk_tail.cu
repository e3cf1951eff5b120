// C = A * B^T with K split over blockIdx.z, partial sums reduced by a second kernel.
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__global__ void gemm_partial(const half* A, const half* B, float* part, int M, int N, int K, int chunk) {
  int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y, s = blockIdx.z;
  if (m >= M || n >= N) return;
  float acc = 0.f;
  for (int k = s * chunk; k < (s + 1) * chunk && k < K; k++) acc += __half2float(A[m * K + k]) * __half2float(B[n * K + k]);
  part[((size_t)s * M + m) * N + n] = acc;
}

__global__ void sum_partials(const float* part, half* C, int MN, int splits) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= MN) return;
  float acc = 0.f;
  for (int s = 0; s < splits; s++) acc += part[(size_t)s * MN + i];
  C[i] = __float2half(acc);
}

void gemm_nt_splitk(const half* A, const half* B, half* C, float* part, int M, int N, int K, int splits) {
  int chunk = K / splits;
  gemm_partial<<<dim3((N + 15) / 16, (M + 15) / 16, splits), dim3(16, 16)>>>(A, B, part, M, N, K, chunk);
  sum_partials<<<(M * N + 255) / 256, 256>>>(part, C, M * N, splits);
}
