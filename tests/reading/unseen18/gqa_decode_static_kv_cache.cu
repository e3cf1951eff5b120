// Decode step of grouped-query attention over a static KV cache: the heads of a group fill the rows of one tile.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math_constants.h>

#include <stdexcept>

namespace infer {

struct KVCache {
  half* k;  // [batch, n_kv_heads, max_seq_len, head_dim]
  half* v;
  int max_seq_len;
};

template <int HEAD_DIM, int TILE = 16>
__global__ void decode_attn(half* __restrict__ out, const half* __restrict__ q, const half* __restrict__ k_cache,
                            const half* __restrict__ v_cache, const int* __restrict__ seq_lens, int n_heads,
                            int n_kv_heads, int max_seq_len, float sm_scale) {
  using namespace nvcuda;
  const int kv_head = blockIdx.x, b = blockIdx.y, lane = threadIdx.x;
  const int group = n_heads / n_kv_heads;
  const int len = seq_lens[b];
  __shared__ half sq[16][HEAD_DIM];
  __shared__ half sp[16][TILE];
  __shared__ half skv[TILE][HEAD_DIM];
  __shared__ float ss[16][TILE];
  __shared__ float so[16][HEAD_DIM];
  __shared__ float row_m[16], row_l[16], row_c[16];

  const half* kb = k_cache + (size_t)(b * n_kv_heads + kv_head) * max_seq_len * HEAD_DIM;
  const half* vb = v_cache + (size_t)(b * n_kv_heads + kv_head) * max_seq_len * HEAD_DIM;
  for (int i = lane; i < 16 * HEAD_DIM; i += 32) {
    const int h = i / HEAD_DIM, d = i % HEAD_DIM;
    sq[h][d] = h < group ? q[(size_t)(b * n_heads + kv_head * group + h) * HEAD_DIM + d] : half(0);
    so[h][d] = 0.f;
  }
  if (lane < 16) row_m[lane] = -CUDART_INF_F, row_l[lane] = 0.f;
  __syncwarp();

  for (int t0 = 0; t0 < len; t0 += TILE) {
    for (int i = lane; i < TILE * HEAD_DIM; i += 32) {
      const int t = t0 + i / HEAD_DIM;
      skv[i / HEAD_DIM][i % HEAD_DIM] = t < len ? kb[(size_t)t * HEAD_DIM + i % HEAD_DIM] : half(0);
    }
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.f);
    for (int d = 0; d < HEAD_DIM; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
      wmma::load_matrix_sync(fq, &sq[0][d], HEAD_DIM);
      wmma::load_matrix_sync(fk, &skv[0][d], HEAD_DIM);
      wmma::mma_sync(s, fq, fk, s);
    }
    wmma::store_matrix_sync(&ss[0][0], s, TILE, wmma::mem_row_major);
    __syncwarp();
    if (lane < 16) {
      float m = row_m[lane];
      for (int j = 0; j < TILE; ++j)
        if (t0 + j < len) m = fmaxf(m, ss[lane][j] * sm_scale);
      const float c = __expf(row_m[lane] - m);
      float l = row_l[lane] * c;
      for (int j = 0; j < TILE; ++j) {
        const float p = t0 + j < len ? __expf(ss[lane][j] * sm_scale - m) : 0.f;
        sp[lane][j] = __float2half(p);
        l += p;
      }
      row_m[lane] = m, row_l[lane] = l, row_c[lane] = c;
    }
    __syncwarp();
    for (int i = lane; i < TILE * HEAD_DIM; i += 32) {
      const int t = t0 + i / HEAD_DIM;
      skv[i / HEAD_DIM][i % HEAD_DIM] = t < len ? vb[(size_t)t * HEAD_DIM + i % HEAD_DIM] : half(0);
    }
    for (int i = lane; i < 16 * HEAD_DIM; i += 32) so[i / HEAD_DIM][i % HEAD_DIM] *= row_c[i / HEAD_DIM];
    __syncwarp();
    for (int d = 0; d < HEAD_DIM; d += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
      wmma::load_matrix_sync(o, &so[0][d], HEAD_DIM, wmma::mem_row_major);
      wmma::load_matrix_sync(fp, &sp[0][0], TILE);
      wmma::load_matrix_sync(fv, &skv[0][d], HEAD_DIM);
      wmma::mma_sync(o, fp, fv, o);
      wmma::store_matrix_sync(&so[0][d], o, HEAD_DIM, wmma::mem_row_major);
    }
    __syncwarp();
  }
  for (int i = lane; i < group * HEAD_DIM; i += 32) {
    const int h = i / HEAD_DIM, d = i % HEAD_DIM;
    out[(size_t)(b * n_heads + kv_head * group + h) * HEAD_DIM + d] = __float2half(so[h][d] / row_l[h]);
  }
}

void decode_attention(half* out, const half* q, const KVCache& cache, const int* seq_lens, int batch, int n_heads,
                      int n_kv_heads, int head_dim, cudaStream_t stream) {
  if (n_heads % n_kv_heads || n_heads / n_kv_heads > 16) throw std::invalid_argument("unsupported group size");
  const float sm_scale = 1.f / sqrtf((float)head_dim);
  dim3 grid(n_kv_heads, batch);
  switch (head_dim) {
    case 64:
      decode_attn<64><<<grid, 32, 0, stream>>>(out, q, cache.k, cache.v, seq_lens, n_heads, n_kv_heads, cache.max_seq_len, sm_scale);
      break;
    case 128:
      decode_attn<128><<<grid, 32, 0, stream>>>(out, q, cache.k, cache.v, seq_lens, n_heads, n_kv_heads, cache.max_seq_len, sm_scale);
      break;
    default:
      throw std::invalid_argument("unsupported head_dim");
  }
}

}  // namespace infer
