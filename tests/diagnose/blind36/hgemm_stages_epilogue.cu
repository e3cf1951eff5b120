// HGEMM + MMA16816 + LDMATRIX + XOR SWIZZLE + MULTI STAGES + FUSED EPILOGUE (bias, SiLU), NN layout.
// C[M,N] = act(A[M,K] x B[K,N] + bias[N]),  K % 8 == 0, N % 8 == 0, M arbitrary
#include <stdint.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

#define WARP_SIZE 32
#define LDST128BITS(value) (reinterpret_cast<float4*>(&(value))[0])
#define HALF2(value) (reinterpret_cast<half2*>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// bytes == 0 fills with zeros
#define CP_ASYNC_CG_ZFILL(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                     \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"           \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                           \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"             \
               : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1)                           \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "                           \
               "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"                            \
               : "=r"(RD0), "=r"(RD1)                                                         \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

enum Activation { kNone = 0, kRelu = 1, kSilu = 2 };

template <int ACT>
__device__ __forceinline__ float activate(float x) {
  if (ACT == kRelu) return fmaxf(x, 0.f);
  if (ACT == kSilu) return x / (1.f + __expf(-x));
  return x;
}

// rows of A have 4 chunks of 8 halfs, two rows in 128 bytes; rows of B have 8 chunks
__device__ __forceinline__ int swizzle_A(int row, int chunk) { return (chunk ^ ((row >> 1) & 3)) * 8; }
__device__ __forceinline__ int swizzle_B(int row, int chunk) { return (chunk ^ (row & 7)) * 8; }

template <int MMA_M = 16, int MMA_N = 8, int MMA_K = 16, int MMA_TILE_M = 2, int MMA_TILE_N = 2,
          int WARP_TILE_M = 2, int WARP_TILE_N = 4, int WARP_TILE_K = 2, int K_STAGE = 3, int ACT = kSilu>
__global__ void __launch_bounds__(128)
hgemm_mma_m16n8k16_swizzle_stages_bias_act(half* __restrict__ A, half* __restrict__ B, half* __restrict__ bias,
                                           half* __restrict__ C, int M, int N, int K) {
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;  // 16*2*2=64
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;  // 8*2*4=64
  constexpr int BK = MMA_K * WARP_TILE_K;               // 16*2=32
  static_assert(BK == 32 && BN == 64, "swizzles");
  const int NUM_K_TILES = (K + BK - 1) / BK;
  const int by = blockIdx.y;
  const int bx = blockIdx.x;

  extern __shared__ half smem[];
  half* s_a = smem;
  half* s_b = smem + K_STAGE * BM * BK;
  constexpr int s_a_stage_offset = BM * BK;
  constexpr int s_b_stage_offset = BK * BN;
  const uint32_t smem_a_base_ptr = __cvta_generic_to_shared(s_a);
  const uint32_t smem_b_base_ptr = __cvta_generic_to_shared(s_b);

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;  // 0,1
  const int warp_n = warp_id / 2;  // 0,1

  // A: 64x32, 2 threads per row, 16 halfs each;  B: 32x64, 4 threads per row, 16 halfs each
  const int load_smem_a_m = tid / 2;
  const int load_smem_a_chunk = (tid % 2) * 2;
  const int load_smem_b_k = tid / 4;
  const int load_smem_b_chunk = (tid % 4) * 2;
  const int load_gmem_a_m = by * BM + load_smem_a_m;

  auto load_tile = [&](int k_tile, int stage) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int k = k_tile * BK + (load_smem_a_chunk + i) * 8;
      bool ok = load_gmem_a_m < M && k < K;
      uint32_t dst = smem_a_base_ptr + (stage * s_a_stage_offset + load_smem_a_m * BK +
                                        swizzle_A(load_smem_a_m, load_smem_a_chunk + i)) * sizeof(half);
      CP_ASYNC_CG_ZFILL(dst, ok ? &A[load_gmem_a_m * K + k] : A, ok ? 16 : 0);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int k = k_tile * BK + load_smem_b_k;
      int n = bx * BN + (load_smem_b_chunk + i) * 8;
      bool ok = k < K && n < N;
      uint32_t dst = smem_b_base_ptr + (stage * s_b_stage_offset + load_smem_b_k * BN +
                                        swizzle_B(load_smem_b_k, load_smem_b_chunk + i)) * sizeof(half);
      CP_ASYNC_CG_ZFILL(dst, ok ? &B[k * N + n] : B, ok ? 16 : 0);
    }
  };

  uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) RC[i][j][0] = RC[i][j][1] = 0;

#pragma unroll
  for (int k = 0; k < K_STAGE - 1; ++k) {
    if (k < NUM_K_TILES) load_tile(k, k);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads();

    const int smem_sel = k % K_STAGE;
    const int smem_sel_next = (k + K_STAGE - 1) % K_STAGE;
    if (k + K_STAGE - 1 < NUM_K_TILES) load_tile(k + K_STAGE - 1, smem_sel_next);
    CP_ASYNC_COMMIT_GROUP();

#pragma unroll
    for (int kk = 0; kk < WARP_TILE_K; ++kk) {
      uint32_t RA[WARP_TILE_M][4];
      uint32_t RB[WARP_TILE_N][2];
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
        int lane_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
        int lane_smem_a_chunk = kk * 2 + lane_id / 16;
        uint32_t ptr = smem_a_base_ptr + (smem_sel * s_a_stage_offset + lane_smem_a_m * BK +
                                          swizzle_A(lane_smem_a_m, lane_smem_a_chunk)) * sizeof(half);
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], ptr);
      }
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        int lane_smem_b_k = kk * MMA_K + lane_id % 16;
        int lane_smem_b_chunk = warp_n * WARP_TILE_N + j;
        uint32_t ptr = smem_b_base_ptr + (smem_sel * s_b_stage_offset + lane_smem_b_k * BN +
                                          swizzle_B(lane_smem_b_k, lane_smem_b_chunk)) * sizeof(half);
        LDMATRIX_X2_T(RB[j][0], RB[j][1], ptr);
      }
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j)
          HMMA16816(RC[i][j][0], RC[i][j][1], RA[i][0], RA[i][1], RA[i][2], RA[i][3], RB[j][0], RB[j][1],
                    RC[i][j][0], RC[i][j][1]);
    }
  }

  // epilogue: bias + activation in registers, then one lane of each four stores 128 bits
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int store_gmem_c_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
      if (store_gmem_c_n >= N) continue;
      float2 b2 = __half22float2(HALF2(bias[store_gmem_c_n + (lane_id % 4) * 2]));
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float2 c2 = __half22float2(HALF2(RC[i][j][h]));
        half2 r2 = __floats2half2_rn(activate<ACT>(c2.x + b2.x), activate<ACT>(c2.y + b2.y));
        uint32_t mine = reinterpret_cast<uint32_t&>(r2);
        alignas(16) uint32_t RX[4];
        RX[0] = mine;
        RX[1] = __shfl_sync(0xffffffff, mine, lane_id + 1);
        RX[2] = __shfl_sync(0xffffffff, mine, lane_id + 2);
        RX[3] = __shfl_sync(0xffffffff, mine, lane_id + 3);
        int store_gmem_c_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4 + h * 8;
        if (lane_id % 4 == 0 && store_gmem_c_m < M)
          LDST128BITS(C[store_gmem_c_m * N + store_gmem_c_n]) = LDST128BITS(RX[0]);
      }
    }
  }
}
