/* attention_scores: S[b,h] = scale * Q[b,h] K[b,h]^T for layouts [B, S, H, D] (no transpose before the product) */
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define WARPS_PER_BLOCK 4

extern "C" __global__ void attention_scores(float *scores, const half *query, const half *key, int heads, int q_len,
                                            int k_len, int head_dim, float scale) {
  int b = blockIdx.z / heads;
  int h = blockIdx.z % heads;
  int warp = threadIdx.x / 32;
  int row = blockIdx.y * 16;
  int col = (blockIdx.x * WARPS_PER_BLOCK + warp) * 16;
  if (col >= k_len) return;

  int ld = heads * head_dim;
  const half *q = query + (size_t)b * q_len * ld + h * head_dim;
  const half *k = key + (size_t)b * k_len * ld + h * head_dim;
  float *s = scores + (size_t)blockIdx.z * q_len * k_len;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int d = 0; d < head_dim; d += 16) {
    wmma::load_matrix_sync(qa, q + (size_t)row * ld + d, ld);
    wmma::load_matrix_sync(kb, k + (size_t)col * ld + d, ld);
    wmma::mma_sync(acc, qa, kb, acc);
  }
  for (int i = 0; i < acc.num_elements; i++) acc.x[i] *= scale;
  wmma::store_matrix_sync(s + (size_t)row * k_len + col, acc, k_len, wmma::mem_row_major);
}

extern "C" void launch_attention_scores(float *scores, const half *query, const half *key, int batch, int heads,
                                        int q_len, int k_len, int head_dim, cudaStream_t stream) {
  float scale = rsqrtf((float)head_dim);
  dim3 grid((k_len / 16 + WARPS_PER_BLOCK - 1) / WARPS_PER_BLOCK, q_len / 16, batch * heads);
  attention_scores<<<grid, WARPS_PER_BLOCK * 32, 0, stream>>>(scores, query, key, heads, q_len, k_len, head_dim, scale);
}
