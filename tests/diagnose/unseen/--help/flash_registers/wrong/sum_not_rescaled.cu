// Flash attention; scores and P never leave registers. One warp = 16 queries; tiles of 32 keys; D = 64.
#include <cuda_fp16.h>
#include <cstdint>

namespace fr {
constexpr int D = 64, TILE = 32, LDS = D + 8;

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __half2 both = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&both);
}
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__global__ void flash(const half* q, const half* k, const half* v, half* o, int S, float to_log2) {
  __shared__ __align__(16) half ks[TILE][LDS];
  __shared__ __align__(16) half vs[TILE][LDS];
  const size_t base = (size_t)blockIdx.y * S * D;
  q += base, k += base, v += base, o += base;
  const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
  const int first = (blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 16;
  const int r0 = first + g, r1 = r0 + 8;
  uint32_t qa[D / 16][4];
  for (int i = 0; i < D / 16; ++i)
    for (int e = 0; e < 4; ++e) {
      const int row = e & 1 ? r1 : r0, col = i * 16 + 2 * t + (e & 2) * 4;
      qa[i][e] = row < S ? *reinterpret_cast<const uint32_t*>(q + (size_t)row * D + col) : 0u;
    }
  float acc[D / 8][4] = {};
  float m0 = -1e30f, m1 = -1e30f, l0 = 0.f, l1 = 0.f;
  for (int start = 0; start < S; start += TILE) {
    for (int i = threadIdx.x; i < TILE * D / 8; i += blockDim.x) {
      const int row = i / (D / 8), col = i % (D / 8) * 8;
      uint4 kk = {}, vv = {};
      if (start + row < S) {
        kk = *reinterpret_cast<const uint4*>(k + (size_t)(start + row) * D + col);
        vv = *reinterpret_cast<const uint4*>(v + (size_t)(start + row) * D + col);
      }
      *reinterpret_cast<uint4*>(&ks[row][col]) = kk;
      *reinterpret_cast<uint4*>(&vs[row][col]) = vv;
    }
    __syncthreads();
    float s[TILE / 8][4] = {};
    for (int n = 0; n < TILE / 8; ++n)
      for (int i = 0; i < D / 16; ++i) {
        const half* from = &ks[n * 8 + g][i * 16 + 2 * t];
        mma(s[n], qa[i], *reinterpret_cast<const uint32_t*>(from), *reinterpret_cast<const uint32_t*>(from + 8));
      }
    float a0 = m0, a1 = m1;
    for (int n = 0; n < TILE / 8; ++n)
      for (int e = 0; e < 4; ++e) {
        const int key = start + n * 8 + 2 * t + (e & 1);
        s[n][e] = key < S ? s[n][e] * to_log2 : -1e30f;
        if (e < 2) a0 = fmaxf(a0, s[n][e]); else a1 = fmaxf(a1, s[n][e]);
      }
    for (int x = 1; x < 4; x <<= 1) {
      a0 = fmaxf(a0, __shfl_xor_sync(~0u, a0, x));
      a1 = fmaxf(a1, __shfl_xor_sync(~0u, a1, x));
    }
    const float c0 = exp2f(m0 - a0), c1 = exp2f(m1 - a1);
    m0 = a0, m1 = a1;
    for (int n = 0; n < D / 8; ++n) {
      acc[n][0] *= c0, acc[n][1] *= c0;
      acc[n][2] *= c1, acc[n][3] *= c1;
    }
    for (int n = 0; n < TILE / 8; ++n) {
      s[n][0] = exp2f(s[n][0] - m0), s[n][1] = exp2f(s[n][1] - m0);
      s[n][2] = exp2f(s[n][2] - m1), s[n][3] = exp2f(s[n][3] - m1);
      l0 += s[n][0] + s[n][1];
      l1 += s[n][2] + s[n][3];
    }
    for (int j = 0; j < TILE / 16; ++j) {
      const uint32_t pa[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                              pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
      for (int n = 0; n < D / 8; ++n) {
        const int row = j * 16 + 2 * t, col = n * 8 + g;
        half2 x = __halves2half2(vs[row][col], vs[row + 1][col]), y = __halves2half2(vs[row + 8][col], vs[row + 9][col]);
        mma(acc[n], pa, *reinterpret_cast<uint32_t*>(&x), *reinterpret_cast<uint32_t*>(&y));
      }
    }
    __syncthreads();
  }
  for (int x = 1; x < 4; x <<= 1) {
    l0 += __shfl_xor_sync(~0u, l0, x);
    l1 += __shfl_xor_sync(~0u, l1, x);
  }
  for (int n = 0; n < D / 8; ++n) {
    const int col = n * 8 + 2 * t;
    if (r0 < S) *reinterpret_cast<half2*>(o + (size_t)r0 * D + col) = __floats2half2_rn(acc[n][0] / l0, acc[n][1] / l0);
    if (r1 < S) *reinterpret_cast<half2*>(o + (size_t)r1 * D + col) = __floats2half2_rn(acc[n][2] / l1, acc[n][3] / l1);
  }
}
}  // namespace fr
