#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

// Half GEMM, fp32 accumulate, Ampere. C[M,N] = A[M,K] * B[K,N].
// m16n8k16, 128x64x32 block tile, 2-stage cp.async pipeline, ldmatrix.
// M % 128 == 0, N % 64 == 0, K % 32 == 0.

#define WARP_SIZE 32
#define BM 128
#define BN 64
#define BK 32
#define STAGES 2
#define A_PITCH (BK + 8)
#define B_PITCH (BN + 8)
#define A_STAGE (BM * A_PITCH)
#define B_STAGE (BK * B_PITCH)

#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                   \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"        \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                     \
               : "r"((uint32_t)(addr)))
#define LDMATRIX_X2_T(R0, R1, addr)                                                         \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"          \
               : "=r"(R0), "=r"(R1)                                                         \
               : "r"((uint32_t)(addr)))
#define HMMA16816F32(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1)                      \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                         \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"          \
               : "+f"(RD0), "+f"(RD1), "+f"(RD2), "+f"(RD3)                                 \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

__global__ void __launch_bounds__(256)
hgemm_m16n8k16_stage2_kernel(const half *__restrict__ A, const half *__restrict__ B, float *__restrict__ C, int M,
                             int N, int K) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 4;  // 4 warps along M, 32 rows each
  const int warp_n = warp_id / 4;  // 2 warps along N, 32 cols each
  const int NUM_K_TILES = K / BK;

  extern __shared__ half smem[];
  half *s_a = smem;
  half *s_b = smem + STAGES * A_STAGE;
  const uint32_t s_a_base = __cvta_generic_to_shared(s_a);
  const uint32_t s_b_base = __cvta_generic_to_shared(s_b);

  // A tile: 128x32 halves, two 16-byte chunks per thread
  const int load_a_m = tid / 2;
  const int load_a_k = (tid % 2) * 16;
  // B tile: 32x64 halves, one chunk per thread
  const int load_b_k = tid / 8;
  const int load_b_n = (tid % 8) * 8;
  const half *gA = A + (size_t)(by * BM + load_a_m) * K + load_a_k;
  const half *gB = B + (size_t)load_b_k * N + bx * BN + load_b_n;

  float RC[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      RC[i][j][0] = 0.f;
      RC[i][j][1] = 0.f;
      RC[i][j][2] = 0.f;
      RC[i][j][3] = 0.f;
    }

  // prologue: tile 0 into stage 0
  {
    uint32_t a_dst = s_a_base + (load_a_m * A_PITCH + load_a_k) * sizeof(half);
    CP_ASYNC_CG(a_dst, gA, 16);
    CP_ASYNC_CG(a_dst + 16, gA + 8, 16);
    uint32_t b_dst = s_b_base + (load_b_k * B_PITCH + load_b_n) * sizeof(half);
    CP_ASYNC_CG(b_dst, gB, 16);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int k = 0; k < NUM_K_TILES; ++k) {
    const int cur = k & 1;
    const int nxt = cur ^ 1;
    if (k + 1 < NUM_K_TILES) {
      uint32_t a_dst = s_a_base + (nxt * A_STAGE + load_a_m * A_PITCH + load_a_k) * sizeof(half);
      const half *a_src = gA + (k + 1) * BK;
      CP_ASYNC_CG(a_dst, a_src, 16);
      CP_ASYNC_CG(a_dst + 16, a_src + 8, 16);
      uint32_t b_dst = s_b_base + (nxt * B_STAGE + load_b_k * B_PITCH + load_b_n) * sizeof(half);
      const half *b_src = gB + (size_t)(k + 1) * BK * N;
      CP_ASYNC_CG(b_dst, b_src, 16);
      CP_ASYNC_COMMIT_GROUP();
      CP_ASYNC_WAIT_GROUP(1);
    } else {
      CP_ASYNC_WAIT_GROUP(0);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t RA[2][4];
      uint32_t RB[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int a_row = warp_m * 32 + i * 16 + lane_id % 16;
        int a_col = kk + (lane_id / 16) * 8;
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                    s_a_base + (cur * A_STAGE + a_row * A_PITCH + a_col) * sizeof(half));
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int b_row = kk + lane_id % 16;
        int b_col = warp_n * 32 + j * 8;
        LDMATRIX_X2_T(RB[j][0], RB[j][1],
                      s_b_base + (cur * B_STAGE + b_row * B_PITCH + b_col) * sizeof(half));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          HMMA16816F32(RC[i][j][0], RC[i][j][1], RC[i][j][2], RC[i][j][3], RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                       RB[j][0], RB[j][1]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int row = by * BM + warp_m * 32 + i * 16 + lane_id / 4;
      int col = bx * BN + warp_n * 32 + j * 8 + (lane_id % 4) * 2;
      *reinterpret_cast<float2 *>(C + (size_t)row * N + col) = make_float2(RC[i][j][0], RC[i][j][1]);
      *reinterpret_cast<float2 *>(C + (size_t)(row + 8) * N + col) = make_float2(RC[i][j][2], RC[i][j][3]);
    }
  }
}

void hgemm_m16n8k16_stage2(const half *A, const half *B, float *C, int M, int N, int K, cudaStream_t stream) {
  const int smem_bytes = STAGES * (A_STAGE + B_STAGE) * sizeof(half);
  dim3 block(256);
  dim3 grid(N / BN, M / BM);
  cudaFuncSetAttribute(hgemm_m16n8k16_stage2_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  hgemm_m16n8k16_stage2_kernel<<<grid, block, smem_bytes, stream>>>(A, B, C, M, N, K);
}
