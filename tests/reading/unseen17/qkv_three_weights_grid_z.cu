#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// Q, K and V projections in one launch: blockIdx.z picks the weight, the bias and the destination.
// x: [B*S, E] row-major, Wq/Wk/Wv: [E, E] as nn.Linear stores them (out, in). Outputs [B, H, S, D].

namespace attn {

struct QKVWeights {
  const half* wq;
  const half* wk;
  const half* wv;
  const half* bq;
  const half* bk;
  const half* bv;
};

template <int HEAD_DIM>
__global__ void qkv_linear_kernel(const half* __restrict__ x, QKVWeights weights, half* __restrict__ q_out,
                                  half* __restrict__ k_out, half* __restrict__ v_out, int seq_len, int embed_dim) {
  using namespace nvcuda::wmma;
  const half* w;
  const half* bias;
  half* dst;
  switch (blockIdx.z) {
    case 0: w = weights.wq; bias = weights.bq; dst = q_out; break;
    case 1: w = weights.wk; bias = weights.bk; dst = k_out; break;
    default: w = weights.wv; bias = weights.bv; dst = v_out; break;
  }
  const int warp_id = threadIdx.x / 32;
  const int lane_id = threadIdx.x % 32;
  const int tile_m = blockIdx.y * 32 + (warp_id / 2) * 16;
  const int tile_n = blockIdx.x * 32 + (warp_id % 2) * 16;

  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  fill_fragment(fc, 0.0f);
  for (int k = 0; k < embed_dim; k += 16) {
    load_matrix_sync(fa, x + tile_m * embed_dim + k, embed_dim);
    load_matrix_sync(fb, w + tile_n * embed_dim + k, embed_dim);
    mma_sync(fc, fa, fb, fc);
  }
  __shared__ float smem[4][16][16];
  store_matrix_sync(&smem[warp_id][0][0], fc, 16, mem_row_major);
  __syncwarp();
  const int heads = embed_dim / HEAD_DIM;
  for (int e = lane_id; e < 256; e += 32) {
    const int m = tile_m + e / 16, n = tile_n + e % 16;
    const int b = m / seq_len, s = m % seq_len, h = n / HEAD_DIM, d = n % HEAD_DIM;
    dst[((b * heads + h) * seq_len + s) * HEAD_DIM + d] = __float2half(smem[warp_id][e / 16][e % 16] + __half2float(bias[n]));
  }
}

}  // namespace attn

void launch_qkv(const half* x, const half* wq, const half* wk, const half* wv, const half* bq, const half* bk,
                const half* bv, half* q, half* k, half* v, int batch, int seq_len, int num_heads, int head_dim,
                cudaStream_t stream) {
  const int embed_dim = num_heads * head_dim;
  attn::QKVWeights weights{wq, wk, wv, bq, bk, bv};
  dim3 grid(embed_dim / 32, batch * seq_len / 32, 3);
  if (head_dim == 64)
    attn::qkv_linear_kernel<64><<<grid, 128, 0, stream>>>(x, weights, q, k, v, seq_len, embed_dim);
  else
    attn::qkv_linear_kernel<32><<<grid, 128, 0, stream>>>(x, weights, q, k, v, seq_len, embed_dim);
}
