#include <stdio.h>
#include <stdlib.h>
#include <float.h>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/types.h>
#include <torch/extension.h>

#define WARP_SIZE 32
#define LDST32BITS(value) (reinterpret_cast<half2*>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4*>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// cg: L2 only. src_bytes < 16: the rest is filled with zeros.
#define CP_ASYNC_CG_ZFILL(dst, src, bytes, src_bytes) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(bytes), "r"(src_bytes))
#define LDMATRIX_X2_T(R0, R1, addr) asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define LDMATRIX_X4(R0, R1, R2, R3, addr) asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define HMMA16816(RD0, RD1, RA0, RA1, RA2, RA3, RB0, RB1, RC0, RC1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n" : "=r"(RD0), "=r"(RD1) : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1), "r"(RC0), "r"(RC1))

__device__ __host__ __forceinline__
int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// 64x64, mma2x2, warp2x4(32,32), stages, block swizzle, dsmem, A/B padded, C of a warp collected through shuffles.
// A: [M,K] row major, B: [K,N] row major, C: [M,N]. M: any, N % 64 == 0, K % 16 == 0.
template<const int MMA_M=16,
         const int MMA_N=8,
         const int MMA_K=16,
         const int MMA_TILE_M=2,
         const int MMA_TILE_N=2,
         const int WARP_TILE_M=2,
         const int WARP_TILE_N=4,
         const int A_PAD=8,
         const int B_PAD=8,
         const int K_STAGE=3,
         const bool BLOCK_SWIZZLE=true>
__global__ void __launch_bounds__(128)
hgemm_mma_m16n8k16_mma2x2_warp2x4_stages_dsmem_kernel(
  half* A, half* B, half* C, int M, int N, int K) {
  // BLOCK_SWIZZLE 0/1 control use block swizzle or not.
  const int bx = ((int) BLOCK_SWIZZLE) * blockIdx.z * gridDim.x + blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = div_ceil(K, MMA_K);
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M; // 16*2*2=64
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N; // 8*2*4=64
  constexpr int BK = MMA_K; // 16
  if (bx * BN >= N) return; // the last stripe may be narrower

  extern __shared__ half smem[];
  half* s_a = smem;
  half* s_b = smem + K_STAGE * BM * (BK + A_PAD);
  constexpr int s_a_stage_offset = BM * (BK + A_PAD);
  constexpr int s_b_stage_offset = BK * (BN + B_PAD);

  const int tid = threadIdx.y * blockDim.x + threadIdx.x; // within block
  const int warp_id = tid / WARP_SIZE; // 0~3 warp_id within block
  const int lane_id = tid % WARP_SIZE; // 0~31
  const int warp_m = warp_id % 2; // 0,1
  const int warp_n = warp_id / 2; // 0,1

  // gmem -> smem, each thread 8 half values of A and of B.
  int load_smem_a_m = tid / 2; // row 0~63
  int load_smem_a_k = (tid % 2 == 0) ? 0 : 8; // col 0,8
  int load_smem_b_k = tid / 8; // row 0~15
  int load_smem_b_n = (tid % 8) * 8; // col 0,8,...,56
  int load_gmem_a_m = by * BM + load_smem_a_m; // global row of a and c
  int load_gmem_b_n = bx * BN + load_smem_b_n; // global col of b and c
  // rows behind the end: read row 0, fill with zeros
  const int a_src_bytes = (load_gmem_a_m < M) ? 16 : 0;
  if (load_gmem_a_m >= M) load_gmem_a_m = 0;

  uint32_t RC[WARP_TILE_M][WARP_TILE_N][2];
  #pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
    #pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      RC[i][j][0] = 0;
      RC[i][j][1] = 0;
    }
  }

  uint32_t smem_a_base_ptr = __cvta_generic_to_shared(s_a);
  uint32_t smem_b_base_ptr = __cvta_generic_to_shared(s_b);

  #pragma unroll
  for (int k = 0; k < (K_STAGE - 1); ++k) { // 0, 1
    if (k < NUM_K_TILES) {
      int load_gmem_a_addr = load_gmem_a_m * K + k * BK + load_smem_a_k;
      int load_gmem_b_addr = (k * BK + load_smem_b_k) * N + load_gmem_b_n;
      uint32_t load_smem_a_ptr = smem_a_base_ptr + (k * s_a_stage_offset + load_smem_a_m * (BK + A_PAD) + load_smem_a_k) * sizeof(half);
      uint32_t load_smem_b_ptr = smem_b_base_ptr + (k * s_b_stage_offset + load_smem_b_k * (BN + B_PAD) + load_smem_b_n) * sizeof(half);
      CP_ASYNC_CG_ZFILL(load_smem_a_ptr, &A[load_gmem_a_addr], 16, a_src_bytes);
      CP_ASYNC_CG_ZFILL(load_smem_b_ptr, &B[load_gmem_b_addr], 16, 16);
    }
    CP_ASYNC_COMMIT_GROUP();
  }

  #pragma unroll 1
  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2); // s2->0, s3->1, s4->2
    __syncthreads();

    // s3: k 0->2, k 1->0, k 2->1...
    int smem_sel = k % K_STAGE;
    int smem_sel_next = (k + K_STAGE - 1) % K_STAGE;
    int k_next = k + K_STAGE - 1;
    if (k_next < NUM_K_TILES) {
      int load_gmem_a_addr = load_gmem_a_m * K + k_next * BK + load_smem_a_k;
      int load_gmem_b_addr = (k_next * BK + load_smem_b_k) * N + load_gmem_b_n;
      uint32_t load_smem_a_ptr = smem_a_base_ptr + (smem_sel_next * s_a_stage_offset + load_smem_a_m * (BK + A_PAD) + load_smem_a_k) * sizeof(half);
      uint32_t load_smem_b_ptr = smem_b_base_ptr + (smem_sel_next * s_b_stage_offset + load_smem_b_k * (BN + B_PAD) + load_smem_b_n) * sizeof(half);
      CP_ASYNC_CG_ZFILL(load_smem_a_ptr, &A[load_gmem_a_addr], 16, a_src_bytes);
      CP_ASYNC_CG_ZFILL(load_smem_b_ptr, &B[load_gmem_b_addr], 16, 16);
    }
    CP_ASYNC_COMMIT_GROUP();

    // ldmatrix for s_a, ldmatrix.trans for s_b.
    uint32_t RA[WARP_TILE_M][4];
    uint32_t RB[WARP_TILE_N][2];
    #pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      int warp_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M;
      int lane_smem_a_m = warp_smem_a_m + lane_id % 16; // 0~15
      int lane_smem_a_k = (lane_id / 16) * 8; // 0,8
      uint32_t lane_smem_a_ptr = smem_a_base_ptr + (smem_sel * s_a_stage_offset + lane_smem_a_m * (BK + A_PAD) + lane_smem_a_k) * sizeof(half);
      LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], lane_smem_a_ptr);
    }
    #pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      int warp_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
      int lane_smem_b_k = lane_id % 16; // 0~15
      uint32_t lane_smem_b_ptr = smem_b_base_ptr + (smem_sel * s_b_stage_offset + lane_smem_b_k * (BN + B_PAD) + warp_smem_b_n) * sizeof(half);
      LDMATRIX_X2_T(RB[j][0], RB[j][1], lane_smem_b_ptr);
    }

    // MMA compute
    #pragma unroll
    for (int i = 0; i < WARP_TILE_M; ++i) {
      #pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        HMMA16816(RC[i][j][0], RC[i][j][1],
                  RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                  RB[j][0], RB[j][1],
                  RC[i][j][0], RC[i][j][1]);
      }
    }
  }

  // collective store: lane 0 of each quad writes 8 halfs (128 bits) of two rows
  #pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
    #pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      uint32_t RZ[2][4];
      RZ[0][0] = RC[i][j][0];
      RZ[1][0] = RC[i][j][1];
      RZ[0][1] = __shfl_sync(0xffffffff, RC[i][j][0], lane_id + 1);
      RZ[0][2] = __shfl_sync(0xffffffff, RC[i][j][0], lane_id + 2);
      RZ[0][3] = __shfl_sync(0xffffffff, RC[i][j][0], lane_id + 3);
      RZ[1][1] = __shfl_sync(0xffffffff, RC[i][j][1], lane_id + 1);
      RZ[1][2] = __shfl_sync(0xffffffff, RC[i][j][1], lane_id + 2);
      RZ[1][3] = __shfl_sync(0xffffffff, RC[i][j][1], lane_id + 3);

      if (lane_id % 4 == 0) {
        int store_warp_smem_c_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M;
        int store_warp_smem_c_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        int store_lane_gmem_c_m = by * BM + store_warp_smem_c_m + lane_id / 4;
        int store_lane_gmem_c_n = bx * BN + store_warp_smem_c_n;
        int store_gmem_c_addr_0 = store_lane_gmem_c_m * N + store_lane_gmem_c_n;
        int store_gmem_c_addr_1 = (store_lane_gmem_c_m + 8) * N + store_lane_gmem_c_n;
        if (store_lane_gmem_c_m < M) LDST128BITS(C[store_gmem_c_addr_0]) = LDST128BITS(RZ[0][0]);
        if (store_lane_gmem_c_m + 8 < M) LDST128BITS(C[store_gmem_c_addr_1]) = LDST128BITS(RZ[1][0]);
      }
    }
  }
}

void hgemm_mma_m16n8k16_mma2x2_warp2x4_stages_dsmem(torch::Tensor a, torch::Tensor b, torch::Tensor c, int swizzle_stride) {
  const int M = a.size(0);
  const int K = a.size(1);
  const int N = b.size(1);
  constexpr int BM = 64, BN = 64, BK = 16, K_STAGE = 3;
  const int smem_max_size = K_STAGE * (BM * (BK + 8) + BK * (BN + 8)) * sizeof(half);
  const int N_SWIZZLE = div_ceil(N, swizzle_stride);
  dim3 block(128);
  dim3 grid(div_ceil(div_ceil(N, BN), N_SWIZZLE), div_ceil(M, BM), N_SWIZZLE);
  hgemm_mma_m16n8k16_mma2x2_warp2x4_stages_dsmem_kernel<16, 8, 16, 2, 2, 2, 4, 8, 8, 3, true><<<grid, block, smem_max_size>>>(
    reinterpret_cast<half*>(a.data_ptr()), reinterpret_cast<half*>(b.data_ptr()), reinterpret_cast<half*>(c.data_ptr()), M, N, K);
}
