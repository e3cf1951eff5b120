// HGEMM: C = A * B, all row major. mma.sync.m16n8k16, ldmatrix, cp.async with K_STAGE stages,
// 2x2 warps, each 2x4 MMA tiles, BM = BN = 64, BK = 32; blocks are swizzled along N.
// N and K have to be multiples of 8 (128 bit copies).
#include <cuda_fp16.h>

#define WARP_SIZE 32
#define LDST32BITS(value) (reinterpret_cast<half2 *>(&(value))[0])
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::: "memory")
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" :: "n"(n) : "memory")

__device__ __host__ inline int div_ceil(int a, int b) { return (a + b - 1) / b; }

// 16 bytes, of which the last 16 - src_bytes are set to zero
__device__ __forceinline__ void cp_async_cg_zfill(half *dst, const half *src, int src_bytes) {
  unsigned dst_ptr = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(dst_ptr), "l"(src), "r"(src_bytes) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(unsigned *r, const half *ptr) {
  unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(ptr));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x2_trans(unsigned *r, const half *ptr) {
  unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(ptr));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1]) : "r"(addr));
}

__device__ __forceinline__ void hmma16816(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <const int K_STAGE, const int A_PAD, const int B_PAD>
__global__ void __launch_bounds__(128)
hgemm_mma_stages_kernel(const half *A, const half *B, half *C, int M, int N, int K) {
  constexpr int MMA_M = 16;
  constexpr int MMA_N = 8;
  constexpr int MMA_K = 16;
  constexpr int MMA_TILE_M = 2;
  constexpr int MMA_TILE_N = 2;
  constexpr int WARP_TILE_M = 2;
  constexpr int WARP_TILE_N = 4;
  constexpr int WARP_TILE_K = 2;
  constexpr int BM = MMA_M * MMA_TILE_M * WARP_TILE_M; // 64
  constexpr int BN = MMA_N * MMA_TILE_N * WARP_TILE_N; // 64
  constexpr int BK = MMA_K * WARP_TILE_K;              // 32

  const int bx = blockIdx.z * gridDim.x + blockIdx.x;
  const int by = blockIdx.y;
  if (bx * BN >= N) return; // the last swizzle may be incomplete

  __shared__ __align__(16) half s_a[K_STAGE][BM][BK + A_PAD];
  __shared__ __align__(16) half s_b[K_STAGE][BK][BN + B_PAD];

  const int NUM_K_TILES = div_ceil(K, BK);
  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % MMA_TILE_M;
  const int warp_n = warp_id / MMA_TILE_M;

  // A: 64 rows of 32, two threads per row; B: 32 rows of 64, four threads per row
  const int load_smem_a_m = tid / 2;
  const int load_smem_a_k = (tid % 2) * 16;
  const int load_smem_b_k = tid / 4;
  const int load_smem_b_n = (tid % 4) * 16;
  const int load_gmem_a_m = by * BM + load_smem_a_m;
  const int load_gmem_b_n = bx * BN + load_smem_b_n;

  auto load_stage = [&](int stage, int k_tile) {
    const int load_gmem_a_k = k_tile * BK + load_smem_a_k;
    const int load_gmem_b_k = k_tile * BK + load_smem_b_k;
#pragma unroll
    for (int i = 0; i < 16; i += 8) {
      const bool in_a = load_gmem_a_m < M && load_gmem_a_k + i < K;
      const half *src_a = in_a ? A + load_gmem_a_m * K + load_gmem_a_k + i : A;
      cp_async_cg_zfill(&s_a[stage][load_smem_a_m][load_smem_a_k + i], src_a, in_a ? 16 : 0);
    }
#pragma unroll
    for (int i = 0; i < 16; i += 8) {
      const bool in_b = load_gmem_b_k < K && load_gmem_b_n + i < N;
      const half *src_b = in_b ? B + load_gmem_b_k * N + load_gmem_b_n + i : B;
      cp_async_cg_zfill(&s_b[stage][load_smem_b_k][load_smem_b_n + i], src_b, in_b ? 16 : 0);
    }
  };

  float RC[WARP_TILE_M][WARP_TILE_N][4];
#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) RC[i][j][c] = 0.0f;

#pragma unroll
  for (int k = 0; k < K_STAGE - 1; ++k) {
    if (k < NUM_K_TILES) load_stage(k, k);
    CP_ASYNC_COMMIT_GROUP();
  }

  for (int k = 0; k < NUM_K_TILES; ++k) {
    CP_ASYNC_WAIT_GROUP(K_STAGE - 2);
    __syncthreads(); // tile k is there, and nobody reads tile k - 1 any more

    const int k_next = k + K_STAGE - 1;
    if (k_next < NUM_K_TILES) load_stage(k_next % K_STAGE, k_next);
    CP_ASYNC_COMMIT_GROUP();

    const int smem_sel = k % K_STAGE;
#pragma unroll
    for (int kk = 0; kk < WARP_TILE_K; ++kk) {
      unsigned RA[WARP_TILE_M][4];
      unsigned RB[WARP_TILE_N][2];
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i) {
        const int lane_smem_a_m = warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id % 16;
        const int lane_smem_a_k = kk * MMA_K + (lane_id / 16) * 8;
        ldmatrix_x4(RA[i], &s_a[smem_sel][lane_smem_a_m][lane_smem_a_k]);
      }
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        const int lane_smem_b_k = kk * MMA_K + lane_id % 16;
        const int lane_smem_b_n = warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N;
        ldmatrix_x2_trans(RB[j], &s_b[smem_sel][lane_smem_b_k][lane_smem_b_n]);
      }
#pragma unroll
      for (int i = 0; i < WARP_TILE_M; ++i)
#pragma unroll
        for (int j = 0; j < WARP_TILE_N; ++j) hmma16816(RC[i][j], RA[i], RB[j]);
    }
  }

#pragma unroll
  for (int i = 0; i < WARP_TILE_M; ++i) {
    const int store_m = by * BM + warp_m * (MMA_M * WARP_TILE_M) + i * MMA_M + lane_id / 4;
#pragma unroll
    for (int j = 0; j < WARP_TILE_N; ++j) {
      const int store_n = bx * BN + warp_n * (MMA_N * WARP_TILE_N) + j * MMA_N + (lane_id % 4) * 2;
      if (store_n >= N) continue;
      if (store_m < M)
        LDST32BITS(C[store_m * N + store_n]) = __floats2half2_rn(RC[i][j][0], RC[i][j][1]);
      if (store_m + 8 < M)
        LDST32BITS(C[(store_m + 8) * N + store_n]) = __floats2half2_rn(RC[i][j][2], RC[i][j][3]);
    }
  }
}
