// D[m][n] = sum_k A[m][k] * W[n][k], bf16 in and out: Ampere style, cp.async ring of STAGES tiles, ldmatrix on
// xor-swizzled rows, mma.m16n8k16
#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

#define STAGES 3
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define NTHREADS 128
#define STAGE_ELEMS ((TILE_M + TILE_N) * TILE_K)
#define DIV_UP(x, y) (((x) + (y) - 1) / (y))

#define CP_ASYNC16(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes))
#define CP_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define LDSM_X4(r, addr)                                                                   \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"        \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3])                    \
               : "r"(addr))
#define MMA_BF16(c, a, b0, b1)                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "                      \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"         \
               : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                    \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

// rows have four chunks of 16 bytes: eight rows that are read at once use all banks
__device__ __forceinline__ int swz(int row, int chunk) { return row * TILE_K + ((chunk ^ ((row >> 1) & 3)) << 3); }

__device__ __forceinline__ void fetch_rows(uint32_t base, const bf16* g, int row0, int rows, int k0, int k) {
  for (int i = threadIdx.x; i < 64 * 4; i += NTHREADS) {
    const int r = i >> 2, ch = i & 3;
    const int kk = k0 + ch * 8;
    const bool in = row0 + r < rows && kk < k;
    const bf16* src = in ? g + (size_t)(row0 + r) * k + kk : g;
    CP_ASYNC16(base + swz(r, ch) * 2, src, in ? 16 : 0);
  }
}

__global__ void __launch_bounds__(NTHREADS)
gemm_bf16_nt(const bf16* __restrict__ A, const bf16* __restrict__ W, bf16* __restrict__ D, int m, int n, int k) {
  extern __shared__ __align__(128) bf16 ring[];

  const int tid = threadIdx.x, lane = tid & 31, wid = tid >> 5;
  const int wm = (wid >> 1) * 32, wn = (wid & 1) * 32;
  const int bm = blockIdx.y * TILE_M, bn = blockIdx.x * TILE_N;
  const int nk = DIV_UP(k, TILE_K);
  const uint32_t smem = (uint32_t)__cvta_generic_to_shared(ring);

  float acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) acc[i][j][e] = 0.f;

  // prologue: all stages but one
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < nk) {
      const uint32_t sa = smem + s * STAGE_ELEMS * 2;
      fetch_rows(sa, A, bm, m, s * TILE_K, k);
      fetch_rows(sa + TILE_M * TILE_K * 2, W, bn, n, s * TILE_K, k);
    }
    CP_COMMIT();
  }

  for (int kt = 0; kt < nk; kt++) {
    CP_WAIT(STAGES - 2);
    __syncthreads();

    const int next = kt + STAGES - 1;
    if (next < nk) {
      const uint32_t sn = smem + (next % STAGES) * STAGE_ELEMS * 2;
      fetch_rows(sn, A, bm, m, next * TILE_K, k);
      fetch_rows(sn + TILE_M * TILE_K * 2, W, bn, n, next * TILE_K, k);
    }
    CP_COMMIT();

    const uint32_t sa = smem + (kt % STAGES) * STAGE_ELEMS * 2;
    const uint32_t sw = sa + TILE_M * TILE_K * 2;
#pragma unroll
    for (int ks = 0; ks < TILE_K / 16; ks++) {
      uint32_t fa[2][4], fb[2][4];
#pragma unroll
      for (int i = 0; i < 2; i++) LDSM_X4(fa[i], sa + swz(wm + i * 16 + (lane & 15), ks * 2 + (lane >> 4)) * 2);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const int row = wn + j * 16 + (lane & 7) + ((lane >> 4) << 3);
        LDSM_X4(fb[j], sw + swz(row, ks * 2 + ((lane >> 3) & 1)) * 2);
      }
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) MMA_BF16(acc[i][j], fa[i], fb[j >> 1][(j & 1) * 2], fb[j >> 1][(j & 1) * 2 + 1]);
    }
  }

  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = bm + wm + i * 16 + g;
      const int col = bn + wn + j * 8 + t * 2;
      if (col >= n) continue;
      if (row < m)
        *(__nv_bfloat162*)(D + (size_t)row * n + col) = __floats2bfloat162_rn(acc[i][j][0], acc[i][j][1]);
      if (row + 8 < m)
        *(__nv_bfloat162*)(D + (size_t)(row + 8) * n + col) = __floats2bfloat162_rn(acc[i][j][2], acc[i][j][3]);
    }
}
