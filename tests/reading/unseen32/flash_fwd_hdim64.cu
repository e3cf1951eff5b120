// Forward attention, head dim 64, everything in registers (FlashAttention-2 style).
//
// q, o    : (batch, seqlen_q, num_heads, 64)      half
// k, v    : (batch, seqlen_k, num_heads_k, 64)    half, num_heads % num_heads_k == 0 (MQA / GQA)
// lse     : (batch, num_heads, seqlen_q)          float, natural log
//
// With Is_causal the mask is aligned to the bottom right corner, so seqlen_q <= seqlen_k is needed.
// Kernels only, the launcher lives elsewhere:
//   grid = (ceil(seqlen_q / 64), num_heads, batch), block = 128, no dynamic shared memory.

#include <cstdint>
#include <cuda_fp16.h>

struct Flash_fwd_params {
  const half *__restrict__ q_ptr;
  const half *__restrict__ k_ptr;
  const half *__restrict__ v_ptr;
  half *__restrict__ o_ptr;
  float *__restrict__ softmax_lse_ptr;
  int seqlen_q, seqlen_k;
  int num_heads, num_heads_k;
  float scale_softmax;       // 1 / sqrt(64)
  float scale_softmax_log2;  // scale_softmax * log2(e)
};

namespace {

constexpr int kHeadDim = 64;
constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kNThreads = 128;
constexpr int kSmemStride = kHeadDim + 8;

__device__ __forceinline__ void ldsm_x4(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const half *ptr) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(ptr);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr));
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const half *ptr) {
  uint32_t addr = (uint32_t)__cvta_generic_to_shared(ptr);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr));
}

__device__ __forceinline__ void mma_m16n8k16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack_half2(float lo, float hi) {
  half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t *>(&h);
}

// 64 rows of 64 halves -> shared memory, rows >= valid are zero
__device__ __forceinline__ void copy_tile(half *smem, const half *gmem, int64_t row_stride, int valid) {
#pragma unroll
  for (int i = 0; i < 64 * 8 / kNThreads; ++i) {
    const int idx = threadIdx.x + i * kNThreads;
    const int row = idx / 8, col = (idx % 8) * 8;
    uint4 val = make_uint4(0u, 0u, 0u, 0u);
    if (row < valid) val = *reinterpret_cast<const uint4 *>(gmem + row * row_stride + col);
    *reinterpret_cast<uint4 *>(smem + row * kSmemStride + col) = val;
  }
}

}  // namespace

template <bool Is_causal>
__global__ void __launch_bounds__(kNThreads) flash_fwd_hdim64_kernel(const Flash_fwd_params params) {
  __shared__ __align__(16) half smem_q[kBlockM * kSmemStride];
  __shared__ __align__(16) half smem_k[kBlockN * kSmemStride];
  __shared__ __align__(16) half smem_v[kBlockN * kSmemStride];

  const int m_block = blockIdx.x, head = blockIdx.y, bidb = blockIdx.z;
  const int head_k = head / (params.num_heads / params.num_heads_k);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int g = lane / 4, t = lane % 4;

  const int64_t q_row = (int64_t)params.num_heads * kHeadDim;
  const int64_t k_row = (int64_t)params.num_heads_k * kHeadDim;
  const int m0 = m_block * kBlockM;
  const int64_t q_off = ((int64_t)bidb * params.seqlen_q + m0) * q_row + head * kHeadDim;
  const int64_t k_off = (int64_t)bidb * params.seqlen_k * k_row + head_k * kHeadDim;

  copy_tile(smem_q, params.q_ptr + q_off, q_row, params.seqlen_q - m0);
  __syncthreads();

  uint32_t q_frag[4][4];
#pragma unroll
  for (int kk = 0; kk < 4; ++kk)
    ldsm_x4(q_frag[kk][0], q_frag[kk][1], q_frag[kk][2], q_frag[kk][3],
            smem_q + (warp * 16 + lane % 16) * kSmemStride + kk * 16 + (lane / 16) * 8);

  float acc_o[8][4];
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int r = 0; r < 4; ++r) acc_o[n][r] = 0.f;
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};

  const int causal_shift = params.seqlen_k - params.seqlen_q;
  const int n_end = Is_causal ? min(params.seqlen_k, m0 + kBlockM + causal_shift) : params.seqlen_k;

  for (int n0 = 0; n0 < n_end; n0 += kBlockN) {
    __syncthreads();
    copy_tile(smem_k, params.k_ptr + k_off + n0 * k_row, k_row, params.seqlen_k - n0);
    copy_tile(smem_v, params.v_ptr + k_off + n0 * k_row, k_row, params.seqlen_k - n0);
    __syncthreads();

    float acc_s[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int r = 0; r < 4; ++r) acc_s[n][r] = 0.f;

#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
#pragma unroll
      for (int np = 0; np < 4; ++np) {  // 16 keys at a time
        uint32_t b0, b1, b2, b3;
        ldsm_x4(b0, b1, b2, b3,
                smem_k + (np * 16 + lane % 8 + (lane / 16) * 8) * kSmemStride + kk * 16 + ((lane / 8) % 2) * 8);
        mma_m16n8k16(acc_s[2 * np], q_frag[kk], b0, b1);
        mma_m16n8k16(acc_s[2 * np + 1], q_frag[kk], b2, b3);
      }
    }

    // mask
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int col = n0 + n * 8 + t * 2 + (r & 1);
        const int row = m0 + warp * 16 + g + (r >> 1) * 8;
        if (col >= params.seqlen_k || (Is_causal && col > row + causal_shift)) acc_s[n][r] = -INFINITY;
      }

    // online softmax; key 0 is visible to every row, so row_max is finite after the first tile
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float m = row_max[h];
#pragma unroll
      for (int n = 0; n < 8; ++n) m = fmaxf(m, fmaxf(acc_s[n][2 * h], acc_s[n][2 * h + 1]));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));

      const float alpha = exp2f((row_max[h] - m) * params.scale_softmax_log2);
      const float m_scaled = m * params.scale_softmax_log2;
      row_max[h] = m;
      row_sum[h] *= alpha;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        acc_s[n][2 * h] = exp2f(acc_s[n][2 * h] * params.scale_softmax_log2 - m_scaled);
        acc_s[n][2 * h + 1] = exp2f(acc_s[n][2 * h + 1] * params.scale_softmax_log2 - m_scaled);
        row_sum[h] += acc_s[n][2 * h] + acc_s[n][2 * h + 1];
        acc_o[n][2 * h] *= alpha;
        acc_o[n][2 * h + 1] *= alpha;
      }
    }

    // O += P V, the accumulators of S are the A operand of the second product
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      const uint32_t p[4] = {pack_half2(acc_s[2 * kk][0], acc_s[2 * kk][1]),
                             pack_half2(acc_s[2 * kk][2], acc_s[2 * kk][3]),
                             pack_half2(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]),
                             pack_half2(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3])};
#pragma unroll
      for (int dp = 0; dp < 4; ++dp) {
        uint32_t b0, b1, b2, b3;
        ldsm_x4_t(b0, b1, b2, b3, smem_v + (kk * 16 + lane % 16) * kSmemStride + dp * 16 + (lane / 16) * 8);
        mma_m16n8k16(acc_o[2 * dp], p, b0, b1);
        mma_m16n8k16(acc_o[2 * dp + 1], p, b2, b3);
      }
    }
  }

  // epilogue: the four lanes of a quad hold the partial sums of one row
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = row_sum[h];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const int row = m0 + warp * 16 + g + h * 8;
    if (row >= params.seqlen_q) continue;
    const float inv_sum = 1.f / sum;
    half *o = params.o_ptr + ((int64_t)bidb * params.seqlen_q + row) * q_row + head * kHeadDim;
#pragma unroll
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<half2 *>(o + n * 8 + t * 2) =
          __floats2half2_rn(acc_o[n][2 * h] * inv_sum, acc_o[n][2 * h + 1] * inv_sum);
    if (t == 0)
      params.softmax_lse_ptr[((int64_t)bidb * params.num_heads + head) * params.seqlen_q + row] =
          row_max[h] * params.scale_softmax + logf(sum);
  }
}

template __global__ void flash_fwd_hdim64_kernel<false>(const Flash_fwd_params);
template __global__ void flash_fwd_hdim64_kernel<true>(const Flash_fwd_params);
