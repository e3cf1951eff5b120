// Causal grouped-query attention for prefill, bf16, BSHD layout. Header-only style: everything hangs on a config.
#pragma once
#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

namespace attn {

namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;

template <int HeadDim_, int TileQ_, int TileK_>
struct PrefillConfig {
  static constexpr int kHeadDim = HeadDim_;
  static constexpr int kTileQ = TileQ_;
  static constexpr int kTileK = TileK_;
  static constexpr int kWarps = kTileQ / 16;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kLdS = kTileK + 4;
  static constexpr int kLdO = kHeadDim + 4;
  static constexpr size_t kSmemBytes =
      sizeof(float) * kTileQ * kLdS + sizeof(float) * kTileQ * kLdO + sizeof(bf16) * kTileQ * kTileK + sizeof(float) * 3 * kTileQ;
};

struct PrefillParams {
  const bf16* q;   // [batch, seq, num_heads, head_dim]
  const bf16* k;   // [batch, seq, num_kv_heads, head_dim]
  const bf16* v;   // [batch, seq, num_kv_heads, head_dim]
  bf16* out;       // [batch, seq, num_heads, head_dim]
  int seq_len;
  int num_heads;
  int num_kv_heads;
  float sm_scale;
};

template <class Cfg>
__global__ void __launch_bounds__(Cfg::kThreads) gqa_prefill_kernel(PrefillParams p) {
  extern __shared__ __align__(128) unsigned char raw[];
  float* s = reinterpret_cast<float*>(raw);                              // kTileQ x kLdS
  float* o = s + Cfg::kTileQ * Cfg::kLdS;                                // kTileQ x kLdO
  bf16* prob = reinterpret_cast<bf16*>(o + Cfg::kTileQ * Cfg::kLdO);     // kTileQ x kTileK
  float* row_max = reinterpret_cast<float*>(prob + Cfg::kTileQ * Cfg::kTileK);
  float* row_sum = row_max + Cfg::kTileQ;
  float* alpha = row_sum + Cfg::kTileQ;

  const int q0 = blockIdx.x * Cfg::kTileQ;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int kv_head = head / (p.num_heads / p.num_kv_heads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const int64_t q_stride = int64_t(p.num_heads) * Cfg::kHeadDim;
  const int64_t kv_stride = int64_t(p.num_kv_heads) * Cfg::kHeadDim;
  const bf16* q = p.q + (int64_t(batch) * p.seq_len + q0) * q_stride + head * Cfg::kHeadDim;
  const bf16* k = p.k + int64_t(batch) * p.seq_len * kv_stride + kv_head * Cfg::kHeadDim;
  const bf16* v = p.v + int64_t(batch) * p.seq_len * kv_stride + kv_head * Cfg::kHeadDim;
  bf16* out = p.out + (int64_t(batch) * p.seq_len + q0) * q_stride + head * Cfg::kHeadDim;

  for (int i = threadIdx.x; i < Cfg::kTileQ * Cfg::kLdO; i += Cfg::kThreads) o[i] = 0.f;
  for (int i = threadIdx.x; i < Cfg::kTileQ; i += Cfg::kThreads) {
    row_max[i] = -INFINITY;
    row_sum[i] = 0.f;
  }
  __syncthreads();

  const int last = (q0 + Cfg::kTileQ - 1) / Cfg::kTileK;
  for (int t = 0; t <= last; ++t) {
    // scores of this warp's 16 rows
    for (int j = 0; j < Cfg::kTileK / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
      for (int d = 0; d < Cfg::kHeadDim; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fq;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fk;
        wmma::load_matrix_sync(fq, q + warp * 16 * q_stride + d, q_stride);
        wmma::load_matrix_sync(fk, k + int64_t(t * Cfg::kTileK + j * 16) * kv_stride + d, kv_stride);
        wmma::mma_sync(acc, fq, fk, acc);
      }
      wmma::store_matrix_sync(s + warp * 16 * Cfg::kLdS + j * 16, acc, Cfg::kLdS, wmma::mem_row_major);
    }
    __syncwarp();

    // one row after the other, all lanes on it
    for (int r = warp * 16; r < warp * 16 + 16; ++r) {
      float m = row_max[r];
      for (int c = lane; c < Cfg::kTileK; c += 32) {
        const bool keep = t * Cfg::kTileK + c <= q0 + r;
        const float x = keep ? s[r * Cfg::kLdS + c] * p.sm_scale : -INFINITY;
        s[r * Cfg::kLdS + c] = x;
        m = fmaxf(m, x);
      }
      for (int off = 16; off; off >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, off));
      float sum = 0.f;
      for (int c = lane; c < Cfg::kTileK; c += 32) {
        const float e = __expf(s[r * Cfg::kLdS + c] - m);
        prob[r * Cfg::kTileK + c] = __float2bfloat16(e);
        sum += e;
      }
      for (int off = 16; off; off >>= 1) sum += __shfl_xor_sync(~0u, sum, off);
      __syncwarp();
      if (lane == 0) {
        alpha[r] = __expf(row_max[r] - m);
        row_sum[r] = row_sum[r] * alpha[r] + sum;
        row_max[r] = m;
      }
      __syncwarp();
      for (int c = lane; c < Cfg::kHeadDim; c += 32) o[r * Cfg::kLdO + c] *= alpha[r];
    }
    __syncwarp();

    for (int j = 0; j < Cfg::kHeadDim / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, o + warp * 16 * Cfg::kLdO + j * 16, Cfg::kLdO, wmma::mem_row_major);
      for (int c = 0; c < Cfg::kTileK; c += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fp;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fv;
        wmma::load_matrix_sync(fp, prob + warp * 16 * Cfg::kTileK + c, Cfg::kTileK);
        wmma::load_matrix_sync(fv, v + int64_t(t * Cfg::kTileK + c) * kv_stride + j * 16, kv_stride);
        wmma::mma_sync(acc, fp, fv, acc);
      }
      wmma::store_matrix_sync(o + warp * 16 * Cfg::kLdO + j * 16, acc, Cfg::kLdO, wmma::mem_row_major);
    }
    __syncwarp();
  }

  for (int r = warp * 16; r < warp * 16 + 16; ++r)
    for (int c = lane; c < Cfg::kHeadDim; c += 32)
      out[r * q_stride + c] = __float2bfloat16(o[r * Cfg::kLdO + c] / row_sum[r]);
}

// seq_len must be a multiple of the query tile
template <class Cfg = PrefillConfig<64, 64, 64>>
inline cudaError_t gqa_prefill(PrefillParams p, int batch, cudaStream_t stream = nullptr) {
  auto kernel = gqa_prefill_kernel<Cfg>;
  if (Cfg::kSmemBytes > 48 * 1024) {
    cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(Cfg::kSmemBytes));
    if (status != cudaSuccess) return status;
  }
  dim3 grid(p.seq_len / Cfg::kTileQ, p.num_heads, batch);
  kernel<<<grid, Cfg::kThreads, Cfg::kSmemBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace attn
