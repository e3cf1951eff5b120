#include <cuda_bf16.h>
#include <cuda_pipeline.h>
#include <cstdint>

// y = x @ w.T in bfloat16, any sizes whose inner one is a multiple of 8 (rows and columns are guarded)
constexpr int TM = 64, TN = 64, TK = 32, PAD = 8, STAGES = 3;

__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void fetch(__nv_bfloat16 (*dst)[TK + PAD], const __nv_bfloat16* src, int row0, int rows, int k0, int depth) {
  for (int v = threadIdx.x; v < 64 * TK / 8; v += blockDim.x) {
    const int r = v / (TK / 8), c = v % (TK / 8) * 8;
    const bool in = row0 + r < rows && k0 + c < depth;
    const __nv_bfloat16* p = in ? src + (size_t)(row0 + r) * depth + k0 + c : src;
    __pipeline_memcpy_async(&dst[r][c], p, 16, in ? 0 : 16);
  }
}

extern "C" __global__ void __launch_bounds__(128)
bf16_gemm_nt(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, __nv_bfloat16* __restrict__ y,
             int rows, int cols, int depth) {
  __shared__ __align__(16) __nv_bfloat16 xs[STAGES][TM][TK + PAD];
  __shared__ __align__(16) __nv_bfloat16 ws[STAGES][TN][TK + PAD];
  const int row0 = blockIdx.y * TM, col0 = blockIdx.x * TN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane >> 2, t = lane & 3;
  const int steps = (depth + TK - 1) / TK;

  float acc[TN / 8][4] = {};
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) {
      fetch(xs[s], x, row0, rows, s * TK, depth);
      fetch(ws[s], w, col0, cols, s * TK, depth);
    }
    __pipeline_commit();
  }
  for (int s = 0; s < steps; ++s) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    const int next = s + STAGES - 1;
    if (next < steps) {
      fetch(xs[next % STAGES], x, row0, rows, next * TK, depth);
      fetch(ws[next % STAGES], w, col0, cols, next * TK, depth);
    }
    __pipeline_commit();
    auto& xt = xs[s % STAGES];
    auto& wt = ws[s % STAGES];
#pragma unroll
    for (int k = 0; k < TK; k += 16) {
      const int r = warp * 16 + g;
      const uint32_t a[4] = {*(uint32_t*)&xt[r][k + t * 2], *(uint32_t*)&xt[r + 8][k + t * 2],
                             *(uint32_t*)&xt[r][k + t * 2 + 8], *(uint32_t*)&xt[r + 8][k + t * 2 + 8]};
#pragma unroll
      for (int j = 0; j < TN / 8; ++j)
        mma_bf16(acc[j], a, *(uint32_t*)&wt[j * 8 + g][k + t * 2], *(uint32_t*)&wt[j * 8 + g][k + t * 2 + 8]);
    }
  }
#pragma unroll
  for (int j = 0; j < TN / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row0 + warp * 16 + g + (e / 2) * 8, c = col0 + j * 8 + t * 2 + e % 2;
      if (r < rows && c < cols) y[(size_t)r * cols + c] = __float2bfloat16(acc[j][e]);
    }
}
