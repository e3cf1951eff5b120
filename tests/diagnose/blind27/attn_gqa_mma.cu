// attn_gqa_mma.cu
//
// Prefill attention with grouped query heads. Tensor cores by hand: ldmatrix + mma.m16n8k16, fp16 in, fp32 accumulate.
//   Q, O : [batch, num_heads,    q_len,  HEAD_DIM]
//   K, V : [batch, num_kv_heads, kv_len, HEAD_DIM]
// Split-Q: every warp owns 16 rows of Q and sees all of K, so nothing is exchanged between warps.
// K/V tiles go through a ring of two stages, filled with cp.async. Rows are padded by 8 halves against bank conflicts.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define WARP_SIZE 32
#define MMA_M 16
#define MMA_N 8
#define MMA_K 16
#define DIV_UP(a, b) (((a) + (b) - 1) / (b))
#define FULL_MASK 0xffffffffu
#define LOG2E 1.4426950408889634f

#define CP_ASYNC_CG(dst, src, src_size) \
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_size))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                               \
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"     \
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                 \
               : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) \
  asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr) \
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816F32(RD, RA0, RA1, RA2, RA3, RB0, RB1)                                                \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "                 \
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                                      \
               : "+f"((RD)[0]), "+f"((RD)[1]), "+f"((RD)[2]), "+f"((RD)[3])                           \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

__device__ __forceinline__ uint32_t smem_addr(const void *ptr) { return (uint32_t)__cvta_generic_to_shared(ptr); }

__device__ __forceinline__ uint32_t float2_to_half2_bits(float x, float y) {
  half2 h = __float22half2_rn(make_float2(x, y));
  return *reinterpret_cast<uint32_t *>(&h);
}

// Reductions over the 4 lanes that hold one row of an accumulator.
__device__ __forceinline__ float row_reduce_max(float v) {
#pragma unroll
  for (int offset = 1; offset < 4; offset <<= 1) v = fmaxf(v, __shfl_xor_sync(FULL_MASK, v, offset));
  return v;
}
__device__ __forceinline__ float row_reduce_sum(float v) {
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) v += __shfl_xor_sync(FULL_MASK, v, offset);
  return v;
}

// ROWS x HEAD_DIM halves, from row `row0` on. Rows behind `num_rows` become zeros.
template <int ROWS, int HEAD_DIM, int LDS, int THREADS>
__device__ __forceinline__ void fetch_tile(half *smem, const half *__restrict__ gmem, int row0, int num_rows, int tid) {
  constexpr int VEC_PER_ROW = HEAD_DIM / 8;
#pragma unroll
  for (int v = tid; v < ROWS * VEC_PER_ROW; v += THREADS) {
    const int r = v / VEC_PER_ROW;
    const int c = (v % VEC_PER_ROW) * 8;
    const bool in_range = row0 + r < num_rows;
    const half *src = gmem + (size_t)(in_range ? row0 + r : 0) * HEAD_DIM + c;
    CP_ASYNC_CG(smem_addr(smem + r * LDS + c), src, in_range ? 16 : 0);
  }
}

template <int HEAD_DIM, int BR, int BC>
__global__ void __launch_bounds__(BR / MMA_M *WARP_SIZE)
    attn_gqa_fwd_kernel(const half *__restrict__ Q, const half *__restrict__ K, const half *__restrict__ V,
                        half *__restrict__ O, int q_len, int kv_len, int num_heads, int num_kv_heads,
                        float softmax_scale, int is_causal) {
  constexpr int THREADS = BR / MMA_M * WARP_SIZE;
  constexpr int LDS = HEAD_DIM + 8;
  constexpr int KV_TILE = BC * LDS;
  constexpr int S_TILES = BC / MMA_N;
  constexpr int O_TILES = HEAD_DIM / MMA_N;

  extern __shared__ half smem[];
  half *s_q = smem;
  half *s_k = s_q + BR * LDS;       // [2][BC][LDS]
  half *s_v = s_k + 2 * KV_TILE;    // [2][BC][LDS]

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane = tid % WARP_SIZE;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int q_start = blockIdx.x * BR;
  const int group_size = num_heads / num_kv_heads;
  const int kv_head = head / group_size;

  const size_t q_offset = (size_t)(batch * num_heads + head) * q_len * HEAD_DIM;
  const size_t kv_offset = (size_t)(batch * num_kv_heads + kv_head) * kv_len * HEAD_DIM;
  const half *k_base = K + kv_offset;
  const half *v_base = V + kv_offset;

  // with a causal mask nothing right of the block's last row is needed
  const int kv_end = is_causal ? min(kv_len, q_start + BR) : kv_len;
  const int num_tiles = DIV_UP(kv_end, BC);

  fetch_tile<BR, HEAD_DIM, LDS, THREADS>(s_q, Q + q_offset, q_start, q_len, tid);
  fetch_tile<BC, HEAD_DIM, LDS, THREADS>(s_k, k_base, 0, kv_len, tid);
  fetch_tile<BC, HEAD_DIM, LDS, THREADS>(s_v, v_base, 0, kv_len, tid);
  CP_ASYNC_COMMIT_GROUP();

  float acc[O_TILES][4];
#pragma unroll
  for (int i = 0; i < O_TILES; ++i) acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.f;
  float m_run[2] = {-INFINITY, -INFINITY};
  float l_run[2] = {0.f, 0.f};

  const float scale_log2 = softmax_scale * LOG2E;
  const int row_lo = q_start + warp_id * MMA_M + (lane >> 2);  // and row_lo + 8
  const int col_in_tile = (lane & 3) * 2;

  for (int tile = 0; tile < num_tiles; ++tile) {
    const int stage = tile & 1;
    if (tile + 1 < num_tiles) {
      const int next = (tile + 1) & 1;
      fetch_tile<BC, HEAD_DIM, LDS, THREADS>(s_k + next * KV_TILE, k_base, (tile + 1) * BC, kv_len, tid);
      fetch_tile<BC, HEAD_DIM, LDS, THREADS>(s_v + next * KV_TILE, v_base, (tile + 1) * BC, kv_len, tid);
      CP_ASYNC_COMMIT_GROUP();
      CP_ASYNC_WAIT_GROUP(1);
    } else {
      CP_ASYNC_WAIT_GROUP(0);
    }
    __syncthreads();

    const half *k_tile = s_k + stage * KV_TILE;
    const half *v_tile = s_v + stage * KV_TILE;

    // ---- scores: 16 x BC per warp
    float s[S_TILES][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += MMA_K) {
      uint32_t rq[4];
      LDMATRIX_X4(rq[0], rq[1], rq[2], rq[3],
                  smem_addr(s_q + (warp_id * MMA_M + (lane % 16)) * LDS + d + (lane / 16) * 8));
#pragma unroll
      for (int j = 0; j < S_TILES; ++j) {
        uint32_t rk[2];
        LDMATRIX_X2(rk[0], rk[1], smem_addr(k_tile + (j * MMA_N + (lane % 8)) * LDS + d + ((lane / 8) % 2) * 8));
        HMMA16816F32(s[j], rq[0], rq[1], rq[2], rq[3], rk[0], rk[1]);
      }
    }

    // ---- scale and mask
#pragma unroll
    for (int j = 0; j < S_TILES; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int col = tile * BC + j * MMA_N + col_in_tile + (e & 1);
        const int row = row_lo + (e >= 2 ? 8 : 0);
        const bool keep = col < kv_len && (!is_causal || col <= row);
        s[j][e] = keep ? s[j][e] * scale_log2 : -INFINITY;
      }
    }

    // ---- online softmax, in base 2
    float m_new[2] = {m_run[0], m_run[1]};
#pragma unroll
    for (int j = 0; j < S_TILES; ++j) {
      m_new[0] = fmaxf(m_new[0], fmaxf(s[j][0], s[j][1]));
      m_new[1] = fmaxf(m_new[1], fmaxf(s[j][2], s[j][3]));
    }
    float alpha[2], l_tile[2] = {0.f, 0.f};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      m_new[h] = row_reduce_max(m_new[h]);
      alpha[h] = exp2f(m_run[h] - m_new[h]);
    }
#pragma unroll
    for (int j = 0; j < S_TILES; ++j) {
      s[j][0] = exp2f(s[j][0] - m_new[0]);
      s[j][1] = exp2f(s[j][1] - m_new[0]);
      s[j][2] = exp2f(s[j][2] - m_new[1]);
      s[j][3] = exp2f(s[j][3] - m_new[1]);
      l_tile[0] += s[j][0] + s[j][1];
      l_tile[1] += s[j][2] + s[j][3];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      l_run[h] = l_run[h] * alpha[h] + row_reduce_sum(l_tile[h]);
      m_run[h] = m_new[h];
    }
#pragma unroll
    for (int i = 0; i < O_TILES; ++i) {
      acc[i][0] *= alpha[0];
      acc[i][1] *= alpha[0];
      acc[i][2] *= alpha[1];
      acc[i][3] *= alpha[1];
    }

    // ---- O += P V, accumulators of two score tiles are one A operand
#pragma unroll
    for (int kk = 0; kk < BC / MMA_K; ++kk) {
      const uint32_t rp0 = float2_to_half2_bits(s[2 * kk][0], s[2 * kk][1]);
      const uint32_t rp1 = float2_to_half2_bits(s[2 * kk][2], s[2 * kk][3]);
      const uint32_t rp2 = float2_to_half2_bits(s[2 * kk + 1][0], s[2 * kk + 1][1]);
      const uint32_t rp3 = float2_to_half2_bits(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
      for (int i = 0; i < O_TILES; ++i) {
        uint32_t rv[2];
        LDMATRIX_X2_T(rv[0], rv[1], smem_addr(v_tile + (kk * MMA_K + (lane % 16)) * LDS + i * MMA_N));
        HMMA16816F32(acc[i], rp0, rp1, rp2, rp3, rv[0], rv[1]);
      }
    }
    __syncthreads();  // this stage is filled again in the next round
  }

  // ---- normalise and store, two halves a lane
  const float inv_l[2] = {1.f / l_run[0], 1.f / l_run[1]};
  half *o_base = O + q_offset;
#pragma unroll
  for (int i = 0; i < O_TILES; ++i) {
    const int col = i * MMA_N + col_in_tile;
    if (row_lo < q_len)
      *reinterpret_cast<uint32_t *>(o_base + (size_t)row_lo * HEAD_DIM + col) =
          float2_to_half2_bits(acc[i][0] * inv_l[0], acc[i][1] * inv_l[0]);
    if (row_lo + 8 < q_len)
      *reinterpret_cast<uint32_t *>(o_base + (size_t)(row_lo + 8) * HEAD_DIM + col) =
          float2_to_half2_bits(acc[i][2] * inv_l[1], acc[i][3] * inv_l[1]);
  }
}

extern "C" void attn_gqa_fwd(const half *q, const half *k, const half *v, half *o, int batch, int num_heads,
                             int num_kv_heads, int q_len, int kv_len, float scale, int causal, cudaStream_t stream) {
  constexpr int D = 64, BR = 64, BC = 32;
  const size_t smem_bytes = (BR + 4 * BC) * (D + 8) * sizeof(half);
  dim3 grid(DIV_UP(q_len, BR), num_heads, batch);
  attn_gqa_fwd_kernel<D, BR, BC><<<grid, BR / MMA_M * WARP_SIZE, smem_bytes, stream>>>(
      q, k, v, o, q_len, kv_len, num_heads, num_kv_heads, scale, causal);
}
