// FlashAttention-2 forward for packed (variable length) batches, bf16, mma.m16n8k16.
//
//   q, o : [total_q, num_heads, D]      k, v : [total_k, num_kv_heads, D]      lse : [num_heads, total_q]  (natural log)
//   cu_seqlens_q / cu_seqlens_k : [batch + 1]
//
// Causal masks are aligned to the bottom right corner, i.e. the last query sees all keys (decode / chunked prefill).
// Rows that see no key at all get O = 0 and LSE = -inf.
//
// 64 queries per CTA, one warp per 16 of them; 32 keys per step. Q stays in registers for the whole loop.
#include <cuda_bf16.h>
#include <cstdint>

using bf16 = __nv_bfloat16;

struct VarlenParams {
  const bf16 *q, *k, *v;
  bf16 *o;
  float *lse;
  const int *cu_seqlens_q, *cu_seqlens_k;
  int total_q;
  int num_heads, num_kv_heads;
  float scale_log2;  // softmax_scale * log2(e)
};

namespace {

constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kWarps = kBlockM / 16;
constexpr int kThreads = kWarps * 32;
constexpr float kLn2 = 0.6931471805599453f;

// Shared memory tile of rows of D elements, 16 byte chunks swizzled by the row.
template <int D>
struct Tile {
  static constexpr int kChunks = D / 8;
  static __device__ int offset(int row, int col) {
    return row * D + (((col / 8) ^ (row % kChunks)) * 8) + col % 8;
  }
};

__device__ __forceinline__ uint32_t cvta(const bf16 *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const bf16 *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(cvta(p)));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const bf16 *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(cvta(p)));
}
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t *>(&v);
}

// rows [row0, row0 + ROWS) of one head into shared memory; rows at or behind `end` become zero
template <int D, int ROWS>
__device__ __forceinline__ void load_tile(bf16 *smem, const bf16 *gmem, int row0, int end, size_t stride) {
  for (int i = threadIdx.x; i < ROWS * D / 8; i += kThreads) {
    const int r = i / (D / 8), c = i % (D / 8) * 8;
    uint4 val = make_uint4(0, 0, 0, 0);
    if (row0 + r < end) val = *reinterpret_cast<const uint4 *>(gmem + (size_t)(row0 + r) * stride + c);
    *reinterpret_cast<uint4 *>(smem + Tile<D>::offset(r, c)) = val;
  }
}

}  // namespace

template <int D, bool kCausal>
__global__ void __launch_bounds__(kThreads) fa2_varlen_fwd(VarlenParams p) {
  __shared__ __align__(16) bf16 sQ[kBlockM * D];
  __shared__ __align__(16) bf16 sK[kBlockN * D];
  __shared__ __align__(16) bf16 sV[kBlockN * D];

  const int m_block = blockIdx.x, head = blockIdx.y, seq = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int quad = lane / 4, tig = lane % 4;

  const int q_begin = p.cu_seqlens_q[seq], k_begin = p.cu_seqlens_k[seq];
  const int len_q = p.cu_seqlens_q[seq + 1] - q_begin;
  const int len_k = p.cu_seqlens_k[seq + 1] - k_begin;
  if (m_block * kBlockM >= len_q) return;

  const int kv_head = head / (p.num_heads / p.num_kv_heads);
  const size_t q_stride = (size_t)p.num_heads * D, kv_stride = (size_t)p.num_kv_heads * D;
  const bf16 *gq = p.q + q_begin * q_stride + head * D;
  const bf16 *gk = p.k + k_begin * kv_stride + kv_head * D;
  const bf16 *gv = p.v + k_begin * kv_stride + kv_head * D;

  load_tile<D, kBlockM>(sQ, gq, m_block * kBlockM, len_q, q_stride);
  __syncthreads();

  uint32_t qf[D / 16][4];
#pragma unroll
  for (int kc = 0; kc < D / 16; ++kc)
    ldsm_x4(qf[kc], sQ + Tile<D>::offset(warp * 16 + lane % 16, kc * 16 + lane / 16 * 8));

  float acc[D / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};

  const int diag = len_k - len_q;  // query i sees keys 0 .. i + diag
  int n_end = (len_k + kBlockN - 1) / kBlockN;
  if (kCausal) n_end = min(n_end, (max((m_block + 1) * kBlockM + diag, 0) + kBlockN - 1) / kBlockN);

  for (int n = 0; n < n_end; ++n) {
    __syncthreads();
    load_tile<D, kBlockN>(sK, gk, n * kBlockN, len_k, kv_stride);
    load_tile<D, kBlockN>(sV, gv, n * kBlockN, len_k, kv_stride);
    __syncthreads();

    // S = Q K^T
    float s[kBlockN / 8][4] = {};
#pragma unroll
    for (int kc = 0; kc < D / 16; ++kc) {
#pragma unroll
      for (int nc = 0; nc < kBlockN / 16; ++nc) {
        uint32_t kf[4];
        ldsm_x4(kf, sK + Tile<D>::offset(nc * 16 + lane / 16 * 8 + lane % 8, kc * 16 + lane / 8 % 2 * 8));
        mma_bf16(s[2 * nc], qf[kc], kf[0], kf[1]);
        mma_bf16(s[2 * nc + 1], qf[kc], kf[2], kf[3]);
      }
    }

    // mask
#pragma unroll
    for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = m_block * kBlockM + warp * 16 + quad + e / 2 * 8;
        const int col = n * kBlockN + j * 8 + tig * 2 + e % 2;
        if (col >= len_k || (kCausal && col > row + diag)) s[j][e] = -INFINITY;
      }
    }

    // online softmax, in base 2
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float mx = row_max[h];
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) mx = fmaxf(mx, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 2));

      const float shift = mx == -INFINITY ? 0.f : mx * p.scale_log2;
      const float corr = exp2f(row_max[h] * p.scale_log2 - shift);
      row_max[h] = mx;
      row_sum[h] *= corr;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        acc[d][2 * h] *= corr;
        acc[d][2 * h + 1] *= corr;
      }
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float pr = exp2f(s[j][2 * h + e] * p.scale_log2 - shift);
          s[j][2 * h + e] = pr;
          row_sum[h] += pr;
        }
      }
    }

    // O += P V
#pragma unroll
    for (int kc = 0; kc < kBlockN / 16; ++kc) {
      const uint32_t pf[4] = {pack(s[2 * kc][0], s[2 * kc][1]), pack(s[2 * kc][2], s[2 * kc][3]),
                              pack(s[2 * kc + 1][0], s[2 * kc + 1][1]), pack(s[2 * kc + 1][2], s[2 * kc + 1][3])};
#pragma unroll
      for (int dc = 0; dc < D / 16; ++dc) {
        uint32_t vf[4];
        ldsm_x4_t(vf, sV + Tile<D>::offset(kc * 16 + lane % 16, dc * 16 + lane / 16 * 8));
        mma_bf16(acc[2 * dc], pf, vf[0], vf[1]);
        mma_bf16(acc[2 * dc + 1], pf, vf[2], vf[3]);
      }
    }
  }

  // epilogue
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = row_sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float inv = sum > 0.f ? 1.f / sum : 0.f;

    const int row = m_block * kBlockM + warp * 16 + quad + h * 8;
    if (row >= len_q) continue;

    bf16 *go = p.o + (q_begin + row) * q_stride + head * D;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<uint32_t *>(go + d * 8 + tig * 2) = pack(acc[d][2 * h] * inv, acc[d][2 * h + 1] * inv);

    if (tig == 0)
      p.lse[(size_t)head * p.total_q + q_begin + row] =
          sum > 0.f ? (row_max[h] * p.scale_log2 + log2f(sum)) * kLn2 : -INFINITY;
  }
}

template <int D>
void run_fa2_varlen(const VarlenParams &p, int batch, int max_seqlen_q, bool causal, cudaStream_t stream) {
  dim3 grid((max_seqlen_q + kBlockM - 1) / kBlockM, p.num_heads, batch);
  if (causal)
    fa2_varlen_fwd<D, true><<<grid, kThreads, 0, stream>>>(p);
  else
    fa2_varlen_fwd<D, false><<<grid, kThreads, 0, stream>>>(p);
}
