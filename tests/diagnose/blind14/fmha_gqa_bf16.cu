#include <cuda_bf16.h>
#include <stdint.h>

// Forward attention with grouped KV heads, bfloat16, sm_80. Queries may be fewer than keys (chunked prefill): the causal
// mask is aligned to the last key. All tensors are [batch, seqlen, heads, head_dim], contiguous.

typedef __nv_bfloat16 bf16;

struct FmhaParams {
  const bf16 *__restrict__ q_ptr;
  const bf16 *__restrict__ k_ptr;
  const bf16 *__restrict__ v_ptr;
  bf16 *__restrict__ o_ptr;
  int seqlen_q, seqlen_k;
  int h, h_k;
  float scale_log2;   // softmax scale * log2(e)
  bool is_causal;
};

template <int kHeadDim_, int kBlockM_, int kBlockN_>
struct FmhaTraits {
  static constexpr int kHeadDim = kHeadDim_, kBlockM = kBlockM_, kBlockN = kBlockN_;
  static constexpr int kThreads = kBlockM / 16 * 32;
  static constexpr int kLd = kHeadDim + 8;
};

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const bf16 *p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
}

__device__ __forceinline__ void ldsm_x4_trans(uint32_t (&r)[4], const bf16 *p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t cvt_pack(float x, float y) {
  __nv_bfloat162 v = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<uint32_t *>(&v);
}

template <typename Traits>
__device__ __forceinline__ void copy_tile(bf16 *smem, const bf16 *gmem, int rows, int row_stride, int tile_rows) {
  constexpr int kVecs = Traits::kHeadDim / 8;
  for (int i = threadIdx.x; i < tile_rows * kVecs; i += Traits::kThreads) {
    const int r = i / kVecs, c = i % kVecs * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (r < rows) v = *reinterpret_cast<const uint4 *>(gmem + (int64_t)r * row_stride + c);
    *reinterpret_cast<uint4 *>(smem + r * Traits::kLd + c) = v;
  }
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads) fmha_fwd_kernel(const FmhaParams params) {
  constexpr int kLd = Traits::kLd, kKSteps = Traits::kHeadDim / 16, kNTiles = Traits::kBlockN / 8;
  extern __shared__ __align__(16) bf16 smem[];
  bf16 *sQ = smem, *sK = sQ + Traits::kBlockM * kLd, *sV = sK + Traits::kBlockN * kLd;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m_block = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const int head_k = head / (params.h / params.h_k);
  const int q_stride = params.h * Traits::kHeadDim, k_stride = params.h_k * Traits::kHeadDim;
  const int m0 = m_block * Traits::kBlockM;
  const int shift = params.seqlen_k - params.seqlen_q;

  const bf16 *gQ = params.q_ptr + ((int64_t)batch * params.seqlen_q + m0) * q_stride + head * Traits::kHeadDim;
  const bf16 *gK = params.k_ptr + (int64_t)batch * params.seqlen_k * k_stride + head_k * Traits::kHeadDim;
  const bf16 *gV = params.v_ptr + (int64_t)batch * params.seqlen_k * k_stride + head_k * Traits::kHeadDim;

  copy_tile<Traits>(sQ, gQ, params.seqlen_q - m0, q_stride, Traits::kBlockM);
  __syncthreads();
  uint32_t qf[kKSteps][4];
#pragma unroll
  for (int k = 0; k < kKSteps; ++k)
    ldsm_x4(qf[k], sQ + (warp * 16 + lane % 16) * kLd + k * 16 + lane / 16 * 8);

  float o[Traits::kHeadDim / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
  const int row0 = m0 + warp * 16 + lane / 4;

  int n_end = params.seqlen_k;
  if (params.is_causal) n_end = min(n_end, m0 + Traits::kBlockM + shift);

  for (int n0 = 0; n0 < n_end; n0 += Traits::kBlockN) {
    copy_tile<Traits>(sK, gK + (int64_t)n0 * k_stride, params.seqlen_k - n0, k_stride, Traits::kBlockN);
    copy_tile<Traits>(sV, gV + (int64_t)n0 * k_stride, params.seqlen_k - n0, k_stride, Traits::kBlockN);
    __syncthreads();

    float s[kNTiles][4] = {};
#pragma unroll
    for (int k = 0; k < kKSteps; ++k)
#pragma unroll
      for (int n = 0; n < kNTiles; n += 2) {
        uint32_t b[4];
        ldsm_x4(b, sK + (n * 8 + lane % 8 + lane / 16 * 8) * kLd + k * 16 + lane / 8 % 2 * 8);
        mma_bf16(s[n], qf[k], b[0], b[1]);
        mma_bf16(s[n + 1], qf[k], b[2], b[3]);
      }

    // mask, and the new maximum of both rows
    float new_max[2] = {row_max[0], row_max[1]};
#pragma unroll
    for (int n = 0; n < kNTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = row0 + e / 2 * 8, col = n0 + n * 8 + lane % 4 * 2 + e % 2;
        if (col >= params.seqlen_k || (params.is_causal && col > row + shift)) s[n][e] = -INFINITY;
        new_max[e / 2] = fmaxf(new_max[e / 2], s[n][e]);
      }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      new_max[i] = fmaxf(new_max[i], __shfl_xor_sync(0xffffffff, new_max[i], 1));
      new_max[i] = fmaxf(new_max[i], __shfl_xor_sync(0xffffffff, new_max[i], 2));
      const float rescale = exp2f((row_max[i] - new_max[i]) * params.scale_log2);
      row_max[i] = new_max[i];
      row_sum[i] *= rescale;
#pragma unroll
      for (int d = 0; d < Traits::kHeadDim / 8; ++d) {
        o[d][i * 2] *= rescale;
        o[d][i * 2 + 1] *= rescale;
      }
    }
#pragma unroll
    for (int n = 0; n < kNTiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = exp2f((s[n][e] - row_max[e / 2]) * params.scale_log2);
        row_sum[e / 2] += s[n][e];
      }

#pragma unroll
    for (int n = 0; n < kNTiles; n += 2) {
      const uint32_t p[4] = {cvt_pack(s[n][0], s[n][1]), cvt_pack(s[n][2], s[n][3]),
                             cvt_pack(s[n + 1][0], s[n + 1][1]), cvt_pack(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int d = 0; d < Traits::kHeadDim / 8; d += 2) {
        uint32_t b[4];
        ldsm_x4_trans(b, sV + (n * 8 + lane % 16) * kLd + d * 8 + lane / 16 * 8);
        mma_bf16(o[d], p, b[0], b[1]);
        mma_bf16(o[d + 1], p, b[2], b[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    row_sum[i] += __shfl_xor_sync(0xffffffff, row_sum[i], 1);
    row_sum[i] += __shfl_xor_sync(0xffffffff, row_sum[i], 2);
    const int row = row0 + i * 8;
    if (row >= params.seqlen_q) continue;
    const float inv = 1.f / row_sum[i];
    bf16 *gO = params.o_ptr + ((int64_t)batch * params.seqlen_q + row) * q_stride + head * Traits::kHeadDim;
#pragma unroll
    for (int d = 0; d < Traits::kHeadDim / 8; ++d)
      *reinterpret_cast<uint32_t *>(gO + d * 8 + lane % 4 * 2) = cvt_pack(o[d][i * 2] * inv, o[d][i * 2 + 1] * inv);
  }
}

template __global__ void fmha_fwd_kernel<FmhaTraits<64, 32, 32>>(const FmhaParams);
