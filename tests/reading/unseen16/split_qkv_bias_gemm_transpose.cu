// QKV projection whose epilogue adds the bias and scatters to three [B, H, S, D] tensors (no separate transpose).
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

__global__ void qkv_proj_split_heads(const half* __restrict__ hidden,   // [B * S, E]
                                     const half* __restrict__ w_qkv,    // [3 * E, E]
                                     const half* __restrict__ b_qkv,    // [3 * E]
                                     half* __restrict__ q, half* __restrict__ k, half* __restrict__ v, int batch, int seq,
                                     int heads, int head_dim) {
  const int E = heads * head_dim;
  const int row0 = blockIdx.y * 16, col0 = (blockIdx.x * 4 + threadIdx.x / 32) * 16;
  __shared__ __align__(32) float stage[4][256];
  float* mine = stage[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int e = 0; e < E; e += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, hidden + (size_t)row0 * E + e, E);
    wmma::load_matrix_sync(b, w_qkv + (size_t)col0 * E + e, E);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(mine, acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    const int row = row0 + i / 16, col = col0 + i % 16;
    const int which = col / E, h = col % E / head_dim, d = col % head_dim;
    const int b = row / seq, s = row % seq;
    half* dst = which == 0 ? q : which == 1 ? k : v;
    dst[(((size_t)b * heads + h) * seq + s) * head_dim + d] = __float2half(mine[i] + __half2float(b_qkv[col]));
  }
}

void qkv_projection(const half* hidden, const half* w_qkv, const half* b_qkv, half* q, half* k, half* v, int batch, int seq,
                    int heads, int head_dim, cudaStream_t stream) {
  const int E = heads * head_dim;
  dim3 grid(3 * E / 64, batch * seq / 16);
  qkv_proj_split_heads<<<grid, 128, 0, stream>>>(hidden, w_qkv, b_qkv, q, k, v, batch, seq, heads, head_dim);
}
