// hgemm from scratch, step by step. Build: nvcc -arch=sm_80 -O3 hgemm_runner_switch.cu -o hgemm
// usage: ./hgemm <kernel number 0-2> <size>
//   0 naive, one thread per element of C
//   1 shared memory + wmma, one 64x64 tile per block
//   2 same, double buffered through registers
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>
#include <cmath>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define CUDA_CHECK(call)                                                              \
  do {                                                                                \
    cudaError_t e_ = (call);                                                          \
    if (e_ != cudaSuccess) {                                                          \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));     \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

using namespace nvcuda;

__global__ void hgemm_naive(int M, int N, int K, float alpha, const half *A, const half *B, float beta, half *C) {
  const uint x = blockIdx.x * blockDim.x + threadIdx.x;
  const uint y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < M && y < N) {
    float tmp = 0.0f;
    for (int i = 0; i < K; ++i) tmp += __half2float(A[x * K + i]) * __half2float(B[i * N + y]);
    C[x * N + y] = __float2half(alpha * tmp + beta * __half2float(C[x * N + y]));
  }
}

template <const int BM, const int BN, const int BK>
__global__ void __launch_bounds__(128) hgemm_smem_wmma(int M, int N, int K, float alpha, const half *A, const half *B,
                                                        float beta, half *C) {
  constexpr int PAD = 8;
  __shared__ half As[BM][BK + PAD];
  __shared__ half Bs[BK][BN + PAD];
  __shared__ float Cs[BM][BN + 4];

  const int cRow = blockIdx.y, cCol = blockIdx.x;
  A += cRow * BM * K;
  B += cCol * BN;
  C += cRow * BM * N + cCol * BN;

  const int warp = threadIdx.x / 32;
  const int wr = warp / 2, wc = warp % 2;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BM / 32][BN / 32];
#pragma unroll
  for (int i = 0; i < BM / 32; ++i)
#pragma unroll
    for (int j = 0; j < BN / 32; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

  for (int bk = 0; bk < K; bk += BK) {
    for (int v = threadIdx.x; v < BM * BK / 8; v += blockDim.x) {
      int r = v / (BK / 8), c = v % (BK / 8) * 8;
      *reinterpret_cast<float4 *>(&As[r][c]) = *reinterpret_cast<const float4 *>(&A[r * K + c]);
    }
    for (int v = threadIdx.x; v < BK * BN / 8; v += blockDim.x) {
      int r = v / (BN / 8), c = v % (BN / 8) * 8;
      *reinterpret_cast<float4 *>(&Bs[r][c]) = *reinterpret_cast<const float4 *>(&B[r * N + c]);
    }
    __syncthreads();
    A += BK;
    B += BK * N;
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[BN / 32];
#pragma unroll
      for (int j = 0; j < BN / 32; ++j) wmma::load_matrix_sync(b[j], &Bs[k][wc * (BN / 2) + j * 16], BN + PAD);
#pragma unroll
      for (int i = 0; i < BM / 32; ++i) {
        wmma::load_matrix_sync(a, &As[wr * (BM / 2) + i * 16][k], BK + PAD);
#pragma unroll
        for (int j = 0; j < BN / 32; ++j) wmma::mma_sync(acc[i][j], a, b[j], acc[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < BM / 32; ++i)
#pragma unroll
    for (int j = 0; j < BN / 32; ++j)
      wmma::store_matrix_sync(&Cs[wr * (BM / 2) + i * 16][wc * (BN / 2) + j * 16], acc[i][j], BN + 4, wmma::mem_row_major);
  __syncthreads();
  for (int e = threadIdx.x; e < BM * BN; e += blockDim.x) {
    int r = e / BN, c = e % BN;
    C[r * N + c] = __float2half(alpha * Cs[r][c] + beta * __half2float(C[r * N + c]));
  }
}

template <const int BM, const int BN, const int BK>
__global__ void __launch_bounds__(128) hgemm_prefetch_wmma(int M, int N, int K, float alpha, const half *A,
                                                            const half *B, float beta, half *C) {
  __shared__ half As[2][BM * BK];
  __shared__ half Bs[2][BK * BN];
  constexpr int A_VEC = BM * BK / 8 / 128, B_VEC = BK * BN / 8 / 128;
  float4 ra[A_VEC], rb[B_VEC];
  const int tid = threadIdx.x, warp = tid >> 5;
  A += (size_t)blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  C += (size_t)blockIdx.y * BM * N + blockIdx.x * BN;

  auto fetch = [&](int k0) {
#pragma unroll
    for (int i = 0; i < A_VEC; ++i) {
      int v = tid + i * 128;
      ra[i] = *(const float4 *)&A[(v / (BK / 8)) * K + k0 + (v % (BK / 8)) * 8];
    }
#pragma unroll
    for (int i = 0; i < B_VEC; ++i) {
      int v = tid + i * 128;
      rb[i] = *(const float4 *)&B[(size_t)(k0 + v / (BN / 8)) * N + (v % (BN / 8)) * 8];
    }
  };
  auto commit = [&](int buf) {
#pragma unroll
    for (int i = 0; i < A_VEC; ++i) *(float4 *)&As[buf][(tid + i * 128) * 8] = ra[i];
#pragma unroll
    for (int i = 0; i < B_VEC; ++i) *(float4 *)&Bs[buf][(tid + i * 128) * 8] = rb[i];
  };

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BN / 16];
  for (int j = 0; j < BN / 16; ++j) wmma::fill_fragment(acc[j], 0.f);
  fetch(0);
  commit(0);
  __syncthreads();
  int buf = 0;
  for (int k0 = 0; k0 < K; k0 += BK) {
    const bool more = k0 + BK < K;
    if (more) fetch(k0 + BK);
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &As[buf][warp * 16 * BK + k], BK);
#pragma unroll
      for (int j = 0; j < BN / 16; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(b, &Bs[buf][k * BN + j * 16], BN);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    if (more) commit(buf ^ 1);
    __syncthreads();
    buf ^= 1;
  }
#pragma unroll
  for (int j = 0; j < BN / 16; ++j) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> out, old;
    wmma::load_matrix_sync(old, &C[(size_t)(warp * 16) * N + j * 16], N, wmma::mem_row_major);
#pragma unroll
    for (int t = 0; t < out.num_elements; ++t)
      out.x[t] = __float2half(alpha * acc[j].x[t] + beta * __half2float(old.x[t]));
    wmma::store_matrix_sync(&C[(size_t)(warp * 16) * N + j * 16], out, N, wmma::mem_row_major);
  }
}

void run_kernel(int num, int M, int N, int K, float alpha, half *A, half *B, float beta, half *C) {
  switch (num) {
    case 0: {
      dim3 grid(CEIL_DIV(M, 16), CEIL_DIV(N, 16)), block(16, 16);
      hgemm_naive<<<grid, block>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 1: {
      dim3 grid(CEIL_DIV(N, 64), CEIL_DIV(M, 64));
      hgemm_smem_wmma<64, 64, 32><<<grid, 128>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 2: {
      dim3 grid(CEIL_DIV(N, 64), CEIL_DIV(M, 64));
      hgemm_prefetch_wmma<64, 64, 32><<<grid, 128>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    default:
      throw std::invalid_argument("Unknown kernel number");
  }
  CUDA_CHECK(cudaGetLastError());
}

int main(int argc, char **argv) {
  int num = argc > 1 ? atoi(argv[1]) : 2;
  int size = argc > 2 ? atoi(argv[2]) : 256;
  const int M = size, N = size, K = size;
  const float alpha = 0.5f, beta = 3.0f;
  std::vector<half> hA(M * K), hB(K * N), hC(M * N), hRef(M * N);
  srand(7);
  for (auto &v : hA) v = __float2half((rand() % 5) + 0.01f * (rand() % 5) - 2.f);
  for (auto &v : hB) v = __float2half((rand() % 5) + 0.01f * (rand() % 5) - 2.f);
  for (auto &v : hC) v = __float2half((float)(rand() % 3));
  half *A, *B, *C, *Cref;
  CUDA_CHECK(cudaMalloc(&A, sizeof(half) * M * K));
  CUDA_CHECK(cudaMalloc(&B, sizeof(half) * K * N));
  CUDA_CHECK(cudaMalloc(&C, sizeof(half) * M * N));
  CUDA_CHECK(cudaMalloc(&Cref, sizeof(half) * M * N));
  CUDA_CHECK(cudaMemcpy(A, hA.data(), sizeof(half) * M * K, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(B, hB.data(), sizeof(half) * K * N, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(C, hC.data(), sizeof(half) * M * N, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(Cref, hC.data(), sizeof(half) * M * N, cudaMemcpyHostToDevice));
  run_kernel(0, M, N, K, alpha, A, B, beta, Cref);
  run_kernel(num, M, N, K, alpha, A, B, beta, C);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(hC.data(), C, sizeof(half) * M * N, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(hRef.data(), Cref, sizeof(half) * M * N, cudaMemcpyDeviceToHost));
  for (int i = 0; i < M * N; i++) {
    float a = __half2float(hC[i]), b = __half2float(hRef[i]);
    if (fabsf(a - b) > 0.02f * fabsf(b) + 0.5f) {
      printf("Failed to pass the correctness verification at %d: %f vs %f\n", i, a, b);
      return EXIT_FAILURE;
    }
  }
  printf("kernel %d size %d ok\n", num, size);
  return 0;
}
