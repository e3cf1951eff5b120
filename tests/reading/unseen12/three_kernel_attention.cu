// Unfused attention: scores, softmax and output as three kernels.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <mma.h>

using namespace nvcuda;

// scores[bh][i][j] = scale * sum_d q[bh][i][d] * k[bh][j][d]
__global__ void qk_scores_wmma(const half* q, const half* k, float* scores, int seq, int dim, float scale) {
  const int bh = blockIdx.z;
  const int row = blockIdx.y * 16, col = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
  if (col >= seq) return;
  q += (size_t)bh * seq * dim;
  k += (size_t)bh * seq * dim;
  scores += (size_t)bh * seq * seq;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int d = 0; d < dim; d += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, q + row * dim + d, dim);
    wmma::load_matrix_sync(b, k + col * dim + d, dim);
    wmma::mma_sync(acc, a, b, acc);
  }
  for (int i = 0; i < acc.num_elements; ++i) acc.x[i] *= scale;
  wmma::store_matrix_sync(scores + row * seq + col, acc, seq, wmma::mem_row_major);
}

__global__ void softmax_rows(const float* scores, half* probs, int seq) {
  __shared__ float red[32];
  const float* in = scores + (size_t)blockIdx.x * seq;
  half* out = probs + (size_t)blockIdx.x * seq;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  float m = -FLT_MAX;
  for (int i = threadIdx.x; i < seq; i += blockDim.x) m = fmaxf(m, in[i]);
  for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_down_sync(0xffffffff, m, o));
  if (lane == 0) red[warp] = m;
  __syncthreads();
  m = red[0];
  for (int i = 1; i < warps; ++i) m = fmaxf(m, red[i]);
  __syncthreads();
  float s = 0.0f;
  for (int i = threadIdx.x; i < seq; i += blockDim.x) s += expf(in[i] - m);
  for (int o = 16; o > 0; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);
  if (lane == 0) red[warp] = s;
  __syncthreads();
  s = 0.0f;
  for (int i = 0; i < warps; ++i) s += red[i];
  for (int i = threadIdx.x; i < seq; i += blockDim.x) out[i] = __float2half(expf(in[i] - m) / s);
}

__global__ void pv_wmma(const half* probs, const half* v, half* out, int seq, int dim) {
  __shared__ float tile[4][256];
  const int bh = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * 16, col = (blockIdx.x * 4 + warp) * 16;
  if (col >= dim) return;
  probs += (size_t)bh * seq * seq;
  v += (size_t)bh * seq * dim;
  out += (size_t)bh * seq * dim;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int t = 0; t < seq; t += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, probs + row * seq + t, seq);
    wmma::load_matrix_sync(b, v + t * dim + col, dim);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(tile[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) out[(row + i / 16) * dim + col + i % 16] = __float2half(tile[warp][i]);
}

void attention_forward(const half* q, const half* k, const half* v, float* scores, half* probs, half* out, int batch,
                       int heads, int seq, int dim) {
  const int bh = batch * heads;
  qk_scores_wmma<<<dim3((seq + 63) / 64, seq / 16, bh), 128>>>(q, k, scores, seq, dim, 1.0f / sqrtf((float)dim));
  softmax_rows<<<bh * seq, 256>>>(scores, probs, seq);
  pv_wmma<<<dim3((dim + 63) / 64, seq / 16, bh), 128>>>(probs, v, out, seq, dim);
}
