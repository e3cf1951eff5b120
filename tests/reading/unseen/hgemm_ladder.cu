// HGEMM from scratch, step 4 and step 5 of the ladder.
//
//   step 4: one wmma tile per warp, everything straight from global memory
//   step 5: block tile -> warp tile -> wmma fragments, operands staged in SMEM
//
// nvcc -O3 -arch=sm_80 hgemm_ladder.cu -lcublas -o ladder
// ./ladder 5 4096
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

#define cudaCheck(err) (cuda_check((err), __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char *file, int line) {
  if (error != cudaSuccess) {
    printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
  }
}

// C = alpha * A @ B + beta * C        A: MxK, B: KxN, C: MxN, all row major
__global__ void hgemm_wmma_naive(int M, int N, int K, float alpha, const half *A, const half *B,
                                 float beta, float *C) {
  using namespace nvcuda;
  const int row = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
  const int col = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16;
  if (row >= M || col >= N) return;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc, c_frag;
  wmma::fill_fragment(acc, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a_frag, A + row * K + k, K);
    wmma::load_matrix_sync(b_frag, B + k * N + col, N);
    wmma::mma_sync(acc, a_frag, b_frag, acc);
  }
  wmma::load_matrix_sync(c_frag, C + row * N + col, N, wmma::mem_row_major);
  for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc.x[i] + beta * c_frag.x[i];
  wmma::store_matrix_sync(C + row * N + col, c_frag, N, wmma::mem_row_major);
}

template <const int BM, const int BN, const int BK, const int WM, const int WN>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32)
    hgemm_warptiling(int M, int N, int K, float alpha, const half *A, const half *B, float beta,
                     float *C) {
  using namespace nvcuda;
  constexpr int NUM_THREADS = (BM / WM) * (BN / WN) * 32;
  // how many fragments a warp owns in each direction
  constexpr int WMITER = WM / 16;
  constexpr int WNITER = WN / 16;
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;

  __shared__ __align__(32) half As[BM * (BK + 8)];
  __shared__ __align__(32) half Bs[BK * (BN + 8)];

  const uint warpIdx = threadIdx.x / 32;
  const uint warpCol = warpIdx % (BN / WN);
  const uint warpRow = warpIdx / (BN / WN);

  // Move blocktile to beginning of A's row and B's column
  A += cRow * BM * K;
  B += cCol * BN;
  // Move C_ptr to warp's output tile
  C += (cRow * BM + warpRow * WM) * N + cCol * BN + warpCol * WN;

  // calculating the indices that this thread will load into SMEM
  // we'll load 128bit / 16bit = 8 elements per thread at each step
  const uint innerRowA = threadIdx.x / (BK / 8);
  const uint innerColA = threadIdx.x % (BK / 8);
  constexpr uint rowStrideA = (NUM_THREADS * 8) / BK;
  const uint innerRowB = threadIdx.x / (BN / 8);
  const uint innerColB = threadIdx.x % (BN / 8);
  constexpr uint rowStrideB = NUM_THREADS / (BN / 8);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WMITER][WNITER];
  for (int i = 0; i < WMITER; ++i)
    for (int j = 0; j < WNITER; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    for (uint offset = 0; offset + rowStrideA <= BM; offset += rowStrideA) {
      reinterpret_cast<float4 *>(&As[(innerRowA + offset) * (BK + 8) + innerColA * 8])[0] =
          reinterpret_cast<const float4 *>(&A[(innerRowA + offset) * K + innerColA * 8])[0];
    }
    for (uint offset = 0; offset + rowStrideB <= BK; offset += rowStrideB) {
      reinterpret_cast<float4 *>(&Bs[(innerRowB + offset) * (BN + 8) + innerColB * 8])[0] =
          reinterpret_cast<const float4 *>(&B[(innerRowB + offset) * N + innerColB * 8])[0];
    }
    __syncthreads();

    for (uint dotIdx = 0; dotIdx < BK; dotIdx += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> regM[WMITER];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> regN[WNITER];
#pragma unroll
      for (uint i = 0; i < WMITER; ++i)
        wmma::load_matrix_sync(regM[i], &As[(warpRow * WM + i * 16) * (BK + 8) + dotIdx], BK + 8);
#pragma unroll
      for (uint j = 0; j < WNITER; ++j)
        wmma::load_matrix_sync(regN[j], &Bs[dotIdx * (BN + 8) + warpCol * WN + j * 16], BN + 8);
#pragma unroll
      for (uint i = 0; i < WMITER; ++i)
#pragma unroll
        for (uint j = 0; j < WNITER; ++j) wmma::mma_sync(acc[i][j], regM[i], regN[j], acc[i][j]);
    }
    A += BK;      // move BK columns to right
    B += BK * N;  // move BK rows down
    __syncthreads();
  }

  for (uint i = 0; i < WMITER; ++i) {
    for (uint j = 0; j < WNITER; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
      float *C_interim = C + i * 16 * N + j * 16;
      wmma::load_matrix_sync(c_frag, C_interim, N, wmma::mem_row_major);
      for (int e = 0; e < c_frag.num_elements; ++e)
        c_frag.x[e] = alpha * acc[i][j].x[e] + beta * c_frag.x[e];
      wmma::store_matrix_sync(C_interim, c_frag, N, wmma::mem_row_major);
    }
  }
}

void run_hgemm_naive(int M, int N, int K, float alpha, half *A, half *B, float beta, float *C) {
  const uint BM = 64;
  const uint BN = 64;
  dim3 blockDim(4 * 32, 4);
  dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
  hgemm_wmma_naive<<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}

void run_hgemm_warptiling(int M, int N, int K, float alpha, half *A, half *B, float beta, float *C) {
  const uint BM = 128;
  const uint BN = 128;
  const uint BK = 32;
  const uint WM = 64;
  const uint WN = 32;
  constexpr uint NUM_WARPS = (BM / WM) * (BN / WN);
  static_assert((NUM_WARPS * 32 * 8) % BK == 0, "");
  static_assert((NUM_WARPS * 32 * 8) % BN == 0, "");
  dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
  dim3 blockDim(NUM_WARPS * 32);
  hgemm_warptiling<BM, BN, BK, WM, WN><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s <0 = cublas | 4 | 5> [size]\n", argv[0]);
    return 1;
  }
  const int kernel_num = atoi(argv[1]);
  const int size = argc > 2 ? atoi(argv[2]) : 4096;
  const float alpha = 0.5f, beta = 3.0f;
  half *dA, *dB;
  float *dC;
  cudaCheck(cudaMalloc(&dA, sizeof(half) * size * size));
  cudaCheck(cudaMalloc(&dB, sizeof(half) * size * size));
  cudaCheck(cudaMalloc(&dC, sizeof(float) * size * size));
  cublasHandle_t handle;
  cublasCreate(&handle);
  cudaEvent_t beg, end;
  cudaEventCreate(&beg);
  cudaEventCreate(&end);
  cudaEventRecord(beg);
  switch (kernel_num) {
    case 0:
      cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &alpha, dB, CUDA_R_16F, size, dA,
                   CUDA_R_16F, size, &beta, dC, CUDA_R_32F, size, CUBLAS_COMPUTE_32F,
                   CUBLAS_GEMM_DEFAULT_TENSOR_OP);
      break;
    case 4: run_hgemm_naive(size, size, size, alpha, dA, dB, beta, dC); break;
    case 5: run_hgemm_warptiling(size, size, size, alpha, dA, dB, beta, dC); break;
    default: fprintf(stderr, "unknown kernel\n"); return 1;
  }
  cudaEventRecord(end);
  cudaEventSynchronize(end);
  float ms;
  cudaEventElapsedTime(&ms, beg, end);
  printf("%7.1f GFLOPS, size %d\n", 2e-6 * size * size * size / ms, size);
  cublasDestroy(handle);
  return 0;
}
