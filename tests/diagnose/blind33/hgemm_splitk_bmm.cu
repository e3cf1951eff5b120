// HGEMM MMA16816 + CP ASYNC (double buffers) + Split K (fp32 atomics), strided batch, C += A @ B
// A: [B, M, K] row major, B: [B, K, N] row major, C: [B, M, N] float, cleared by the caller.
// blockIdx.z = batch * split_k + split. M and N may be anything (N % 8 == 0), K % 8 == 0.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define WARP_SIZE 32
#define DEVICE_INLINE __device__ inline
#define HOST_DEVICE_INLINE __device__ __host__ inline
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
// src-size 0: the 16 bytes are zeros
#define CP_ASYNC_CG_ZFILL(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816F32(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1) \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
               "{%0, %1, %2, %3};\n" \
               : "+f"(RD0), "+f"(RD1), "+f"(RD2), "+f"(RD3) \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

HOST_DEVICE_INLINE int div_ceil(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

// 64x64 tile, 4 warps as 2x2, each 32x32: 2 MMAs along M, 4 along N
template <const int MMA_M = 16, const int MMA_N = 8, const int MMA_K = 16, const int MMA_TILE_M = 2,
          const int MMA_TILE_N = 2, const int WARP_TILE_M = 2, const int WARP_TILE_N = 4, const int A_PAD = 8,
          const int B_PAD = 8>
__global__ void __launch_bounds__(128)
hgemm_mma_m16n8k16_splitk_dbuf_kernel(const half *A, const half *B, float *C, int M, int N, int K, int split_k) {
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M;  // 64
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N;  // 64
  constexpr int BK = MMA_K * 2;                         // 32
  constexpr int K_STAGE = 2;
  __shared__ __align__(16) half s_a[K_STAGE][BM][BK + A_PAD];
  __shared__ __align__(16) half s_b[K_STAGE][BK][BN + B_PAD];

  const int bx = blockIdx.x, by = blockIdx.y;
  const int batch = blockIdx.z / split_k, split = blockIdx.z % split_k;
  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE, lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;
  const int warp_n = warp_id / 2;

  A += (size_t)batch * M * K;
  B += (size_t)batch * K * N;
  C += (size_t)batch * M * N;

  // K tiles of this split; the last splits may have fewer, or none
  const int NUM_K_TILES = div_ceil(K, BK);
  const int tiles_per_split = div_ceil(NUM_K_TILES, split_k);
  const int k_begin = split * tiles_per_split;
  const int k_end = min(k_begin + tiles_per_split, NUM_K_TILES);
  if (k_begin >= k_end) return;

  // g->s: a thread copies 16 halfs of a row of A (2 threads a row) and of B (4 threads a row)
  const int load_smem_a_m = tid / 2, load_smem_a_k = (tid % 2) * 16;
  const int load_smem_b_k = tid / 4, load_smem_b_n = (tid % 4) * 16;
  const int load_gmem_a_m = by * BM + load_smem_a_m;
  const int load_gmem_b_n = bx * BN + load_smem_b_n;

  auto load_tile = [&](int k, int stage) {
#pragma unroll
    for (int v = 0; v < 16; v += 8) {
      const int a_k = k * BK + load_smem_a_k + v;
      const bool a_ok = load_gmem_a_m < M && a_k < K;
      const half *a_ptr = A + (a_ok ? (size_t)load_gmem_a_m * K + a_k : 0);
      const uint32_t a_dst = __cvta_generic_to_shared(&s_a[stage][load_smem_a_m][load_smem_a_k + v]);
      CP_ASYNC_CG_ZFILL(a_dst, a_ptr, a_ok ? 16 : 0);

      const int b_k = k * BK + load_smem_b_k, b_n = load_gmem_b_n + v;
      const bool b_ok = b_k < K && b_n < N;
      const half *b_ptr = B + (b_ok ? (size_t)b_k * N + b_n : 0);
      const uint32_t b_dst = __cvta_generic_to_shared(&s_b[stage][load_smem_b_k][load_smem_b_n + v]);
      CP_ASYNC_CG_ZFILL(b_dst, b_ptr, b_ok ? 16 : 0);
    }
    CP_ASYNC_COMMIT_GROUP();
  };

  float RC[WARP_TILE_M][WARP_TILE_N][4];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) RC[i][j][r] = 0.f;

  load_tile(k_begin, 0);

#pragma unroll 1
  for (int k = k_begin; k < k_end; ++k) {
    const int smem_sel = (k - k_begin) & 1;
    const int smem_sel_next = smem_sel ^ 1;
    if (k + 1 < k_end) {
      load_tile(k + 1, smem_sel_next);
      CP_ASYNC_WAIT_GROUP(1);
    } else {
      CP_ASYNC_WAIT_GROUP(0);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += MMA_K) {
      uint32_t RA[WARP_TILE_M][4], RB[WARP_TILE_N][2];
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
        const int lane_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
        const int lane_smem_a_k = kk + (lane_id / 16) * 8;
        const uint32_t a_ptr = __cvta_generic_to_shared(&s_a[smem_sel][lane_smem_a_m][lane_smem_a_k]);
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], a_ptr);
      }
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        const int lane_smem_b_k = kk + lane_id % 16;
        const int lane_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        const uint32_t b_ptr = __cvta_generic_to_shared(&s_b[smem_sel][lane_smem_b_k][lane_smem_b_n]);
        LDMATRIX_X2_T(RB[j][0], RB[j][1], b_ptr);
      }
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j)
          HMMA16816F32(RC[i][j][0], RC[i][j][1], RC[i][j][2], RC[i][j][3], RA[i][0], RA[i][1], RA[i][2], RA[i][3],
                       RB[j][0], RB[j][1]);
    }
    __syncthreads();
  }

  // r->g: c0, c1 in row lane / 4, c2, c3 8 rows below
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
    const int store_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int store_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
      if (store_n >= N) continue;
      if (store_m < M) {
        atomicAdd(&C[(size_t)store_m * N + store_n], RC[i][j][0]);
        atomicAdd(&C[(size_t)store_m * N + store_n + 1], RC[i][j][1]);
      }
      if (store_m + 8 < M) {
        atomicAdd(&C[(size_t)(store_m + 8) * N + store_n], RC[i][j][2]);
        atomicAdd(&C[(size_t)(store_m + 8) * N + store_n + 1], RC[i][j][3]);
      }
    }
  }
}

void hgemm_bmm_splitk(const half *a, const half *b, float *c, int batch, int M, int N, int K, int split_k) {
  cudaMemset(c, 0, sizeof(float) * batch * M * N);
  dim3 grid(div_ceil(N, 64), div_ceil(M, 64), batch * split_k);
  hgemm_mma_m16n8k16_splitk_dbuf_kernel<16, 8, 16, 2, 2, 2, 4, 8, 8><<<grid, 128>>>(a, b, c, M, N, K, split_k);
}
