// Causal attention forward with ALiBi and grouped KV heads, head dim 64, bf16.
//
//   q        [batch, seqlen_q, heads,    64]
//   k, v     [batch, seqlen_k, heads_kv, 64]
//   slopes   [heads]                          fp32
//   out      [batch, seqlen_q, heads,    64]
//   lse      [batch, heads, seqlen_q]         fp32, natural log
//
// Query i sees keys j <= i + seqlen_k - seqlen_q (the last query sees everything), and
//   score(i, j) = softmax_scale * <q_i, k_j> + slope * (j - (i + seqlen_k - seqlen_q)).
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

#include <vector>

namespace {

using bf16 = __nv_bfloat16;

constexpr int kHeadDim = 64;
constexpr int kBlockQ = 64;
constexpr int kBlockK = 32;
constexpr int kWarps = 4;  // 16 queries each
constexpr int kThreads = kWarps * 32;
constexpr int kLd = kHeadDim + 8;

struct Params {
  const bf16 *q, *k, *v;
  const float* slopes;
  bf16* out;
  float* lse;
  int heads, heads_kv, seqlen_q, seqlen_k;
  float scale;
};

__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], const bf16* p) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void ldsm4_t(uint32_t (&r)[4], const bf16* p) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(p);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __nv_bfloat162 t = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&t);
}

// rows x 64 values from global memory (row stride in elements), zeros from row `limit` on
template <int ROWS>
__device__ __forceinline__ void load_rows(bf16 (*dst)[kLd], const bf16* src, int first, int limit, size_t stride) {
  for (int i = threadIdx.x; i < ROWS * (kHeadDim / 8); i += kThreads) {
    const int r = i / (kHeadDim / 8), c = i % (kHeadDim / 8) * 8;
    uint4 val = make_uint4(0, 0, 0, 0);
    if (first + r < limit) val = *reinterpret_cast<const uint4*>(src + (first + r) * stride + c);
    *reinterpret_cast<uint4*>(&dst[r][c]) = val;
  }
}

__global__ void __launch_bounds__(kThreads) attn_alibi_fwd(Params p) {
  __shared__ __align__(16) bf16 sq[kBlockQ][kLd];
  __shared__ __align__(16) bf16 sk[kBlockK][kLd];
  __shared__ __align__(16) bf16 sv[kBlockK][kLd];

  const int q0 = blockIdx.x * kBlockQ;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int head_kv = head / (p.heads / p.heads_kv);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int shift = p.seqlen_k - p.seqlen_q;
  const float slope = p.slopes[head];

  const size_t q_stride = (size_t)p.heads * kHeadDim;
  const size_t kv_stride = (size_t)p.heads_kv * kHeadDim;
  const bf16* q = p.q + (size_t)batch * p.seqlen_q * q_stride + head * kHeadDim;
  const bf16* k = p.k + (size_t)batch * p.seqlen_k * kv_stride + head_kv * kHeadDim;
  const bf16* v = p.v + (size_t)batch * p.seqlen_k * kv_stride + head_kv * kHeadDim;

  load_rows<kBlockQ>(sq, q, q0, p.seqlen_q, q_stride);
  __syncthreads();
  uint32_t qf[kHeadDim / 16][4];
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d) ldsm4(qf[d], &sq[warp * 16 + lane % 16][d * 16 + lane / 16 * 8]);

  float o[kHeadDim / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {0.f, 0.f};

  // keys past the diagonal of the last query of the block are never touched
  const int q_last = min(q0 + kBlockQ, p.seqlen_q) - 1;
  const int k_end = min(p.seqlen_k, q_last + shift + 1);

  for (int k0 = 0; k0 < k_end; k0 += kBlockK) {
    __syncthreads();
    load_rows<kBlockK>(sk, k, k0, p.seqlen_k, kv_stride);
    load_rows<kBlockK>(sv, v, k0, p.seqlen_k, kv_stride);
    __syncthreads();

    float s[kBlockK / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
#pragma unroll
      for (int j = 0; j < kBlockK / 16; ++j) {
        uint32_t kf[4];
        ldsm4(kf, &sk[j * 16 + lane / 16 * 8 + lane % 8][d * 16 + lane / 8 % 2 * 8]);
        mma_bf16(s[2 * j], qf[d], kf[0], kf[1]);
        mma_bf16(s[2 * j + 1], qf[d], kf[2], kf[3]);
      }
    }

    // scale, ALiBi, mask; e < 2 is row lane / 4, the others are eight rows further down
    float m_new[2] = {m[0], m[1]};
#pragma unroll
    for (int j = 0; j < kBlockK / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int q_pos = q0 + warp * 16 + lane / 4 + e / 2 * 8 + shift;
        const int k_pos = k0 + j * 8 + lane % 4 * 2 + e % 2;
        const bool keep = k_pos <= q_pos && k_pos < p.seqlen_k;
        s[j][e] = keep ? s[j][e] * p.scale + slope * (k_pos - q_pos) : -INFINITY;
        m_new[e / 2] = fmaxf(m_new[e / 2], s[j][e]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      m_new[r] = fmaxf(m_new[r], __shfl_xor_sync(0xffffffff, m_new[r], 1));
      m_new[r] = fmaxf(m_new[r], __shfl_xor_sync(0xffffffff, m_new[r], 2));
      const float base = m_new[r] == -INFINITY ? 0.f : m_new[r];  // nothing seen so far
      const float corr = __expf(m[r] - base);
      m[r] = m_new[r];
      l[r] *= corr;
#pragma unroll
      for (int d = 0; d < kHeadDim / 8; ++d) {
        o[d][2 * r] *= corr;
        o[d][2 * r + 1] *= corr;
      }
#pragma unroll
      for (int j = 0; j < kBlockK / 8; ++j) {
        s[j][2 * r] = __expf(s[j][2 * r] - base);
        s[j][2 * r + 1] = __expf(s[j][2 * r + 1] - base);
        l[r] += s[j][2 * r] + s[j][2 * r + 1];  // this thread's columns; summed over the quad at the end
      }
    }

#pragma unroll
    for (int j = 0; j < kBlockK / 16; ++j) {
      const uint32_t pf[4] = {pack(s[2 * j][0], s[2 * j][1]), pack(s[2 * j][2], s[2 * j][3]),
                              pack(s[2 * j + 1][0], s[2 * j + 1][1]), pack(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
      for (int d = 0; d < kHeadDim / 16; ++d) {
        uint32_t vf[4];
        ldsm4_t(vf, &sv[j * 16 + lane % 16][d * 16 + lane / 16 * 8]);
        mma_bf16(o[2 * d], pf, vf[0], vf[1]);
        mma_bf16(o[2 * d + 1], pf, vf[2], vf[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] += __shfl_xor_sync(0xffffffff, l[r], 1);
    l[r] += __shfl_xor_sync(0xffffffff, l[r], 2);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = q0 + warp * 16 + lane / 4 + r * 8;
    if (row >= p.seqlen_q) continue;
    const float inv = l[r] > 0.f ? 1.f / l[r] : 0.f;
    bf16* dst = p.out + ((size_t)batch * p.seqlen_q + row) * q_stride + head * kHeadDim;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d)
      *reinterpret_cast<uint32_t*>(dst + d * 8 + lane % 4 * 2) = pack(o[d][2 * r] * inv, o[d][2 * r + 1] * inv);
    if (lane % 4 == 0)
      p.lse[((size_t)batch * p.heads + head) * p.seqlen_q + row] = l[r] > 0.f ? m[r] + logf(l[r]) : -INFINITY;
  }
}

}  // namespace

std::vector<at::Tensor> attn_alibi_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                           const at::Tensor& slopes, double softmax_scale) {
  TORCH_CHECK(q.is_cuda() && k.is_cuda() && v.is_cuda() && slopes.is_cuda(), "inputs must be on the GPU");
  TORCH_CHECK(q.scalar_type() == at::kBFloat16 && k.scalar_type() == at::kBFloat16 && v.scalar_type() == at::kBFloat16,
              "q, k, v must be bfloat16");
  TORCH_CHECK(slopes.scalar_type() == at::kFloat, "slopes must be float32");
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous() && slopes.is_contiguous());
  TORCH_CHECK(q.dim() == 4 && q.size(3) == kHeadDim, "q must be [batch, seqlen, heads, 64]");
  TORCH_CHECK(k.sizes() == v.sizes() && k.size(0) == q.size(0) && k.size(3) == kHeadDim);
  TORCH_CHECK(q.size(2) % k.size(2) == 0, "the query heads must be a multiple of the kv heads");
  TORCH_CHECK(slopes.numel() == q.size(2), "one slope per query head");
  const at::cuda::CUDAGuard guard(q.device());

  const int batch = q.size(0), seqlen_q = q.size(1), heads = q.size(2);
  auto out = at::empty_like(q);
  auto lse = at::empty({batch, heads, seqlen_q}, q.options().dtype(at::kFloat));

  Params p;
  p.q = reinterpret_cast<const bf16*>(q.data_ptr());
  p.k = reinterpret_cast<const bf16*>(k.data_ptr());
  p.v = reinterpret_cast<const bf16*>(v.data_ptr());
  p.slopes = slopes.data_ptr<float>();
  p.out = reinterpret_cast<bf16*>(out.data_ptr());
  p.lse = lse.data_ptr<float>();
  p.heads = heads;
  p.heads_kv = k.size(2);
  p.seqlen_q = seqlen_q;
  p.seqlen_k = k.size(1);
  p.scale = (float)softmax_scale;

  dim3 grid((seqlen_q + kBlockQ - 1) / kBlockQ, heads, batch);
  attn_alibi_fwd<<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {out, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &attn_alibi_forward, "causal GQA attention with ALiBi (out, lse)");
}
