// Forward attention for Ampere and newer: bf16, register resident softmax, GQA, optional causal mask.
//
//  q : [b, seqlen_q, h,   d]      strides given in elements (last dimension contiguous)
//  k : [b, seqlen_k, h_k, d]      v as k       h % h_k == 0
//  o : [b, seqlen_q, h,   d]      lse : [b, h, seqlen_q]  (may be nullptr)
//
// Causal is aligned to the bottom right corner: query i sees keys j <= i + seqlen_k - seqlen_q.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>
#include <cstdint>

struct FlashFwdParams {
  const __nv_bfloat16 *q, *k, *v;
  __nv_bfloat16* o;
  float* lse;
  int64_t q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
  int64_t q_row_stride, k_row_stride, v_row_stride, o_row_stride;
  int64_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;
  int b, h, h_k, seqlen_q, seqlen_k, d;
  float softmax_scale;
  bool is_causal;
};

namespace flash_sm80 {

constexpr int kBlockM = 64, kBlockN = 64, kNWarps = 4, kNThreads = kNWarps * 32;

__device__ __forceinline__ void ldmatrix_x4(uint32_t r[4], const void* p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t r[4], const void* p) {
  uint32_t a = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
  __nv_bfloat162 t = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&t);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// 64 rows of kHeadDim elements into shared memory, rows at or after `rows` become zero
template <int kHeadDim>
__device__ __forceinline__ void copy_tile(__nv_bfloat16* dst, const __nv_bfloat16* src, int64_t row_stride, int rows) {
  constexpr int kChunks = kHeadDim / 8;
  for (int i = threadIdx.x; i < 64 * kChunks; i += kNThreads) {
    const int r = i / kChunks, c = (i % kChunks) * 8;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (r < rows) x = *reinterpret_cast<const uint4*>(src + r * row_stride + c);
    *reinterpret_cast<uint4*>(dst + r * (kHeadDim + 8) + c) = x;
  }
}

template <int kHeadDim, bool Is_causal>
__global__ void __launch_bounds__(kNThreads) flash_fwd_kernel(const FlashFwdParams p) {
  constexpr int kLd = kHeadDim + 8;
  constexpr int kKSteps = kHeadDim / 16;
  __shared__ __align__(16) __nv_bfloat16 smem_k[kBlockN * kLd];
  __shared__ __align__(16) __nv_bfloat16 smem_v[kBlockN * kLd];

  const int m_block = blockIdx.x, bidh = blockIdx.y, bidb = blockIdx.z;
  const int bidh_k = bidh / (p.h / p.h_k);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int g = lane / 4, t = lane % 4;

  const __nv_bfloat16* gq = p.q + bidb * p.q_batch_stride + bidh * p.q_head_stride + (int64_t)m_block * kBlockM * p.q_row_stride;
  const __nv_bfloat16* gk = p.k + bidb * p.k_batch_stride + bidh_k * p.k_head_stride;
  const __nv_bfloat16* gv = p.v + bidb * p.v_batch_stride + bidh_k * p.v_head_stride;

  // Q goes through the K buffer into registers
  copy_tile<kHeadDim>(smem_k, gq, p.q_row_stride, p.seqlen_q - m_block * kBlockM);
  __syncthreads();
  uint32_t qf[kKSteps][4];
#pragma unroll
  for (int ks = 0; ks < kKSteps; ++ks)
    ldmatrix_x4(qf[ks], smem_k + (warp * 16 + lane % 16) * kLd + ks * 16 + (lane / 16) * 8);

  float of[kHeadDim / 8][4];
#pragma unroll
  for (int i = 0; i < kHeadDim / 8; ++i) of[i][0] = of[i][1] = of[i][2] = of[i][3] = 0.f;
  float row_max[2] = {-CUDART_INF_F, -CUDART_INF_F}, row_sum[2] = {0.f, 0.f};
  const float scale_log2 = p.softmax_scale * 1.4426950408889634f;
  const int shift = p.seqlen_k - p.seqlen_q;
  const int row_base = m_block * kBlockM + warp * 16 + g;

  int n_block_max = (p.seqlen_k + kBlockN - 1) / kBlockN;
  if (Is_causal) n_block_max = min(n_block_max, ((m_block + 1) * kBlockM + shift + kBlockN - 1) / kBlockN);

  for (int n_block = 0; n_block < n_block_max; ++n_block) {
    const int n0 = n_block * kBlockN;
    __syncthreads();  // Q fragments / the previous K and V are read
    copy_tile<kHeadDim>(smem_k, gk + (int64_t)n0 * p.k_row_stride, p.k_row_stride, p.seqlen_k - n0);
    copy_tile<kHeadDim>(smem_v, gv + (int64_t)n0 * p.v_row_stride, p.v_row_stride, p.seqlen_k - n0);
    __syncthreads();

    float sf[kBlockN / 8][4];
#pragma unroll
    for (int i = 0; i < kBlockN / 8; ++i) sf[i][0] = sf[i][1] = sf[i][2] = sf[i][3] = 0.f;
#pragma unroll
    for (int ks = 0; ks < kKSteps; ++ks) {
#pragma unroll
      for (int nt = 0; nt < kBlockN / 16; ++nt) {
        uint32_t kf[4];
        ldmatrix_x4(kf, smem_k + (nt * 16 + (lane & 7) + ((lane >> 4) << 3)) * kLd + ks * 16 + ((lane >> 3) & 1) * 8);
        mma_bf16(sf[2 * nt], qf[ks], kf[0], kf[1]);
        mma_bf16(sf[2 * nt + 1], qf[ks], kf[2], kf[3]);
      }
    }

#pragma unroll
    for (int i = 0; i < kBlockN / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int col = n0 + i * 8 + t * 2 + (e & 1);
        const int row = row_base + (e >> 1) * 8;
        if (col >= p.seqlen_k || (Is_causal && col > row + shift)) sf[i][e] = -CUDART_INF_F;
      }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float mx = row_max[r];
#pragma unroll
      for (int i = 0; i < kBlockN / 8; ++i) mx = fmaxf(mx, fmaxf(sf[i][2 * r], sf[i][2 * r + 1]));
      mx = quad_max(mx);
      const float mx_safe = mx == -CUDART_INF_F ? 0.f : mx * scale_log2;  // a row without keys so far
      const float rescale = exp2f(row_max[r] * scale_log2 - mx_safe);
      row_max[r] = mx;
      row_sum[r] *= rescale;
#pragma unroll
      for (int i = 0; i < kHeadDim / 8; ++i) {
        of[i][2 * r] *= rescale;
        of[i][2 * r + 1] *= rescale;
      }
#pragma unroll
      for (int i = 0; i < kBlockN / 8; ++i) {
        sf[i][2 * r] = exp2f(sf[i][2 * r] * scale_log2 - mx_safe);
        sf[i][2 * r + 1] = exp2f(sf[i][2 * r + 1] * scale_log2 - mx_safe);
        row_sum[r] += sf[i][2 * r] + sf[i][2 * r + 1];  // own columns only, reduced at the end
      }
    }

#pragma unroll
    for (int ks = 0; ks < kBlockN / 16; ++ks) {
      uint32_t pf[4] = {pack(sf[2 * ks][0], sf[2 * ks][1]), pack(sf[2 * ks][2], sf[2 * ks][3]),
                        pack(sf[2 * ks + 1][0], sf[2 * ks + 1][1]), pack(sf[2 * ks + 1][2], sf[2 * ks + 1][3])};
#pragma unroll
      for (int dt = 0; dt < kHeadDim / 16; ++dt) {
        uint32_t vf[4];
        ldmatrix_x4_trans(vf, smem_v + (ks * 16 + lane % 16) * kLd + dt * 16 + (lane / 16) * 8);
        mma_bf16(of[2 * dt], pf, vf[0], vf[1]);
        mma_bf16(of[2 * dt + 1], pf, vf[2], vf[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = quad_sum(row_sum[r]);
    const float inv = sum > 0.f ? 1.f / sum : 0.f;
    const int row = row_base + r * 8;
    if (row >= p.seqlen_q) continue;
    __nv_bfloat16* go = p.o + bidb * p.o_batch_stride + bidh * p.o_head_stride + row * p.o_row_stride;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i)
      *reinterpret_cast<uint32_t*>(go + i * 8 + t * 2) = pack(of[i][2 * r] * inv, of[i][2 * r + 1] * inv);
    if (p.lse != nullptr && t == 0)
      p.lse[((int64_t)bidb * p.h + bidh) * p.seqlen_q + row] =
          sum > 0.f ? row_max[r] * p.softmax_scale + logf(sum) : -CUDART_INF_F;
  }
}

template <int kHeadDim>
cudaError_t launch(const FlashFwdParams& p, cudaStream_t stream) {
  dim3 grid((p.seqlen_q + kBlockM - 1) / kBlockM, p.h, p.b);
  if (p.is_causal)
    flash_fwd_kernel<kHeadDim, true><<<grid, kNThreads, 0, stream>>>(p);
  else
    flash_fwd_kernel<kHeadDim, false><<<grid, kNThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace flash_sm80

cudaError_t run_mha_fwd(const FlashFwdParams& params, cudaStream_t stream) {
  if (params.h % params.h_k != 0) return cudaErrorInvalidValue;
  switch (params.d) {
    case 64: return flash_sm80::launch<64>(params, stream);
    case 128: return flash_sm80::launch<128>(params, stream);
    default: return cudaErrorInvalidValue;
  }
}
