#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <limits>

// FlashAttention-2 forward with mma.sync, one warp per 16 query rows, grouped-query heads
template <int D, int BN>
__global__ __launch_bounds__(128) void gqa_flash_fwd(const __nv_bfloat16* __restrict__ Q, const __nv_bfloat16* __restrict__ Kp,
    const __nv_bfloat16* __restrict__ V, __nv_bfloat16* __restrict__ O, int num_heads, int num_kv_heads, int q_len,
    int kv_len, int q_stride_b, int q_stride_h, int q_stride_s, int k_stride_b, int k_stride_h, int k_stride_s,
    float sm_scale_log2, bool causal) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int b = blockIdx.z, h = blockIdx.y, hk = h / (num_heads / num_kv_heads);
  const __nv_bfloat16* q = Q + b * q_stride_b + h * q_stride_h;
  const __nv_bfloat16* k = Kp + b * k_stride_b + hk * k_stride_h;
  const __nv_bfloat16* v = V + b * k_stride_b + hk * k_stride_h;
  __nv_bfloat16* o = O + b * q_stride_b + h * q_stride_h;
  const int r0 = blockIdx.x * 64 + warp * 16;
  __shared__ __nv_bfloat16 sK[BN][D + 8];
  __shared__ __nv_bfloat16 sV[BN][D + 8];
  unsigned qa[D / 16][4];
#pragma unroll
  for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int row = r0 + g + (i & 1) * 8, col = kk * 16 + t * 2 + (i >> 1) * 8;
      qa[kk][i] = row < q_len ? *(const unsigned*)(q + row * q_stride_s + col) : 0u;
    }
  }
  float acc[D / 8][4] = {};
  float mx[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
  const int shift = kv_len - q_len;
  for (int n0 = 0; n0 < kv_len; n0 += BN) {
    __syncthreads();
    for (int i = threadIdx.x; i < BN * D / 2; i += 128) {
      int r = i / (D / 2), c = i % (D / 2) * 2;
      bool in = n0 + r < kv_len;
      *(unsigned*)&sK[r][c] = in ? *(const unsigned*)(k + (n0 + r) * k_stride_s + c) : 0u;
      *(unsigned*)&sV[r][c] = in ? *(const unsigned*)(v + (n0 + r) * k_stride_s + c) : 0u;
    }
    __syncthreads();
    float s[BN / 8][4];
#pragma unroll
    for (int j = 0; j < BN / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[j][i] = 0.f;
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {
        unsigned b0 = *(unsigned*)&sK[j * 8 + g][kk * 16 + t * 2], b1 = *(unsigned*)&sK[j * 8 + g][kk * 16 + t * 2 + 8];
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(s[j][0]), "+f"(s[j][1]), "+f"(s[j][2]), "+f"(s[j][3])
            : "r"(qa[kk][0]), "r"(qa[kk][1]), "r"(qa[kk][2]), "r"(qa[kk][3]), "r"(b0), "r"(b1));
      }
    }
#pragma unroll
    for (int half_ = 0; half_ < 2; ++half_) {
      const int row = r0 + g + half_ * 8;
      float m_new = mx[half_];
#pragma unroll
      for (int j = 0; j < BN / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int col = n0 + j * 8 + t * 2 + e;
          float& x = s[j][half_ * 2 + e];
          x = (col >= kv_len || (causal && col > row + shift)) ? -INFINITY : x * sm_scale_log2;
          m_new = fmaxf(m_new, x);
        }
      m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
      m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 2));
      const float ref = m_new == -INFINITY ? 0.f : m_new;
      const float corr = exp2f(mx[half_] - ref);
      float part = 0.f;
#pragma unroll
      for (int j = 0; j < BN / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[j][half_ * 2 + e];
          x = exp2f(x - ref);
          part += x;
        }
      part += __shfl_xor_sync(0xffffffff, part, 1);
      part += __shfl_xor_sync(0xffffffff, part, 2);
      sum[half_] = sum[half_] * corr + part;
      mx[half_] = m_new;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) { acc[j][half_ * 2] *= corr; acc[j][half_ * 2 + 1] *= corr; }
    }
#pragma unroll
    for (int kk = 0; kk < BN / 16; ++kk) {
      unsigned pa[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        __nv_bfloat162 p = __floats2bfloat162_rn(s[kk * 2 + (i >> 1)][(i & 1) * 2], s[kk * 2 + (i >> 1)][(i & 1) * 2 + 1]);
        pa[i] = *(unsigned*)&p;
      }
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        __nv_bfloat162 v0 = __halves2bfloat162(sV[kk * 16 + t * 2][j * 8 + g], sV[kk * 16 + t * 2 + 1][j * 8 + g]);
        __nv_bfloat162 v1 = __halves2bfloat162(sV[kk * 16 + t * 2 + 8][j * 8 + g], sV[kk * 16 + t * 2 + 9][j * 8 + g]);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
            : "r"(pa[0]), "r"(pa[1]), "r"(pa[2]), "r"(pa[3]), "r"(*(unsigned*)&v0), "r"(*(unsigned*)&v1));
      }
    }
  }
#pragma unroll
  for (int half_ = 0; half_ < 2; ++half_) {
    const int row = r0 + g + half_ * 8;
    if (row >= q_len) continue;
    const float inv = sum[half_] == 0.f ? 0.f : 1.f / sum[half_];
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
      *(__nv_bfloat162*)(o + row * q_stride_s + j * 8 + t * 2) =
          __floats2bfloat162_rn(acc[j][half_ * 2] * inv, acc[j][half_ * 2 + 1] * inv);
  }
}

torch::Tensor flash_attention_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  // q: [batch, heads, q_len, dim]; k, v: [batch, kv_heads, kv_len, dim]
  TORCH_CHECK(q.scalar_type() == torch::kBFloat16);
  const int B = q.size(0), H = q.size(1), Lq = q.size(2), D = q.size(3);
  const int Hkv = k.size(1), Lk = k.size(2);
  auto o = torch::empty_like(q);
  const float scale = 1.4426950408889634f / std::sqrt(static_cast<float>(D));
  dim3 grid((Lq + 63) / 64, H, B);
  auto launch = [&](auto kern) {
    kern<<<grid, 128>>>(reinterpret_cast<__nv_bfloat16*>(q.data_ptr()), reinterpret_cast<__nv_bfloat16*>(k.data_ptr()),
        reinterpret_cast<__nv_bfloat16*>(v.data_ptr()), reinterpret_cast<__nv_bfloat16*>(o.data_ptr()), H, Hkv, Lq, Lk,
        (int)q.stride(0), (int)q.stride(1), (int)q.stride(2), (int)k.stride(0), (int)k.stride(1), (int)k.stride(2), scale, causal);
  };
  if (D == 64) launch(gqa_flash_fwd<64, 32>);
  else if (D == 128) launch(gqa_flash_fwd<128, 32>);
  else TORCH_CHECK(false, "head dim");
  return o;
}
