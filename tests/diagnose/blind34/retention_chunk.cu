// Chunk-wise retention (RetNet), forward, fused over chunks: a hand translation of the Triton kernel
// `fused_chunk_retention_fwd_kernel` to CUDA C++ with WMMA. Names and the order of steps are kept.
//   o_i = scale * sum_{j <= i} gamma^(i - j) (q_i . k_j) v_j  (+ what the initial state gives),  gamma = 1 - 2^(-5 - head)
// The program (i_v, i_h, i_b) keeps the state b_h = [DK, BV] in accumulators.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BT 32
#define BV 32
#define NUM_WARPS 4
#define PAD 8

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> AccT;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> ART;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> ACT;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> BRT;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> BCT;

// tl.load(..., boundary_check=(0,)): rows [t0, T) of a row-major [T, cols] matrix, zeros below
template <int COLS>
__device__ void block_load(half* dst, int ld, const half* src, int stride, int t0, int T) {
  for (int i = threadIdx.x; i < BT * COLS / 8; i += NUM_WARPS * 32) {
    const int row = i / (COLS / 8), col = i % (COLS / 8) * 8;
    uint4 x = make_uint4(0u, 0u, 0u, 0u);
    if (t0 + row < T) x = *reinterpret_cast<const uint4*>(src + (size_t)(t0 + row) * stride + col);
    *reinterpret_cast<uint4*>(dst + row * ld + col) = x;
  }
}

template <int DK, bool USE_INITIAL_STATE>
__global__ void fused_chunk_retention_fwd_kernel(
    const half* __restrict__ q,    // [B, H, T, DK]
    const half* __restrict__ k,    // [B, H, T, DK]
    const half* __restrict__ v,    // [B, H, T, DV]
    half* __restrict__ o,          // [B, H, T, DV]
    const float* __restrict__ h0,  // [B, H, DK, DV]
    float* __restrict__ ht,        // [B, H, DK, DV]
    const int H, const int T, const int DV, const float scale) {
  constexpr int LDK = DK + PAD;
  constexpr int LDV = BV + PAD;
  constexpr int LDS = BT + 4;
  constexpr int NH = (DK / 16) * (BV / 16) / NUM_WARPS;   // state tiles of a warp

  __shared__ __align__(32) half s_q[BT * LDK];
  __shared__ __align__(32) half s_k[BT * LDK];
  __shared__ __align__(32) half s_v[BT * LDV];
  __shared__ __align__(32) half s_vd[BT * LDV];     // v, decayed to the chunk's end
  __shared__ __align__(32) half s_h[DK * LDV];      // state in half, for the dot
  __shared__ __align__(32) half s_p[BT * (BT + PAD)];
  __shared__ __align__(32) float s_s[BT * LDS];

  const int i_v = blockIdx.x, i_h = blockIdx.y, i_b = blockIdx.z;
  const int i_bh = i_b * H + i_h;
  const int warp = threadIdx.x / 32;
  const int wm = warp / 2 * 16, wn = warp % 2 * 16;

  // decay rate given the head index
  const float b_b = log2f(1.0f - exp2f(-5.0f - (float)i_h));

  const half* p_q = q + (size_t)i_bh * T * DK;
  const half* p_k = k + (size_t)i_bh * T * DK;
  const half* p_v = v + (size_t)i_bh * T * DV + i_v * BV;
  half* p_o = o + (size_t)i_bh * T * DV + i_v * BV;

  AccT b_h[NH];
#pragma unroll
  for (int i = 0; i < NH; i++) {
    if (USE_INITIAL_STATE) {
      const int id = warp + i * NUM_WARPS;
      wmma::load_matrix_sync(b_h[i], h0 + ((size_t)i_bh * DK + id / 2 * 16) * DV + i_v * BV + id % 2 * 16, DV, wmma::mem_row_major);
    } else {
      wmma::fill_fragment(b_h[i], 0.0f);
    }
  }

  for (int t0 = 0; t0 < T; t0 += BT) {
    const int len = min(BT, T - t0);

    block_load<DK>(s_q, LDK, p_q, DK, t0, T);
    block_load<DK>(s_k, LDK, p_k, DK, t0, T);
    block_load<BV>(s_v, LDV, p_v, DV, t0, T);

    // the state before this chunk, rounded to half for tl.dot
#pragma unroll
    for (int i = 0; i < NH; i++) {
      const int id = warp + i * NUM_WARPS;
      wmma::fragment<wmma::accumulator, 16, 16, 16, half> h16;
      for (int e = 0; e < h16.num_elements; e++) h16.x[e] = __float2half(b_h[i].x[e]);
      wmma::store_matrix_sync(s_h + id / 2 * 16 * LDV + id % 2 * 16, h16, LDV, wmma::mem_row_major);
    }
    __syncthreads();

    // b_s = tl.dot(b_q, b_k^T)
    AccT b_s;
    wmma::fill_fragment(b_s, 0.0f);
    for (int kk = 0; kk < DK; kk += 16) {
      ART a;
      BCT b;
      wmma::load_matrix_sync(a, s_q + wm * LDK + kk, LDK);
      wmma::load_matrix_sync(b, s_k + wn * LDK + kk, LDK);
      wmma::mma_sync(b_s, a, b, b_s);
    }
    wmma::store_matrix_sync(s_s + wm * LDS + wn, b_s, LDS, wmma::mem_row_major);
    __syncthreads();

    // b_s *= d_s * scale, to half; and v of the chunk decayed by d_i = gamma^(len - 1 - i)
    for (int i = threadIdx.x; i < BT * BT; i += NUM_WARPS * 32) {
      const int row = i / BT, col = i % BT;
      const float d_s = row >= col ? exp2f((row - col) * b_b) : 0.0f;
      s_p[row * (BT + PAD) + col] = __float2half(s_s[row * LDS + col] * d_s * scale);
    }
    for (int i = threadIdx.x; i < BT * BV; i += NUM_WARPS * 32) {
      const int row = i / BV, col = i % BV;
      const float d_i = row < len ? exp2f((len - 1 - row) * b_b) : 0.0f;
      s_vd[row * LDV + col] = __float2half(__half2float(s_v[row * LDV + col]) * d_i);
    }
    __syncthreads();

    // b_o = tl.dot(b_q, b_h) * gamma^(i + 1) * scale
    AccT b_o;
    wmma::fill_fragment(b_o, 0.0f);
    for (int kk = 0; kk < DK; kk += 16) {
      ART a;
      BRT b;
      wmma::load_matrix_sync(a, s_q + wm * LDK + kk, LDK);
      wmma::load_matrix_sync(b, s_h + kk * LDV + wn, LDV);
      wmma::mma_sync(b_o, a, b, b_o);
    }
    wmma::store_matrix_sync(s_s + wm * LDS + wn, b_o, LDS, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < BT * BV; i += NUM_WARPS * 32) {
      const int row = i / BV, col = i % BV;
      s_s[row * LDS + col] *= exp2f((row + 1) * b_b) * scale;
    }
    __syncthreads();
    wmma::load_matrix_sync(b_o, s_s + wm * LDS + wn, LDS, wmma::mem_row_major);

    // b_o += tl.dot(b_s, b_v)
    for (int kk = 0; kk < BT; kk += 16) {
      ART a;
      BRT b;
      wmma::load_matrix_sync(a, s_p + wm * (BT + PAD) + kk, BT + PAD);
      wmma::load_matrix_sync(b, s_v + kk * LDV + wn, LDV);
      wmma::mma_sync(b_o, a, b, b_o);
    }
    wmma::store_matrix_sync(s_s + wm * LDS + wn, b_o, LDS, wmma::mem_row_major);

    // b_h = d_b * b_h + tl.dot(b_k^T, b_v * d_i)
    const float d_b = exp2f(len * b_b);
#pragma unroll
    for (int i = 0; i < NH; i++) {
      const int id = warp + i * NUM_WARPS;
      for (int e = 0; e < b_h[i].num_elements; e++) b_h[i].x[e] *= d_b;
      for (int kk = 0; kk < BT; kk += 16) {
        ACT a;
        BRT b;
        wmma::load_matrix_sync(a, s_k + kk * LDK + id / 2 * 16, LDK);
        wmma::load_matrix_sync(b, s_vd + kk * LDV + id % 2 * 16, LDV);
        wmma::mma_sync(b_h[i], a, b, b_h[i]);
      }
    }
    __syncthreads();

    // tl.store(p_o, b_o, boundary_check=(0,))
    for (int i = threadIdx.x; i < BT * BV / 2; i += NUM_WARPS * 32) {
      const int row = i / (BV / 2), col = i % (BV / 2) * 2;
      if (row < len) {
        *reinterpret_cast<half2*>(p_o + (size_t)(t0 + row) * DV + col) = __floats2half2_rn(s_s[row * LDS + col], s_s[row * LDS + col + 1]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < NH; i++) {
    const int id = warp + i * NUM_WARPS;
    wmma::store_matrix_sync(ht + ((size_t)i_bh * DK + id / 2 * 16) * DV + i_v * BV + id % 2 * 16, b_h[i], DV, wmma::mem_row_major);
  }
}

extern "C" void fused_chunk_retention_fwd(const half* q, const half* k, const half* v, half* o, const float* h0, float* ht, int B, int H, int T, int DV,
                                          float scale, cudaStream_t stream) {
  dim3 grid(DV / BV, H, B);
  if (h0)
    fused_chunk_retention_fwd_kernel<64, true><<<grid, NUM_WARPS * 32, 0, stream>>>(q, k, v, o, h0, ht, H, T, DV, scale);
  else
    fused_chunk_retention_fwd_kernel<64, false><<<grid, NUM_WARPS * 32, 0, stream>>>(q, k, v, o, h0, ht, H, T, DV, scale);
}
