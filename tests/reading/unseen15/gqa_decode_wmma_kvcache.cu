// Decode attention with grouped queries: the query heads of one KV head (up to 16) fill the rows of a WMMA tile.
// One block per (sequence, kv head). k_cache, v_cache: [batch, max_seq, kv_heads, HEAD_DIM].
#include <cuda_fp16.h>
#include <mma.h>
#include <cfloat>

namespace decode {

constexpr int HEAD_DIM = 64;
constexpr int CHUNK = 64;
constexpr int NTHREADS = 128;

__global__ void gqa_decode_kernel(const half* __restrict__ q,        // [batch, num_heads, HEAD_DIM]
                                  const half* __restrict__ k_cache,
                                  const half* __restrict__ v_cache,
                                  const int* __restrict__ seq_lens,  // [batch]
                                  half* __restrict__ out,            // [batch, num_heads, HEAD_DIM]
                                  int num_heads, int num_kv_heads, int max_seq, float scale) {
  using namespace nvcuda;
  __shared__ half sq[16 * HEAD_DIM];
  __shared__ float ss[16 * CHUNK];
  __shared__ half sp[16 * CHUNK];
  __shared__ float so[16 * HEAD_DIM];
  __shared__ float sm[16], sl[16], sc[16];
  __shared__ half skv[CHUNK * HEAD_DIM];

  const int b = blockIdx.y, kvh = blockIdx.x;
  const int group = num_heads / num_kv_heads;
  const int len = seq_lens[b];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  for (int i = threadIdx.x; i < 16 * HEAD_DIM; i += NTHREADS) {
    const int g = i / HEAD_DIM;
    sq[i] = g < group ? q[((size_t)b * num_heads + kvh * group + g) * HEAD_DIM + i % HEAD_DIM] : __float2half(0.f);
    so[i] = 0.f;
  }
  if (threadIdx.x < 16) { sm[threadIdx.x] = -FLT_MAX; sl[threadIdx.x] = 0.f; }
  __syncthreads();

  for (int j0 = 0; j0 < len; j0 += CHUNK) {
    for (int i = threadIdx.x; i < CHUNK * HEAD_DIM; i += NTHREADS) {
      const int j = j0 + i / HEAD_DIM;
      skv[i] = j < len ? k_cache[(((size_t)b * max_seq + j) * num_kv_heads + kvh) * HEAD_DIM + i % HEAD_DIM] : __float2half(0.f);
    }
    __syncthreads();
    {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bk;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
      for (int d = 0; d < HEAD_DIM; d += 16) {
        wmma::load_matrix_sync(a, sq + d, HEAD_DIM);
        wmma::load_matrix_sync(bk, skv + warp * 16 * HEAD_DIM + d, HEAD_DIM);
        wmma::mma_sync(s, a, bk, s);
      }
      wmma::store_matrix_sync(ss + warp * 16, s, CHUNK, wmma::mem_row_major);
    }
    __syncthreads();
    for (int r = warp * 4; r < warp * 4 + 4; ++r) {
      const int left = min(CHUNK, len - j0);
      float m = -FLT_MAX;
      for (int j = lane; j < left; j += 32) m = fmaxf(m, ss[r * CHUNK + j] * scale);
      for (int o = 16; o; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
      m = fmaxf(m, sm[r]);
      float sum = 0.f;
      for (int j = lane; j < CHUNK; j += 32) {
        const float p = j < left ? __expf(ss[r * CHUNK + j] * scale - m) : 0.f;
        sp[r * CHUNK + j] = __float2half(p);
        sum += p;
      }
      for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
      if (lane == 0) {
        const float corr = __expf(sm[r] - m);
        sc[r] = corr;
        sl[r] = sl[r] * corr + sum;
        sm[r] = m;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * HEAD_DIM; i += NTHREADS) so[i] *= sc[i / HEAD_DIM];
    for (int i = threadIdx.x; i < CHUNK * HEAD_DIM; i += NTHREADS) {
      const int j = j0 + i / HEAD_DIM;
      skv[i] = j < len ? v_cache[(((size_t)b * max_seq + j) * num_kv_heads + kvh) * HEAD_DIM + i % HEAD_DIM] : __float2half(0.f);
    }
    __syncthreads();
    {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bv;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(o, so + warp * 16, HEAD_DIM, wmma::mem_row_major);
      for (int j = 0; j < CHUNK; j += 16) {
        wmma::load_matrix_sync(p, sp + j, CHUNK);
        wmma::load_matrix_sync(bv, skv + j * HEAD_DIM + warp * 16, HEAD_DIM);
        wmma::mma_sync(o, p, bv, o);
      }
      wmma::store_matrix_sync(so + warp * 16, o, HEAD_DIM, wmma::mem_row_major);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < group * HEAD_DIM; i += NTHREADS) {
    const int g = i / HEAD_DIM;
    out[((size_t)b * num_heads + kvh * group + g) * HEAD_DIM + i % HEAD_DIM] = __float2half(so[i] / sl[g]);
  }
}

void gqa_decode(const half* q, const half* k_cache, const half* v_cache, const int* seq_lens, half* out, int batch,
                int num_heads, int num_kv_heads, int max_seq, float scale, cudaStream_t stream) {
  gqa_decode_kernel<<<dim3(num_kv_heads, batch), NTHREADS, 0, stream>>>(q, k_cache, v_cache, seq_lens, out, num_heads,
                                                                        num_kv_heads, max_seq, scale);
}

}  // namespace decode
