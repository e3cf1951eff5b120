// QK^T scores with scale, then softmax, kernels in one file; only the first uses tensor cores
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
#define TILE 16
__global__ void qk_kernel(const half* __restrict__ query, const half* __restrict__ key, float* __restrict__ scores,
                          int batch_heads, int seq_len, int head_dim, float scale) {
  int bh = blockIdx.z;
  const half* q = query + (size_t)bh * seq_len * head_dim;
  const half* k = key + (size_t)bh * seq_len * head_dim;
  float* s = scores + (size_t)bh * seq_len * seq_len;
  int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  for (int d = 0; d < head_dim; d += TILE) {
    wmma::load_matrix_sync(a, q + row * head_dim + d, head_dim);
    wmma::load_matrix_sync(b, k + col * head_dim + d, head_dim);
    wmma::mma_sync(c, a, b, c);
  }
  for (int i = 0; i < c.num_elements; i++) c.x[i] *= scale;
  wmma::store_matrix_sync(s + row * seq_len + col, c, seq_len, wmma::mem_row_major);
}
__global__ void softmax_kernel(const float* scores, half* probs, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float m = -INFINITY, l = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) m = fmaxf(m, scores[(size_t)row * cols + c]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  for (int c = threadIdx.x; c < cols; c += 32) l += expf(scores[(size_t)row * cols + c] - m);
  for (int o = 16; o; o >>= 1) l += __shfl_xor_sync(~0u, l, o);
  for (int c = threadIdx.x; c < cols; c += 32) probs[(size_t)row * cols + c] = __float2half(expf(scores[(size_t)row * cols + c] - m) / l);
}
void attention_scores(const half* q, const half* k, float* scores, half* probs, int B, int H, int S, int D) {
  dim3 grid(S / TILE, S / TILE, B * H);
  qk_kernel<<<grid, 32>>>(q, k, scores, B * H, S, D, rsqrtf((float)D));
  softmax_kernel<<<(B * H * S + 3) / 4, dim3(32, 4)>>>(scores, probs, B * H * S, S);
}
