// Decode attention (one new token per sequence) for sliding-window layers with a ring-buffer KV cache, GQA, and logit
// soft-capping (Gemma-2 style). One CTA per (kv head, sequence): all query heads of the group are rows of one
// m16n8k16 tile, warps walk over the window in tiles of 16 tokens, and are merged at the end through shared memory.
//
//   q        [batch, num_heads, HEAD_DIM]
//   k_cache  [batch, capacity, num_kv_heads, HEAD_DIM]   token t lives in slot t % capacity
//   v_cache  [batch, capacity, num_kv_heads, HEAD_DIM]
//   out      [batch, num_heads, HEAD_DIM]
//
// group = num_heads / num_kv_heads <= 16, window <= capacity
#include <cuda_fp16.h>
#include <stdint.h>

namespace decode {

static constexpr float kLog2e = 1.4426950408889634f;
static constexpr int kTileTokens = 16;
static constexpr int kRows = 16;

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const half* smem) {
  const uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}

// 16 bytes, zeros where pred is false
__device__ __forceinline__ void cp_async_zfill(half* smem, const half* gmem, bool pred) {
  const uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(addr), "l"(gmem), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ __forceinline__ uint32_t pack_half2(float lo, float hi) {
  const half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<const uint32_t*>(&h);
}

template <int HEAD_DIM, int NUM_WARPS>
__global__ void __launch_bounds__(NUM_WARPS * 32)
    swa_ring_decode_kernel(half* __restrict__ out, const half* __restrict__ q, const half* __restrict__ k_cache,
                           const half* __restrict__ v_cache, const int* __restrict__ seq_lens, const int num_heads,
                           const int num_kv_heads, const int capacity, const int window, const float sm_scale,
                           const float softcap) {
  constexpr int kChunks = HEAD_DIM / 16;
  constexpr int kVStride = HEAD_DIM + 8;

  __shared__ __align__(16) half v_smem[NUM_WARPS][kTileTokens * kVStride];
  __shared__ float o_smem[NUM_WARPS][kRows][HEAD_DIM];
  __shared__ float m_smem[NUM_WARPS][kRows];
  __shared__ float l_smem[NUM_WARPS][kRows];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int row = lane / 4;         // and row + 8
  const int col2 = (lane % 4) * 2;  // and col2 + 1

  const int kv_head = blockIdx.x;
  const int seq = blockIdx.y;
  const int group = num_heads / num_kv_heads;

  const int seq_len = seq_lens[seq];
  const int token_begin = max(seq_len - window, 0);
  const int num_tokens = seq_len - token_begin;

  const int slot_stride = num_kv_heads * HEAD_DIM;
  const half* k_base = k_cache + (static_cast<int64_t>(seq) * capacity * num_kv_heads + kv_head) * HEAD_DIM;
  const half* v_base = v_cache + (static_cast<int64_t>(seq) * capacity * num_kv_heads + kv_head) * HEAD_DIM;
  const half* q_base = q + (static_cast<int64_t>(seq) * num_heads + kv_head * group) * HEAD_DIM;

  // Q, as the A operand; rows behind the group are zero
  uint32_t q_frag[kChunks][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + (i & 1) * 8;
      const int d = c * 16 + col2 + (i >> 1) * 8;
      q_frag[c][i] = r < group ? *reinterpret_cast<const uint32_t*>(q_base + r * HEAD_DIM + d) : 0u;
    }
  }

  float o_acc[HEAD_DIM / 8][4];
#pragma unroll
  for (int n = 0; n < HEAD_DIM / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) o_acc[n][i] = 0.f;
  }
  float m_run[2] = {-INFINITY, -INFINITY};
  float l_run[2] = {0.f, 0.f};

  for (int t0 = warp * kTileTokens; t0 < num_tokens; t0 += NUM_WARPS * kTileTokens) {
    // V of this tile is on its way while we compute the scores
#pragma unroll
    for (int i = lane; i < kTileTokens * (HEAD_DIM / 8); i += 32) {
      const int t = i / (HEAD_DIM / 8);
      const int d = i % (HEAD_DIM / 8) * 8;
      const bool valid = t0 + t < num_tokens;
      const int slot = valid ? (token_begin + t0 + t) % capacity : 0;
      cp_async_zfill(&v_smem[warp][t * kVStride + d], v_base + static_cast<int64_t>(slot) * slot_stride + d, valid);
    }
    cp_async_commit();

    // S = Q K^T, K straight from global memory as the (column-major) B operand
    float s[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
      const int t = min(t0 + n * 8 + row, num_tokens - 1);
      const int slot = (token_begin + t) % capacity;
      const half* k_row = k_base + static_cast<int64_t>(slot) * slot_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const uint32_t b0 = *reinterpret_cast<const uint32_t*>(k_row + c * 16 + col2);
        const uint32_t b1 = *reinterpret_cast<const uint32_t*>(k_row + c * 16 + col2 + 8);
        mma_m16n8k16(s[n], q_frag[c], b0, b1);
      }
    }

    // scale, cap, mask
    float m_new[2] = {m_run[0], m_run[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x = s[n][i] * sm_scale;
        if (softcap > 0.f) x = softcap * tanhf(x / softcap);
        const int t = t0 + n * 8 + col2 + (i & 1);
        s[n][i] = t < num_tokens ? x * kLog2e : -INFINITY;
        m_new[i >> 1] = fmaxf(m_new[i >> 1], s[n][i]);
      }
    }
    m_new[0] = quad_max(m_new[0]);
    m_new[1] = quad_max(m_new[1]);

    const float alpha[2] = {exp2f(m_run[0] - m_new[0]), exp2f(m_run[1] - m_new[1])};
    l_run[0] *= alpha[0];
    l_run[1] *= alpha[1];
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o_acc[n][i] *= alpha[i >> 1];
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = exp2f(s[n][i] - m_new[i >> 1]);
        l_run[i >> 1] += s[n][i];
      }
    }
    m_run[0] = m_new[0];
    m_run[1] = m_new[1];

    // the C layout of two n8 tiles is the A layout of one k16 step
    const uint32_t p_frag[4] = {pack_half2(s[0][0], s[0][1]), pack_half2(s[0][2], s[0][3]),
                                pack_half2(s[1][0], s[1][1]), pack_half2(s[1][2], s[1][3])};

    cp_async_wait_all();
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      uint32_t v_frag[4];
      ldmatrix_x4_trans(v_frag, &v_smem[warp][(lane % 16) * kVStride + c * 16 + (lane / 16) * 8]);
      mma_m16n8k16(o_acc[2 * c], p_frag, v_frag[0], v_frag[1]);
      mma_m16n8k16(o_acc[2 * c + 1], p_frag, v_frag[2], v_frag[3]);
    }
    __syncwarp();
  }

  // merge the warps
  l_run[0] = quad_sum(l_run[0]);
  l_run[1] = quad_sum(l_run[1]);
  if (lane % 4 == 0) {
    m_smem[warp][row] = m_run[0];
    m_smem[warp][row + 8] = m_run[1];
    l_smem[warp][row] = l_run[0];
    l_smem[warp][row + 8] = l_run[1];
  }
#pragma unroll
  for (int n = 0; n < HEAD_DIM / 8; ++n) {
    o_smem[warp][row][n * 8 + col2] = o_acc[n][0];
    o_smem[warp][row][n * 8 + col2 + 1] = o_acc[n][1];
    o_smem[warp][row + 8][n * 8 + col2] = o_acc[n][2];
    o_smem[warp][row + 8][n * 8 + col2 + 1] = o_acc[n][3];
  }
  __syncthreads();

  for (int i = threadIdx.x; i < group * HEAD_DIM; i += NUM_WARPS * 32) {
    const int r = i / HEAD_DIM;
    const int d = i % HEAD_DIM;
    float m = -INFINITY;
#pragma unroll
    for (int w = 0; w < NUM_WARPS; ++w) m = fmaxf(m, m_smem[w][r]);
    float num = 0.f, den = 0.f;
#pragma unroll
    for (int w = 0; w < NUM_WARPS; ++w) {
      if (l_smem[w][r] > 0.f) {
        const float f = exp2f(m_smem[w][r] - m);
        num += f * o_smem[w][r][d];
        den += f * l_smem[w][r];
      }
    }
    out[(static_cast<int64_t>(seq) * num_heads + kv_head * group + r) * HEAD_DIM + d] =
        __float2half(den > 0.f ? num / den : 0.f);
  }
}

template __global__ void swa_ring_decode_kernel<64, 4>(half*, const half*, const half*, const half*, const int*, int,
                                                       int, int, int, float, float);
template __global__ void swa_ring_decode_kernel<128, 4>(half*, const half*, const half*, const half*, const int*, int,
                                                        int, int, int, float, float);

}  // namespace decode
