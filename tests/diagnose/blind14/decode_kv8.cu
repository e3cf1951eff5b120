// Decoding step with an int8 KV cache. One block per (kv head, sequence): the query heads of the group are the rows of
// a 16-row tile, keys come 64 at a time. Cache [B, Hkv, cap, 64] bytes, one float scale per cached token.
#include <cuda_fp16.h>
#include <mma.h>

#define D 64
#define CHUNK 64
#define ROWS 16
#define LDK (D + 8)
#define LDP (CHUNK + 8)
#define NWARPS 4

using namespace nvcuda;

struct DecodeSmem {
  half q[ROWS * LDK];
  half kv[CHUNK * LDK];
  half p[ROWS * LDP];
  float s[ROWS * LDP];
  float o[ROWS * LDK];
  float m[ROWS], l[ROWS], alpha[ROWS];
};

// bytes to halves, each token by its scale; rows behind the end become zeros
__device__ void dequant_chunk(half *dst, const signed char *cache, const float *scales, int first, int len) {
  for (int i = threadIdx.x; i < CHUNK * D / 4; i += NWARPS * 32) {
    int tok = i / (D / 4), d = i % (D / 4) * 4;
    char4 c = make_char4(0, 0, 0, 0);
    float scale = 0.f;
    if (first + tok < len) {
      c = *reinterpret_cast<const char4 *>(cache + (size_t)(first + tok) * D + d);
      scale = scales[first + tok];
    }
    half *out = dst + tok * LDK + d;
    out[0] = __float2half(c.x * scale);
    out[1] = __float2half(c.y * scale);
    out[2] = __float2half(c.z * scale);
    out[3] = __float2half(c.w * scale);
  }
}

__global__ void decode_kv8(const half *q, const signed char *k_cache, const float *k_scale, const signed char *v_cache,
                           const float *v_scale, const int *seq_lens, half *out, int num_heads, int num_kv_heads,
                           int capacity, float sm_scale) {
  __shared__ __align__(32) DecodeSmem sm;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int kv_head = blockIdx.x, seq = blockIdx.y;
  const int group = num_heads / num_kv_heads;
  const int len = seq_lens[seq];

  const size_t slot = (size_t)(seq * num_kv_heads + kv_head) * capacity;
  k_cache += slot * D;
  v_cache += slot * D;
  k_scale += slot;
  v_scale += slot;
  q += (size_t)(seq * num_heads + kv_head * group) * D;
  out += (size_t)(seq * num_heads + kv_head * group) * D;

  for (int i = tid; i < ROWS * D; i += NWARPS * 32) {
    int r = i / D, d = i % D;
    sm.q[r * LDK + d] = r < group ? q[r * D + d] : __float2half(0.f);
    sm.o[r * LDK + d] = 0.f;
  }
  if (tid < ROWS) {
    sm.m[tid] = -INFINITY;
    sm.l[tid] = 0.f;
  }

  for (int first = 0; first < len; first += CHUNK) {
    dequant_chunk(sm.kv, k_cache, k_scale, first, len);
    __syncthreads();

    // scores: warp w has keys 16 w .. 16 w + 15
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.f);
    for (int d = 0; d < D; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
      wmma::load_matrix_sync(fq, sm.q + d, LDK);
      wmma::load_matrix_sync(fk, sm.kv + warp * 16 * LDK + d, LDK);
      wmma::mma_sync(s, fq, fk, s);
    }
    wmma::store_matrix_sync(sm.s + warp * 16, s, LDP, wmma::mem_row_major);
    __syncthreads();

    // keys are done with: values take their place while rows are normalised
    dequant_chunk(sm.kv, v_cache, v_scale, first, len);
    for (int r = warp; r < ROWS; r += NWARPS) {
      float x0 = first + lane < len ? sm.s[r * LDP + lane] * sm_scale : -INFINITY;
      float x1 = first + lane + 32 < len ? sm.s[r * LDP + lane + 32] * sm_scale : -INFINITY;
      float top = fmaxf(x0, x1);
      for (int o = 16; o > 0; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
      top = fmaxf(top, sm.m[r]);
      x0 = __expf(x0 - top);
      x1 = __expf(x1 - top);
      float sum = x0 + x1;
      for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      sm.p[r * LDP + lane] = __float2half(x0);
      sm.p[r * LDP + lane + 32] = __float2half(x1);
      __syncwarp();
      if (lane == 0) {
        float a = __expf(sm.m[r] - top);
        sm.alpha[r] = a;
        sm.l[r] = sm.l[r] * a + sum;
        sm.m[r] = top;
      }
    }
    __syncthreads();

    for (int i = tid; i < ROWS * D; i += NWARPS * 32) sm.o[i / D * LDK + i % D] *= sm.alpha[i / D];
    __syncthreads();

    // o += p v: warp w has columns 16 w .. 16 w + 15 of the head
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::load_matrix_sync(acc, sm.o + warp * 16, LDK, wmma::mem_row_major);
    for (int t = 0; t < CHUNK; t += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
      wmma::load_matrix_sync(fp, sm.p + t, LDP);
      wmma::load_matrix_sync(fv, sm.kv + t * LDK + warp * 16, LDK);
      wmma::mma_sync(acc, fp, fv, acc);
    }
    wmma::store_matrix_sync(sm.o + warp * 16, acc, LDK, wmma::mem_row_major);
    __syncthreads();
  }

  for (int i = tid; i < group * D; i += NWARPS * 32) {
    int r = i / D, d = i % D;
    out[r * D + d] = __float2half(sm.o[r * LDK + d] / sm.l[r]);
  }
}
