#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

// FlashAttention-2 forward, everything after Q*K^T stays in registers.
// Q, K, V, O: [B, H, S, 64] / [B, HKV, S, 64], fp16. Grouped-query attention, optional causal mask.
// One warp owns 16 query rows. Smem rows are 128 bytes, 16-byte chunks XOR-swizzled by row.

constexpr int HEAD = 64;
constexpr int BR = 64;
constexpr int BC = 32;
constexpr int NWARP = BR / 16;
constexpr int CHUNKS = HEAD / 8;

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ int swz(int row, int chunk) {
  return row * HEAD + ((chunk ^ (row & 7)) << 3);
}

__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void ldsm4t(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
  __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

// rows [row0, row0 + ROWS) of a [S, 64] matrix into swizzled smem
template <int ROWS>
__device__ __forceinline__ void load_rows(half* dst, const half* src, int row0, int S) {
  for (int i = threadIdx.x; i < ROWS * CHUNKS; i += NWARP * 32) {
    int r = i / CHUNKS, c = i % CHUNKS;
    int4 v = make_int4(0, 0, 0, 0);
    if (row0 + r < S) v = *reinterpret_cast<const int4*>(src + (size_t)(row0 + r) * HEAD + c * 8);
    *reinterpret_cast<int4*>(dst + swz(r, c)) = v;
  }
}

__global__ void flash_fwd(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                          half* __restrict__ O, int H, int HKV, int S, float scale, int causal) {
  __shared__ __align__(128) half sQ[BR * HEAD];
  __shared__ __align__(128) half sK[BC * HEAD];
  __shared__ __align__(128) half sV[BC * HEAD];

  const int q0 = blockIdx.x * BR;
  const int h = blockIdx.y % H;
  const int b = blockIdx.y / H;
  const int hkv = h / (H / HKV);
  const half* q = Q + (size_t)(b * H + h) * S * HEAD;
  const half* k = K + (size_t)(b * HKV + hkv) * S * HEAD;
  const half* v = V + (size_t)(b * HKV + hkv) * S * HEAD;
  half* o = O + (size_t)(b * H + h) * S * HEAD;

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;   // row inside the 8-row group
  const int tg = lane % 4;  // column pair

  load_rows<BR>(sQ, q, q0, S);
  __syncthreads();

  uint32_t qf[HEAD / 16][4];
#pragma unroll
  for (int kk = 0; kk < HEAD / 16; ++kk)
    ldsm4(qf[kk], smem_u32(sQ + swz(warp * 16 + lane % 16, kk * 2 + lane / 16)));

  float acc[HEAD / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};
  const float scale_log2 = scale * 1.4426950408889634f;

  const int kv_end = causal ? min(S, q0 + BR) : S;
  for (int j0 = 0; j0 < kv_end; j0 += BC) {
    __syncthreads();
    load_rows<BC>(sK, k, j0, S);
    load_rows<BC>(sV, v, j0, S);
    __syncthreads();

    // S = Q K^T
    float s[BC / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < HEAD / 16; ++kk) {
#pragma unroll
      for (int n = 0; n < BC / 16; ++n) {
        uint32_t kf[4];
        int key = n * 16 + lane % 8 + (lane / 16) * 8;
        ldsm4(kf, smem_u32(sK + swz(key, kk * 2 + (lane / 8) % 2)));
        mma16816(s[2 * n], qf[kk], kf[0], kf[1]);
        mma16816(s[2 * n + 1], qf[kk], kf[2], kf[3]);
      }
    }

    // mask
#pragma unroll
    for (int n = 0; n < BC / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int col = j0 + n * 8 + tg * 2 + (e & 1);
        int row = q0 + warp * 16 + g + (e >> 1) * 8;
        if (col >= S || (causal && col > row)) s[n][e] = -INFINITY;
      }
    }

    // online softmax
    uint32_t pf[BC / 16][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float m = row_max[r];
#pragma unroll
      for (int n = 0; n < BC / 8; ++n) m = fmaxf(m, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
      const float m_safe = m == -INFINITY ? 0.f : m;
      const float corr = exp2f((row_max[r] - m_safe) * scale_log2);
      row_max[r] = m;
      float sum = 0.f;
#pragma unroll
      for (int n = 0; n < BC / 8; ++n) {
        s[n][2 * r] = exp2f((s[n][2 * r] - m_safe) * scale_log2);
        s[n][2 * r + 1] = exp2f((s[n][2 * r + 1] - m_safe) * scale_log2);
        sum += s[n][2 * r] + s[n][2 * r + 1];
      }
      row_sum[r] = row_sum[r] * corr + sum;
#pragma unroll
      for (int d = 0; d < HEAD / 8; ++d) {
        acc[d][2 * r] *= corr;
        acc[d][2 * r + 1] *= corr;
      }
    }
#pragma unroll
    for (int n = 0; n < BC / 16; ++n) {
      pf[n][0] = pack2(s[2 * n][0], s[2 * n][1]);
      pf[n][1] = pack2(s[2 * n][2], s[2 * n][3]);
      pf[n][2] = pack2(s[2 * n + 1][0], s[2 * n + 1][1]);
      pf[n][3] = pack2(s[2 * n + 1][2], s[2 * n + 1][3]);
    }

    // O += P V
#pragma unroll
    for (int n = 0; n < BC / 16; ++n) {
#pragma unroll
      for (int d = 0; d < HEAD / 16; ++d) {
        uint32_t vf[4];
        ldsm4t(vf, smem_u32(sV + swz(n * 16 + lane % 16, d * 2 + lane / 16)));
        mma16816(acc[2 * d], pf[n], vf[0], vf[1]);
        mma16816(acc[2 * d + 1], pf[n], vf[2], vf[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = row_sum[r];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const float inv = 1.f / sum;
    const int row = q0 + warp * 16 + g + r * 8;
    if (row >= S) continue;
#pragma unroll
    for (int d = 0; d < HEAD / 8; ++d) {
      uint32_t packed = pack2(acc[d][2 * r] * inv, acc[d][2 * r + 1] * inv);
      *reinterpret_cast<uint32_t*>(o + (size_t)row * HEAD + d * 8 + tg * 2) = packed;
    }
  }
}

void flash_forward(const half* q, const half* k, const half* v, half* o, int B, int H, int HKV, int S, bool causal,
                   cudaStream_t st) {
  dim3 grid((S + BR - 1) / BR, B * H);
  flash_fwd<<<grid, NWARP * 32, 0, st>>>(q, k, v, o, H, HKV, S, 0.125f, causal);
}
