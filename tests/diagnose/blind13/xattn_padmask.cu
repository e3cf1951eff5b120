// Cross-attention with a key padding mask for a PyTorch extension, forward only.
//
//   out[b, i, h] = softmax_j(q[b, i, h] . k[b, j, h] * scale  | not key_padding_mask[b, j]) v[b, j, h]
//
// Keys are few (an encoder's output), so a block keeps all scores of its 16 queries in shared memory.
#include <cuda_bf16.h>
#include <mma.h>
#include <math_constants.h>

namespace xattn {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::fragment;
using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::row_major;
using nvcuda::wmma::store_matrix_sync;

using scalar_t = __nv_bfloat16;

constexpr int kRows = 16;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

// shared: scores [16][ld] float, probabilities [16][ld] bf16, queries [16][D], keys or values [64][D]
template <int kHeadDim>
__global__ void cross_attention_forward(const scalar_t* __restrict__ query, const scalar_t* __restrict__ key,
                                        const scalar_t* __restrict__ value,
                                        const unsigned char* __restrict__ key_padding_mask,
                                        scalar_t* __restrict__ output, int tgt_len, int src_len, int num_heads,
                                        float scale) {
  extern __shared__ __align__(128) unsigned char smem[];
  const int src_pad = (src_len + 63) / 64 * 64;
  const int ld = src_pad + 8;
  float* scores = reinterpret_cast<float*>(smem);
  scalar_t* probs = reinterpret_cast<scalar_t*>(scores + kRows * ld);
  scalar_t* q_tile = probs + kRows * ld;
  scalar_t* kv_tile = q_tile + kRows * kHeadDim;

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int row0 = blockIdx.x * kRows;
  const int head = blockIdx.y, batch = blockIdx.z;
  const int row_stride = num_heads * kHeadDim;

  query += (size_t)batch * tgt_len * row_stride + head * kHeadDim;
  output += (size_t)batch * tgt_len * row_stride + head * kHeadDim;
  key += (size_t)batch * src_len * row_stride + head * kHeadDim;
  value += (size_t)batch * src_len * row_stride + head * kHeadDim;
  key_padding_mask += (size_t)batch * src_len;

  auto load_rows = [&](scalar_t* dst, const scalar_t* src, int first, int rows, int limit) {
    for (int i = tid; i < rows * kHeadDim; i += kThreads) {
      const int r = first + i / kHeadDim;
      dst[i] = r < limit ? src[(size_t)r * row_stride + i % kHeadDim] : __float2bfloat16(0.f);
    }
  };

  load_rows(q_tile, query, row0, kRows, tgt_len);

  // scores, 64 keys at a time, 16 per warp
  for (int j0 = 0; j0 < src_len; j0 += 64) {
    load_rows(kv_tile, key, j0, 64, src_len);
    __syncthreads();
    fragment<accumulator, 16, 16, 16, float> s;
    fill_fragment(s, 0.f);
    for (int d = 0; d < kHeadDim; d += 16) {
      fragment<matrix_a, 16, 16, 16, scalar_t, row_major> a;
      fragment<matrix_b, 16, 16, 16, scalar_t, col_major> b;
      load_matrix_sync(a, q_tile + d, kHeadDim);
      load_matrix_sync(b, kv_tile + warp * 16 * kHeadDim + d, kHeadDim);
      mma_sync(s, a, b, s);
    }
    store_matrix_sync(scores + j0 + warp * 16, s, ld, mem_row_major);
    __syncthreads();
  }

  // softmax, a warp per row
  for (int r = warp; r < kRows; r += kWarps) {
    float* row = scores + r * ld;
    float row_max = -CUDART_INF_F;
    for (int j = lane; j < src_len; j += 32) {
      const float s = key_padding_mask[j] ? -CUDART_INF_F : row[j] * scale;
      row[j] = s;
      row_max = fmaxf(row_max, s);
    }
    for (int o = 16; o > 0; o /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, o));
    if (row_max == -CUDART_INF_F) row_max = 0.f;  // all padding

    float row_sum = 0.f;
    for (int j = lane; j < src_len; j += 32) {
      row[j] = __expf(row[j] - row_max);
      row_sum += row[j];
    }
    for (int o = 16; o > 0; o /= 2) row_sum += __shfl_xor_sync(0xffffffff, row_sum, o);
    const float inv = row_sum > 0.f ? 1.f / row_sum : 0.f;

    for (int j = lane; j < src_pad; j += 32) {
      probs[r * ld + j] = __float2bfloat16(j < src_len ? row[j] * inv : 0.f);
    }
  }
  __syncthreads();

  // output: warps share the columns
  fragment<accumulator, 16, 16, 16, float> o;
  fill_fragment(o, 0.f);
  for (int j0 = 0; j0 < src_len; j0 += 64) {
    load_rows(kv_tile, value, j0, 64, src_len);
    __syncthreads();
    if (warp * 16 < kHeadDim) {
      for (int j = 0; j < 64; j += 16) {
        fragment<matrix_a, 16, 16, 16, scalar_t, row_major> a;
        fragment<matrix_b, 16, 16, 16, scalar_t, row_major> b;
        load_matrix_sync(a, probs + j0 + j, ld);
        load_matrix_sync(b, kv_tile + j * kHeadDim + warp * 16, kHeadDim);
        mma_sync(o, a, b, o);
      }
    }
    __syncthreads();
  }

  float* staged = scores;  // no longer needed
  if (warp * 16 < kHeadDim) store_matrix_sync(staged + warp * 16, o, kHeadDim, mem_row_major);
  __syncthreads();
  for (int i = tid; i < kRows * kHeadDim; i += kThreads) {
    const int r = row0 + i / kHeadDim;
    if (r < tgt_len) output[(size_t)r * row_stride + i % kHeadDim] = __float2bfloat16(staged[i]);
  }
}

template __global__ void cross_attention_forward<32>(const scalar_t*, const scalar_t*, const scalar_t*,
                                                     const unsigned char*, scalar_t*, int, int, int, float);
template __global__ void cross_attention_forward<64>(const scalar_t*, const scalar_t*, const scalar_t*,
                                                     const unsigned char*, scalar_t*, int, int, int, float);

}  // namespace xattn
