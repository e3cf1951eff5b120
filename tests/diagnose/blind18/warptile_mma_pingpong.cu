// Kernel 7: warp tiles, tensor cores through mma.sync, and two shared-memory buffers filled by cp.async.
//   C = alpha * (A @ B) + beta * C     A: M x K, B: K x N (half), C: M x N (float), all row-major
// Sizes need not fit the tile, but K and N have to be multiples of 8 (16-byte copies).
#include <cuda_fp16.h>
#include <cstdint>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

namespace ptx {

__device__ inline void cp_async_or_zero(half *smem, const half *gmem, bool in_bounds) {
  uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
  int src_bytes = in_bounds ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(gmem), "r"(src_bytes));
}

__device__ inline void ldmatrix_a(uint32_t (&r)[4], const half *smem) {
  uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}

__device__ inline void ldmatrix_b(uint32_t (&r)[2], const half *smem) {
  uint32_t s = (uint32_t)__cvta_generic_to_shared(smem);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n" : "=r"(r[0]), "=r"(r[1]) : "r"(s));
}

__device__ inline void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

} // namespace ptx

// copies a ROWS x COLS tile of a matrix of rows x cols that begins at (row0, col0)
template <int ROWS, int COLS, int LDS, int NUM_THREADS>
__device__ void loadTile(half *dst, const half *src, int row0, int col0, int rows, int cols) {
  constexpr int perRow = COLS / 8;
  constexpr int rowStride = NUM_THREADS / perRow;
  const int innerCol = threadIdx.x % perRow * 8;
  const int innerRow = threadIdx.x / perRow;
  for (int offset = 0; offset < ROWS; offset += rowStride) {
    const int row = row0 + innerRow + offset;
    const int col = col0 + innerCol;
    const bool ok = row < rows && col < cols;
    ptx::cp_async_or_zero(dst + (innerRow + offset) * LDS + innerCol, ok ? src + row * cols + col : src, ok);
  }
}

template <int BM, int BN, int BK, int WM, int WN>
__global__ void __launch_bounds__(BM *BN / (WM * WN) * 32)
    gemmWarptilingPingpong(int M, int N, int K, float alpha, const half *A, const half *B, float beta, float *C) {
  constexpr int NUM_THREADS = BM * BN / (WM * WN) * 32;
  constexpr int LDA = BK + 8;
  constexpr int LDB = BN + 8;
  constexpr int WMITER = WM / 16;
  constexpr int WNITER = WN / 8;

  __shared__ __align__(16) half As[2][BM * LDA];
  __shared__ __align__(16) half Bs[2][BK * LDB];

  const int cRow = blockIdx.y * BM;
  const int cCol = blockIdx.x * BN;
  const int warpIdx = threadIdx.x / 32;
  const int warpCol = warpIdx % (BN / WN);
  const int warpRow = warpIdx / (BN / WN);
  const int lane = threadIdx.x % 32;

  float threadResults[WMITER][WNITER][4] = {};
  uint32_t regM[WMITER][4];
  uint32_t regN[WNITER][2];

  loadTile<BM, BK, LDA, NUM_THREADS>(As[0], A, cRow, 0, M, K);
  loadTile<BK, BN, LDB, NUM_THREADS>(Bs[0], B, 0, cCol, K, N);
  asm volatile("cp.async.commit_group;\n");

  int cur = 0;
  for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
    if (bkIdx + BK < K) {
      loadTile<BM, BK, LDA, NUM_THREADS>(As[cur ^ 1], A, cRow, bkIdx + BK, M, K);
      loadTile<BK, BN, LDB, NUM_THREADS>(Bs[cur ^ 1], B, bkIdx + BK, cCol, K, N);
      asm volatile("cp.async.commit_group;\n");
      asm volatile("cp.async.wait_group 1;\n");
    } else {
      asm volatile("cp.async.wait_group 0;\n");
    }
    __syncthreads();

    for (int dotIdx = 0; dotIdx < BK; dotIdx += 16) {
      for (int i = 0; i < WMITER; ++i)
        ptx::ldmatrix_a(regM[i], &As[cur][(warpRow * WM + i * 16 + lane % 16) * LDA + dotIdx + lane / 16 * 8]);
      for (int j = 0; j < WNITER; ++j)
        ptx::ldmatrix_b(regN[j], &Bs[cur][(dotIdx + lane % 16) * LDB + warpCol * WN + j * 8]);
      for (int i = 0; i < WMITER; ++i)
        for (int j = 0; j < WNITER; ++j)
          ptx::mma16816(threadResults[i][j], regM[i], regN[j]);
    }
    __syncthreads();
    cur ^= 1;
  }

  for (int i = 0; i < WMITER; ++i) {
    for (int j = 0; j < WNITER; ++j) {
      for (int half8 = 0; half8 < 2; ++half8) {
        const int row = cRow + warpRow * WM + i * 16 + half8 * 8 + lane / 4;
        const int col = cCol + warpCol * WN + j * 8 + lane % 4 * 2;
        if (row < M && col < N) {
          float2 *out = reinterpret_cast<float2 *>(&C[row * N + col]);
          float2 tmp = *out;
          tmp.x = alpha * threadResults[i][j][half8 * 2 + 0] + beta * tmp.x;
          tmp.y = alpha * threadResults[i][j][half8 * 2 + 1] + beta * tmp.y;
          *out = tmp;
        }
      }
    }
  }
}
