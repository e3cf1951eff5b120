// TN half GEMM, ldmatrix + mma.sync with XOR swizzled shared memory, 3-stage cp.async ring.
// A [M,K] row-major, W [N,K] row-major (nn.Linear), Y [M,N] half
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>

template <int R> struct Tile { static constexpr int rows = R; static constexpr int chunks = 8; };  // 64 halves = 8 chunks of 16 bytes

__device__ inline int swz(int row, int chunk) { return (row * 8 + (chunk ^ (row & 7))) * 8; }

template <int TM, int TN, int STAGES>
__global__ void hgemm_tn(const __half* __restrict__ A, const __half* __restrict__ W, __half* __restrict__ Y, int M, int N, int K) {
  constexpr int TK = 64;
  extern __shared__ __align__(1024) __half smem[];
  __half* sA = smem;
  __half* sW = smem + STAGES * TM * TK;
  const int tid = threadIdx.x;
  const int lane = tid % 32;
  const int warp_m = (tid / 32) / 2;
  const int warp_n = (tid / 32) % 2;
  const int m0 = blockIdx.y * TM;
  const int n0 = blockIdx.x * TN;
  constexpr int WM = TM / 2, WN = TN / 2;
  constexpr int MI = WM / 16, NI = WN / 16;

  auto fetch = [&](int kt) {
    const int st = kt % STAGES;
    for (int i = tid; i < TM * 8; i += blockDim.x) {
      int row = i / 8, ch = i % 8;
      uint32_t d = __cvta_generic_to_shared(sA + st * TM * TK + swz(row, ch));
      const __half* g = A + (size_t)(m0 + row) * K + kt * TK + ch * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(g));
    }
    for (int i = tid; i < TN * 8; i += blockDim.x) {
      int row = i / 8, ch = i % 8;
      uint32_t d = __cvta_generic_to_shared(sW + st * TN * TK + swz(row, ch));
      const __half* g = W + (size_t)(n0 + row) * K + kt * TK + ch * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(d), "l"(g));
    }
  };

  float acc[MI][NI * 2][4];
#pragma unroll
  for (int i = 0; i < MI; i++)
    for (int j = 0; j < NI * 2; j++)
      for (int e = 0; e < 4; e++) acc[i][j][e] = 0.f;

  const int KT = K / TK;
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < KT) fetch(s);
    asm volatile("cp.async.commit_group;");
  }

  for (int kt = 0; kt < KT; kt++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (kt + STAGES - 1 < KT) fetch(kt + STAGES - 1);
    asm volatile("cp.async.commit_group;");

    const __half* tA = sA + (kt % STAGES) * TM * TK;
    const __half* tW = sW + (kt % STAGES) * TN * TK;
#pragma unroll
    for (int ks = 0; ks < TK / 16; ks++) {
      uint32_t fa[MI][4], fb[NI][4];
#pragma unroll
      for (int i = 0; i < MI; i++) {
        int row = warp_m * WM + i * 16 + lane % 16;
        int ch = ks * 2 + lane / 16;
        uint32_t p = __cvta_generic_to_shared(tA + swz(row, ch));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(p));
      }
#pragma unroll
      for (int j = 0; j < NI; j++) {
        int row = warp_n * WN + j * 16 + lane % 16;
        int ch = ks * 2 + lane / 16;
        uint32_t p = __cvta_generic_to_shared(tW + swz(row, ch));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j][2]), "=r"(fb[j][3]) : "r"(p));
      }
#pragma unroll
      for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NI; j++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            float* c = acc[i][j * 2 + h];
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][h]), "r"(fb[j][h + 2]));
          }
    }
  }

#pragma unroll
  for (int i = 0; i < MI; i++)
#pragma unroll
    for (int j = 0; j < NI * 2; j++) {
      int r = m0 + warp_m * WM + i * 16 + lane / 4;
      int c = n0 + warp_n * WN + j * 8 + (lane % 4) * 2;
      *reinterpret_cast<__half2*>(Y + (size_t)r * N + c) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<__half2*>(Y + (size_t)(r + 8) * N + c) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
}

void linear_forward(const __half* x, const __half* w, __half* y, int M, int N, int K, cudaStream_t stream) {
  constexpr int TM = 64, TN = 64, ST = 3;
  size_t bytes = ST * (TM + TN) * 64 * sizeof(__half);
  auto kern = hgemm_tn<TM, TN, ST>;
  cudaFuncSetAttribute(kern, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  kern<<<dim3(N / TN, M / TM), 128, bytes, stream>>>(x, w, y, M, N, K);
}
