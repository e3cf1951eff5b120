// Sliding-window causal attention with grouped KV heads and logit soft-capping (Gemma-2 style), bf16.
// FlashAttention-2 schedule: one block per 64 queries of a head, K/V double buffered with cp.async.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kWarps = kBlockM / 16;
constexpr int kThreads = kWarps * 32;
constexpr int kPad = 8;
constexpr float kLog2e = 1.44269504f;

struct WindowParams {
  const bf16* q;    // [B, S, H, D]
  const bf16* k;    // [B, S, Hkv, D]
  const bf16* v;    // [B, S, Hkv, D]
  bf16* o;          // [B, S, H, D]
  float* lse;       // [B, H, S]
  int seqlen;
  int num_heads;
  int num_heads_kv;
  int window_left;  // keys before its own that a query sees
  float scale;
  float softcap;
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void* dst, const void* src, bool pred) {
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
  __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&v);
}

template <int ROWS, int D>
__device__ __forceinline__ void copy_tile(bf16* dst, const bf16* src, int row0, int rows, int row_stride) {
  constexpr int kChunks = D / 8;
  for (int i = threadIdx.x; i < ROWS * kChunks; i += kThreads) {
    const int r = i / kChunks, c = (i % kChunks) * 8;
    const bool ok = row0 + r < rows;
    cp_async16(dst + r * (D + kPad) + c, src + (int64_t)(ok ? row0 + r : 0) * row_stride + c, ok);
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads) window_gqa_fwd_kernel(const WindowParams p) {
  constexpr int LD = D + kPad;
  __shared__ __align__(16) bf16 sQ[kBlockM * LD];
  __shared__ __align__(16) bf16 sK[2][kBlockN * LD];
  __shared__ __align__(16) bf16 sV[2][kBlockN * LD];

  const int m0 = blockIdx.x * kBlockM;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int head_kv = head / (p.num_heads / p.num_heads_kv);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4;

  const int q_stride = p.num_heads * D;
  const int kv_stride = p.num_heads_kv * D;
  const bf16* q = p.q + (int64_t)batch * p.seqlen * q_stride + head * D;
  const bf16* k = p.k + (int64_t)batch * p.seqlen * kv_stride + head_kv * D;
  const bf16* v = p.v + (int64_t)batch * p.seqlen * kv_stride + head_kv * D;
  bf16* o = p.o + (int64_t)batch * p.seqlen * q_stride + head * D;
  float* lse = p.lse + ((int64_t)batch * p.num_heads + head) * p.seqlen;

  const int n_first = max(0, m0 - p.window_left) / kBlockN;
  const int n_last = (min(p.seqlen, m0 + kBlockM) + kBlockN - 1) / kBlockN;

  copy_tile<kBlockM, D>(sQ, q, m0, p.seqlen, q_stride);
  copy_tile<kBlockN, D>(sK[0], k, n_first * kBlockN, p.seqlen, kv_stride);
  copy_tile<kBlockN, D>(sV[0], v, n_first * kBlockN, p.seqlen, kv_stride);
  cp_async_commit();

  float acc[D / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};
  uint32_t qf[D / 16][4];
  const int row_lo = m0 + warp * 16 + g;

  for (int n = n_first; n < n_last; ++n) {
    const int buf = (n - n_first) & 1;
    if (n + 1 < n_last) {
      copy_tile<kBlockN, D>(sK[buf ^ 1], k, (n + 1) * kBlockN, p.seqlen, kv_stride);
      copy_tile<kBlockN, D>(sV[buf ^ 1], v, (n + 1) * kBlockN, p.seqlen, kv_stride);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();

    if (n == n_first) {
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk)
        ldsm_x4(qf[kk], &sQ[(warp * 16 + lane % 16) * LD + kk * 16 + (lane / 16) * 8]);
    }

    // S = Q K^T
    float s[kBlockN / 8][4] = {};
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
      for (int nn = 0; nn < kBlockN / 16; ++nn) {
        uint32_t kf[4];
        ldsm_x4(kf, &sK[buf][(nn * 16 + (lane & 7) + ((lane >> 4) << 3)) * LD + kk * 16 + ((lane >> 3) & 1) * 8]);
        mma_bf16(s[2 * nn], qf[kk], kf[0], kf[1]);
        mma_bf16(s[2 * nn + 1], qf[kk], kf[2], kf[3]);
      }
    }

    // scale, soft cap, window
#pragma unroll
    for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = row_lo + (e / 2) * 8;
        const int col = n * kBlockN + j * 8 + t * 2 + (e & 1);
        float x = s[j][e] * p.scale;
        if (p.softcap > 0.f) x = p.softcap * tanhf(x / p.softcap);
        const bool visible = col <= row && col + p.window_left >= row && col < p.seqlen;
        s[j][e] = visible ? x : -INFINITY;
      }
    }

    // online softmax; a thread has two rows, a row four lanes
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float m = row_max[r];
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) m = fmaxf(m, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
      const float m_use = m == -INFINITY ? 0.f : m;
      const float corr = exp2f((row_max[r] - m_use) * kLog2e);
      row_max[r] = m;
      row_sum[r] *= corr;
#pragma unroll
      for (int j = 0; j < kBlockN / 8; ++j) {
        s[j][2 * r] = exp2f((s[j][2 * r] - m_use) * kLog2e);
        s[j][2 * r + 1] = exp2f((s[j][2 * r + 1] - m_use) * kLog2e);
        row_sum[r] += s[j][2 * r] + s[j][2 * r + 1];
      }
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        acc[d][2 * r] *= corr;
        acc[d][2 * r + 1] *= corr;
      }
    }

    // O += P V
#pragma unroll
    for (int kk = 0; kk < kBlockN / 16; ++kk) {
      uint32_t pf[4];
      pf[0] = pack_bf16(s[2 * kk][0], s[2 * kk][1]);
      pf[1] = pack_bf16(s[2 * kk][2], s[2 * kk][3]);
      pf[2] = pack_bf16(s[2 * kk + 1][0], s[2 * kk + 1][1]);
      pf[3] = pack_bf16(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        uint32_t vf[4];
        ldsm_x4_t(vf, &sV[buf][(kk * 16 + (lane & 15)) * LD + d * 16 + (lane >> 4) * 8]);
        mma_bf16(acc[2 * d], pf, vf[0], vf[1]);
        mma_bf16(acc[2 * d + 1], pf, vf[2], vf[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = row_sum[r];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const int row = row_lo + r * 8;
    if (row >= p.seqlen) continue;
    const float inv = 1.f / sum;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      *reinterpret_cast<uint32_t*>(&o[(int64_t)row * q_stride + d * 8 + t * 2]) =
          pack_bf16(acc[d][2 * r] * inv, acc[d][2 * r + 1] * inv);
    }
    if (t == 0) lse[row] = row_max[r] + logf(sum);
  }
}

std::vector<torch::Tensor> window_gqa_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, int64_t window, double scale, double softcap) {
  const int B = q.size(0), S = q.size(1), H = q.size(2), D = q.size(3);
  auto o = torch::empty_like(q);
  auto lse = torch::empty({B, H, S}, q.options().dtype(torch::kFloat32));
  WindowParams p{(const bf16*)q.data_ptr(), (const bf16*)k.data_ptr(), (const bf16*)v.data_ptr(), (bf16*)o.data_ptr(),
                 lse.data_ptr<float>(), S, H, (int)k.size(2), (int)window, (float)scale, (float)softcap};
  dim3 grid((S + kBlockM - 1) / kBlockM, H, B);
  auto stream = at::cuda::getCurrentCUDAStream();
  if (D == 32) window_gqa_fwd_kernel<32><<<grid, kThreads, 0, stream>>>(p);
  else if (D == 64) window_gqa_fwd_kernel<64><<<grid, kThreads, 0, stream>>>(p);
  return {o, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &window_gqa_fwd, "sliding window GQA forward"); }
