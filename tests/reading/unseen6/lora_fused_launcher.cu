// y = x W^T + scaling * (x A^T) B^T. Three kernels on one stream.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define TS 16

// C[M,N] = alpha * A[M,K] * B[N,K]^T (+ C if ACC)
template <typename TA, typename TC, bool ACC>
__global__ void matmul_nt(const TA* __restrict__ A, const half* __restrict__ B, TC* __restrict__ C, int M, int N, int K,
                          float alpha) {
  __shared__ float As[TS][TS + 1];
  __shared__ float Bs[TS][TS + 1];
  const int row = blockIdx.y * TS + threadIdx.y;
  const int col = blockIdx.x * TS + threadIdx.x;
  float acc = 0.f;
  for (int k0 = 0; k0 < K; k0 += TS) {
    const int k = k0 + threadIdx.x;
    As[threadIdx.y][threadIdx.x] = (row < M && k < K) ? (float)A[row * K + k] : 0.f;
    const int bn = blockIdx.x * TS + threadIdx.y;
    Bs[threadIdx.y][threadIdx.x] = (bn < N && k < K) ? (float)B[bn * K + k] : 0.f;
    __syncthreads();
    for (int i = 0; i < TS; ++i) acc += As[threadIdx.y][i] * Bs[threadIdx.x][i];
    __syncthreads();
  }
  if (row < M && col < N) {
    float v = alpha * acc;
    if (ACC) v += (float)C[row * N + col];
    C[row * N + col] = (TC)v;
  }
}

static inline dim3 tiles(int m, int n) { return dim3((n + TS - 1) / TS, (m + TS - 1) / TS); }

// x [tokens, in], w [out, in], a [rank, in], b [out, rank]; tmp [tokens, rank]; y [tokens, out]
void lora_linear_forward(const half* x, const half* w, const half* lora_a, const half* lora_b, float* tmp, float* y,
                         int tokens, int in_features, int out_features, int rank, float scaling, cudaStream_t stream) {
  dim3 block(TS, TS);
  matmul_nt<half, float, false><<<tiles(tokens, out_features), block, 0, stream>>>(x, w, y, tokens, out_features,
                                                                                   in_features, 1.f);
  matmul_nt<half, float, false><<<tiles(tokens, rank), block, 0, stream>>>(x, lora_a, tmp, tokens, rank, in_features, 1.f);
  matmul_nt<float, float, true><<<tiles(tokens, out_features), block, 0, stream>>>(tmp, lora_b, y, tokens, out_features,
                                                                                   rank, scaling);
}
