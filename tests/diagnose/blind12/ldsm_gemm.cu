// C = A @ B, fp16 in/out fp32 acc. ldmatrix + mma.m16n8k16, xor swizzle, 3 cp.async stages. No cutlass.
#include <cuda_fp16.h>
#include <stdint.h>

#define BM 64
#define BN 64
#define BK 32
#define NS 3
#define NT 128

#define CP16(dst, src, n) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(n))
#define COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory")
#define LDSM4(r, p)                                                                       \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"          \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(p) : "memory")
#define LDSM4T(r, p)                                                                      \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"    \
               : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(p) : "memory")
#define HMMA(c, a, b0, b1)                                                                \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                       \
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"                  \
               : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                   \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

// 16-byte chunk c of row r; A rows have 4 chunks, B rows 8
__device__ __forceinline__ uint32_t swa(int r, int c) { return r * 64 + ((c ^ ((r >> 1) & 3)) << 4); }
__device__ __forceinline__ uint32_t swb(int r, int c) { return r * 128 + ((c ^ (r & 7)) << 4); }

extern "C" __global__ void __launch_bounds__(NT)
ldsm_gemm(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(128) char smem[];
  const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
  const int t = threadIdx.x, l = t & 31, w = t >> 5;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int wm = (w >> 1) * 32, wn = (w & 1) * 32;
  const uint32_t ASZ = BM * BK * 2, STG = ASZ + BK * BN * 2;

  auto fetch = [&](int s, int k0) {
    const uint32_t sa = base + s * STG, sb = sa + ASZ;
#pragma unroll
    for (int i = t; i < BM * BK / 8; i += NT) {
      const int r = i >> 2, c = i & 3;
      const bool in = m0 + r < M && k0 + c * 8 < K;
      CP16(sa + swa(r, c), in ? A + (size_t)(m0 + r) * K + k0 + c * 8 : A, in ? 16 : 0);
    }
#pragma unroll
    for (int i = t; i < BK * BN / 8; i += NT) {
      const int r = i >> 3, c = i & 7;
      const bool in = k0 + r < K && n0 + c * 8 < N;
      CP16(sb + swb(r, c), in ? B + (size_t)(k0 + r) * N + n0 + c * 8 : B, in ? 16 : 0);
    }
  };

  float acc[2][4][4] = {};
  const int kt = (K + BK - 1) / BK;

#pragma unroll
  for (int s = 0; s < NS - 1; ++s) {
    if (s < kt) fetch(s, s * BK);
    COMMIT();
  }

  for (int it = 0; it < kt; ++it) {
    WAIT(NS - 2);
    __syncthreads();
    const uint32_t sa = base + it % NS * STG, sb = sa + ASZ;
    const int nx = it + NS - 1;
    if (nx < kt) fetch(nx % NS, nx * BK);
    COMMIT();

#pragma unroll
    for (int ks = 0; ks < BK / 16; ++ks) {
      uint32_t a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        LDSM4(a[i], sa + swa(wm + i * 16 + (l & 15), ks * 2 + (l >> 4)));
#pragma unroll
      for (int j = 0; j < 2; ++j)
        LDSM4T(b[j], sb + swb(ks * 16 + (l & 15), (wn >> 3) + j * 2 + (l >> 4)));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          HMMA(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = m0 + wm + i * 16 + (l >> 2), c = n0 + wn + j * 8 + (l & 3) * 2;
      if (c >= N) continue;
      if (r < M) *(half2 *)(C + (size_t)r * N + c) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      if (r + 8 < M) *(half2 *)(C + (size_t)(r + 8) * N + c) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
}
