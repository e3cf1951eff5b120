/* Backward of  O = dropout(softmax(scale * Q K^T)) V  down to the scores and to Q:
 *
 *     dP = (dO V^T) .* mask / (1 - ratio)
 *     dS = P .* (dP - rowsum(P .* dP))
 *     dQ = scale * dS K
 *
 * P is the output of the forward's softmax (before dropout), which training kept. fp16 storage, fp32 accumulation.
 * One block handles TILE_Q query rows of one head: the whole strip dP [TILE_Q, to_len] is held in shared memory, so
 * to_len is limited (MAX_LEN). dS is also written out, the caller gets dK = scale * dS^T Q with a batched GEMM.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace bw {

using namespace nvcuda;

const int TILE_Q = 32;
const int TILE_K = 64;
const int NUM_WARPS = 4;
const int NUM_THREADS = NUM_WARPS * 32;
const int MAX_LEN = 192;
const int SKEW = 8;

template <int LANES>
__device__ __forceinline__ float group_sum(float val) {
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset >>= 1) val += __shfl_xor_sync(0xffffffff, val, offset, LANES);
  return val;
}

__host__ __device__ inline int strip_ld(int to_len) { return (to_len + TILE_K - 1) / TILE_K * TILE_K + SKEW; }

/* rows [row0, row0 + ROWS) of a [len, HEAD_DIM] matrix, 8 halfs at a time; rows past len are zero */
template <int ROWS, int HEAD_DIM>
__device__ __forceinline__ void load_rows(half *dst, const half *src, int row0, int len) {
  for (int i = threadIdx.x; i < ROWS * HEAD_DIM / 8; i += NUM_THREADS) {
    int r = i / (HEAD_DIM / 8);
    int c = (i % (HEAD_DIM / 8)) * 8;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row0 + r < len) v = *reinterpret_cast<const float4 *>(src + (size_t)(row0 + r) * HEAD_DIM + c);
    *reinterpret_cast<float4 *>(dst + r * (HEAD_DIM + SKEW) + c) = v;
  }
}

/**
@brief: ker_attn_prob_bw
@thread
gridDim.x = ceil(from_len / TILE_Q)
gridDim.y = batch_size * nhead
blockDim.x = NUM_THREADS
@param
grad_q: [batch_size, nhead, from_len, HEAD_DIM], out
grad_s: [batch_size, nhead, from_len, to_len], out
grad_o: [batch_size, nhead, from_len, HEAD_DIM]
prob:   [batch_size, nhead, from_len, to_len], softmax before dropout
mask:   [batch_size, nhead, from_len, to_len], 1 = kept
key, value: [batch_size, nhead, to_len, HEAD_DIM]
*/
template <int HEAD_DIM>
__global__ void ker_attn_prob_bw(half *grad_q, half *grad_s, const half *grad_o, const half *prob,
                                 const unsigned char *mask, const half *key, const half *value, int from_len,
                                 int to_len, float scale, float ratio) {
  extern __shared__ __align__(128) char smem[];
  const int ld_t = HEAD_DIM + SKEW;
  const int ld_p = strip_ld(to_len);      // dP in fp32
  const int ld_s = strip_ld(to_len);      // dS in fp16
  half *s_do = reinterpret_cast<half *>(smem);            // [TILE_Q][ld_t]
  half *s_kv = s_do + TILE_Q * ld_t;                      // [TILE_K][ld_t]
  float *s_dp = reinterpret_cast<float *>(s_kv + TILE_K * ld_t);  // [TILE_Q][ld_p]
  half *s_ds = reinterpret_cast<half *>(s_dp + TILE_Q * ld_p);    // [TILE_Q][ld_s]
  float *s_dq = s_dp;  // dP is dead when dQ is staged

  const int q0 = blockIdx.x * TILE_Q;
  const int head = blockIdx.y;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  grad_q += (size_t)head * from_len * HEAD_DIM;
  grad_o += (size_t)head * from_len * HEAD_DIM;
  key += (size_t)head * to_len * HEAD_DIM;
  value += (size_t)head * to_len * HEAD_DIM;
  const size_t strip = (size_t)head * from_len * to_len;
  grad_s += strip;
  prob += strip;
  mask += strip;

  // step 1: dP = dO V^T. Warp w takes 16 keys of the tile and all TILE_Q rows
  load_rows<TILE_Q, HEAD_DIM>(s_do, grad_o, q0, from_len);
  for (int k0 = 0; k0 < to_len; k0 += TILE_K) {
    load_rows<TILE_K, HEAD_DIM>(s_kv, value, k0, to_len);
    __syncthreads();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> dp[TILE_Q / 16];
    for (int i = 0; i < TILE_Q / 16; i++) wmma::fill_fragment(dp[i], 0.f);
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> vt;
      wmma::load_matrix_sync(vt, s_kv + warp * 16 * ld_t + d, ld_t);
      for (int i = 0; i < TILE_Q / 16; i++) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> go;
        wmma::load_matrix_sync(go, s_do + i * 16 * ld_t + d, ld_t);
        wmma::mma_sync(dp[i], go, vt, dp[i]);
      }
    }
    for (int i = 0; i < TILE_Q / 16; i++)
      wmma::store_matrix_sync(s_dp + i * 16 * ld_p + k0 + warp * 16, dp[i], ld_p, wmma::mem_row_major);
    __syncthreads();
  }

  // step 2: dropout and softmax backward, 8 lanes a row
  const float keep_scale = 1.f / (1.f - ratio);
  const int sub = lane % 8;
  for (int r = warp * 4 + lane / 8; r < TILE_Q; r += NUM_WARPS * 4) {
    const bool row_ok = q0 + r < from_len;
    const size_t row = (size_t)(q0 + r) * to_len;
    float sum = 0.f;
    for (int c = sub; c < to_len; c += 8) {
      float g = 0.f, p = 0.f;
      if (row_ok) {
        g = mask[row + c] ? s_dp[r * ld_p + c] * keep_scale : 0.f;
        p = __half2float(prob[row + c]);
      }
      s_dp[r * ld_p + c] = g;
      sum += g * p;
    }
    sum = group_sum<8>(sum);
    for (int c = sub; c < ld_s - SKEW; c += 8) {
      float ds = 0.f;
      if (row_ok && c < to_len) {
        ds = __half2float(prob[row + c]) * (s_dp[r * ld_p + c] - sum);
        grad_s[row + c] = __float2half(ds);
      }
      s_ds[r * ld_s + c] = __float2half(ds);  // zero behind the last key
    }
  }

  // step 3: dQ = dS K. Warp w takes columns w * 16, w * 16 + 64, ... of HEAD_DIM
  const int COLS = HEAD_DIM / 16 / NUM_WARPS;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> dq[TILE_Q / 16][COLS];
  for (int i = 0; i < TILE_Q / 16; i++)
    for (int j = 0; j < COLS; j++) wmma::fill_fragment(dq[i][j], 0.f);

  for (int k0 = 0; k0 < to_len; k0 += TILE_K) {
    __syncthreads();
    load_rows<TILE_K, HEAD_DIM>(s_kv, key, k0, to_len);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE_K; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> gs[TILE_Q / 16];
      for (int i = 0; i < TILE_Q / 16; i++)
        wmma::load_matrix_sync(gs[i], s_ds + i * 16 * ld_s + k0 + k, ld_s);
      for (int j = 0; j < COLS; j++) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> kf;
        wmma::load_matrix_sync(kf, s_kv + k * ld_t + (j * NUM_WARPS + warp) * 16, ld_t);
        for (int i = 0; i < TILE_Q / 16; i++) wmma::mma_sync(dq[i][j], gs[i], kf, dq[i][j]);
      }
    }
  }

  // step 4: scale, stage, write half2
  const int ld_q = HEAD_DIM + 4;
  for (int i = 0; i < TILE_Q / 16; i++)
    for (int j = 0; j < COLS; j++) {
      for (int t = 0; t < dq[i][j].num_elements; t++) dq[i][j].x[t] *= scale;
      wmma::store_matrix_sync(s_dq + i * 16 * ld_q + (j * NUM_WARPS + warp) * 16, dq[i][j], ld_q, wmma::mem_row_major);
    }
  __syncthreads();
  for (int i = threadIdx.x; i < TILE_Q * HEAD_DIM / 2; i += NUM_THREADS) {
    int r = i / (HEAD_DIM / 2);
    int c = (i % (HEAD_DIM / 2)) * 2;
    if (q0 + r < from_len)
      *reinterpret_cast<half2 *>(grad_q + (size_t)(q0 + r) * HEAD_DIM + c) =
          __floats2half2_rn(s_dq[r * ld_q + c], s_dq[r * ld_q + c + 1]);
  }
}

inline size_t smem_bytes(int head_dim, int to_len) {
  return (TILE_Q + TILE_K) * (head_dim + SKEW) * sizeof(half) +
         TILE_Q * strip_ld(to_len) * (sizeof(float) + sizeof(half));
}

void launch_attn_prob_bw(half *grad_q, half *grad_s, const half *grad_o, const half *prob, const unsigned char *mask,
                         const half *key, const half *value, int batch_heads, int from_len, int to_len, float scale,
                         float ratio, cudaStream_t stream) {
  if (to_len > MAX_LEN) return;
  dim3 grid((from_len + TILE_Q - 1) / TILE_Q, batch_heads);
  size_t smem = smem_bytes(64, to_len);
  cudaFuncSetAttribute(ker_attn_prob_bw<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  ker_attn_prob_bw<64><<<grid, NUM_THREADS, smem, stream>>>(grad_q, grad_s, grad_o, prob, mask, key, value, from_len,
                                                           to_len, scale, ratio);
}

}  // namespace bw
