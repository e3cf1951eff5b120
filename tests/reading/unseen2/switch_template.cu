#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define cudaCheck(err) (cuda_check((err), __FILE__, __LINE__))
static void cuda_check(cudaError_t e, const char *file, int line) {
  if (e != cudaSuccess) { printf("[CUDA ERROR] %s:%d %s\n", file, line, cudaGetErrorString(e)); exit(EXIT_FAILURE); }
}

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const void *p) {
  unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
__device__ __forceinline__ void ldsm_x2_t(unsigned (&r)[2], const void *p) {
  unsigned s = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(s));
}
__device__ __forceinline__ void hmma16816(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int BM, int BN, int BK>
__global__ void mma_kernel(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M, int N,
                           int K) {
  constexpr int PAD = 8;
  __shared__ __align__(16) half sA[BM][BK + PAD];
  __shared__ __align__(16) half sB[BK][BN + PAD];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int WARPS = BM / 16;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
  float acc[BN / 8][4] = {};
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK / 8; i += WARPS * 32) {
      int r = i / (BK / 8), c = i % (BK / 8) * 8;
      *(uint4 *)&sA[r][c] = *(const uint4 *)&A[(bm + r) * K + k0 + c];
    }
    for (int i = threadIdx.x; i < BK * BN / 8; i += WARPS * 32) {
      int r = i / (BN / 8), c = i % (BN / 8) * 8;
      *(uint4 *)&sB[r][c] = *(const uint4 *)&B[(k0 + r) * N + bn + c];
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      unsigned a[4];
      ldsm_x4(a, &sA[warp * 16 + lane % 16][kk + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < BN / 8; ++j) {
        unsigned b[2];
        ldsm_x2_t(b, &sB[kk + lane % 16][j * 8]);
        hmma16816(acc[j], a, b);
      }
    }
    __syncthreads();
  }
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j) {
    const int r = bm + warp * 16 + g, c = bn + j * 8 + t * 2;
    *reinterpret_cast<half2 *>(&C[r * N + c]) = __floats2half2_rn(acc[j][0], acc[j][1]);
    *reinterpret_cast<half2 *>(&C[(r + 8) * N + c]) = __floats2half2_rn(acc[j][2], acc[j][3]);
  }
}

void run_kernel(int kernel_num, const half *A, const half *B, half *C, int M, int N, int K) {
  switch (kernel_num) {
    case 0: mma_kernel<64, 64, 32><<<dim3(N / 64, M / 64), 128>>>(A, B, C, M, N, K); break;
    case 1: mma_kernel<128, 64, 32><<<dim3(N / 64, M / 128), 256>>>(A, B, C, M, N, K); break;
    case 2: mma_kernel<64, 128, 64><<<dim3(N / 128, M / 64), 128>>>(A, B, C, M, N, K); break;
    default: throw std::invalid_argument("Unknown kernel number");
  }
}

int main(int argc, char **argv) {
  if (argc != 2) { fprintf(stderr, "usage: %s kernel\n", argv[0]); return 1; }
  int kernel_num = atoi(argv[1]);
  int size = 1024;
  half *dA, *dB, *dC;
  cudaCheck(cudaMalloc((void **)&dA, sizeof(half) * size * size));
  cudaCheck(cudaMalloc((void **)&dB, sizeof(half) * size * size));
  cudaCheck(cudaMalloc((void **)&dC, sizeof(half) * size * size));
  run_kernel(kernel_num, dA, dB, dC, size, size, size);
  cudaCheck(cudaDeviceSynchronize());
  return 0;
}
