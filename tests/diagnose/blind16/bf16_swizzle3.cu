// bf16 GEMM for sm_80: cp.async pipeline of STAGES tiles, ldmatrix, XOR swizzle instead of padding.
//   C[M][N] = gelu_tanh(A[M][K] @ B[K][N] + bias[N]), A, B, C bf16 row-major, bias float
// K and N must be multiples of 8 (16-byte copies); what lies outside is zero-filled by the copies themselves.
#include <cuda_bf16.h>
#include <stdint.h>

#define CEIL_DIV(a, b) (((a) + (b)-1) / (b))

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int STAGES = 3;
constexpr int THREADS = 128;  // 2 x 2 warps, 32 x 32 each
constexpr int A_TILE = BM * BK, B_TILE = BK * BN;

using bf16 = __nv_bfloat16;

#define CP_ASYNC_CG(dst, src, n) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(n))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                              \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"    \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                \
               : "r"(addr))
#define LDMATRIX_X4_T(R0, R1, R2, R3, addr)                                                  \
  asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"    \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                      \
               : "r"(addr))
#define HMMA16816BF16(D, A, B0, B1)                                                                      \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "      \
               "{%8,%9}, {%0,%1,%2,%3};\n"                                                               \
               : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                                          \
               : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B0), "r"(B1))

// A's rows are 4 chunks of 8 elements: two rows share 128 bytes. B's rows are 8 chunks.
__device__ __forceinline__ int swizzle_a(int row, int chunk) { return row * BK + ((chunk ^ (row >> 1)) & 3) * 8; }
__device__ __forceinline__ int swizzle_b(int row, int chunk) { return row * BN + (chunk ^ (row & 7)) * 8; }

__device__ __forceinline__ float gelu_tanh(float x) {
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(u));
}

__device__ __forceinline__ void copy_stage(uint32_t a_s, uint32_t b_s, const bf16 *A, const bf16 *B, int bm, int bn, int k0,
                                           int M, int N, int K) {
  const int tid = threadIdx.x;
#pragma unroll
  for (int it = 0; it < A_TILE / 8 / THREADS; ++it) {
    const int id = tid + it * THREADS;
    const int row = id / (BK / 8), chunk = id % (BK / 8);
    const int gm = bm + row, gk = k0 + chunk * 8;
    const bool p = gm < M && gk < K;
    const bf16 *src = p ? A + (size_t)gm * K + gk : A;
    CP_ASYNC_CG(a_s + swizzle_a(row, chunk) * (int)sizeof(bf16), src, p ? 16 : 0);
  }
#pragma unroll
  for (int it = 0; it < B_TILE / 8 / THREADS; ++it) {
    const int id = tid + it * THREADS;
    const int row = id / (BN / 8), chunk = id % (BN / 8);
    const int gk = k0 + row, gn = bn + chunk * 8;
    const bool p = gk < K && gn < N;
    const bf16 *src = p ? B + (size_t)gk * N + gn : B;
    CP_ASYNC_CG(b_s + swizzle_b(row, chunk) * (int)sizeof(bf16), src, p ? 16 : 0);
  }
}

__global__ void bf16_gemm_swizzle(const bf16 *__restrict__ A, const bf16 *__restrict__ B, const float *__restrict__ bias,
                                  bf16 *__restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(128) bf16 smem[];  // STAGES tiles of A, then STAGES tiles of B
  const uint32_t smem_a = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const uint32_t smem_b = smem_a + STAGES * A_TILE * sizeof(bf16);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;
  const int k_tiles = CEIL_DIV(K, BK);

  float acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.0f;

  // prologue: all stages but one
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < k_tiles)
      copy_stage(smem_a + s * A_TILE * 2, smem_b + s * B_TILE * 2, A, B, bm, bn, s * BK, M, N, K);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int kt = 0; kt < k_tiles; ++kt) {
    CP_ASYNC_WAIT_GROUP(STAGES - 2);
    __syncthreads();

    // the stage that was multiplied last is free now
    const int next = kt + STAGES - 1;
    if (next < k_tiles) {
      const int slot = next % STAGES;
      copy_stage(smem_a + slot * A_TILE * 2, smem_b + slot * B_TILE * 2, A, B, bm, bn, next * BK, M, N, K);
    }
    CP_ASYNC_COMMIT_GROUP();

    const uint32_t a_s = smem_a + kt % STAGES * A_TILE * 2;
    const uint32_t b_s = smem_b + kt % STAGES * B_TILE * 2;
#pragma unroll
    for (int kk = 0; kk < BK / 16; ++kk) {
      uint32_t ra[2][4], rb[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = wm + i * 16 + lane % 16, chunk = kk * 2 + lane / 16;
        LDMATRIX_X4(ra[i][0], ra[i][1], ra[i][2], ra[i][3], a_s + swizzle_a(row, chunk) * 2);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = kk * 16 + lane % 16, chunk = wn / 8 + j * 2 + lane / 16;
        LDMATRIX_X4_T(rb[j][0], rb[j][1], rb[j][2], rb[j][3], b_s + swizzle_b(row, chunk) * 2);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          HMMA16816BF16(acc[i][j * 2], ra[i], rb[j][0], rb[j][1]);
          HMMA16816BF16(acc[i][j * 2 + 1], ra[i], rb[j][2], rb[j][3]);
        }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int gn = bn + wn + j * 8 + lane % 4 * 2;
      if (gn >= N) continue;
      const float b0 = bias[gn], b1 = bias[gn + 1];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int gm = bm + wm + i * 16 + lane / 4 + h * 8;
        if (gm < M) {
          __nv_bfloat162 v = __floats2bfloat162_rn(gelu_tanh(acc[i][j][h * 2] + b0), gelu_tanh(acc[i][j][h * 2 + 1] + b1));
          *reinterpret_cast<__nv_bfloat162 *>(&C[(size_t)gm * N + gn]) = v;
        }
      }
    }
}

void bf16_gemm(const bf16 *A, const bf16 *B, const float *bias, bf16 *C, int M, int N, int K, cudaStream_t stream) {
  const dim3 grid(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
  const size_t smem = STAGES * (A_TILE + B_TILE) * sizeof(bf16);
  bf16_gemm_swizzle<<<grid, THREADS, smem, stream>>>(A, B, bias, C, M, N, K);
}
