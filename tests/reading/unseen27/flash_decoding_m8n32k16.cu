// Flash-Decoding: one new query per sequence against the KV cache, split over the cache length.
// The query heads of one KV head (at most 8) are the rows of an m8n32k16 tile, so the tensor cores are not
// wasted on 16 rows of padding.
//
//   q        [batch, num_heads, 128]                   half
//   k_cache  [batch, num_kv_heads, max_len, 128]       half
//   v_cache  [batch, num_kv_heads, max_len, 128]       half
//   seq_lens [batch]                                   1 <= seq_lens[i] <= max_len
//   out      [batch, num_heads, 128]                   half
//   scratch: part_o [batch, num_heads, num_splits, 128], part_m / part_l [batch, num_heads, num_splits]
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cfloat>

namespace decoding {

constexpr int HEAD_DIM = 128;
constexpr int MAX_GROUP = 8;
constexpr int TILE = 128;   // keys per iteration, 32 per warp
constexpr int THREADS = 128;
constexpr int LD = HEAD_DIM + 8;

using namespace nvcuda;
using FragA = wmma::fragment<wmma::matrix_a, 8, 32, 16, half, wmma::row_major>;
using FragBt = wmma::fragment<wmma::matrix_b, 8, 32, 16, half, wmma::col_major>;
using FragB = wmma::fragment<wmma::matrix_b, 8, 32, 16, half, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, 8, 32, 16, float>;

__device__ void load_kv_tile(half (*dst)[LD], const half* src, int rows) {
  for (int i = threadIdx.x; i < TILE * HEAD_DIM / 8; i += THREADS) {
    const int r = i / (HEAD_DIM / 8);
    const int c = i % (HEAD_DIM / 8) * 8;
    const int4 zero = make_int4(0, 0, 0, 0);
    *(int4*)&dst[r][c] = r < rows ? *(const int4*)(src + (size_t)r * HEAD_DIM + c) : zero;
  }
}

__global__ void __launch_bounds__(THREADS)
split_kernel(const half* __restrict__ q, const half* __restrict__ k_cache, const half* __restrict__ v_cache,
             const int* __restrict__ seq_lens, float* __restrict__ part_o, float* __restrict__ part_m,
             float* __restrict__ part_l, int num_heads, int num_kv_heads, int max_len, float scale) {
  __shared__ __align__(32) half s_q[MAX_GROUP][LD];
  __shared__ __align__(32) half s_kv[TILE][LD];
  __shared__ __align__(32) float s_s[MAX_GROUP][TILE + 4];
  __shared__ __align__(32) half s_p[MAX_GROUP][TILE + 8];
  __shared__ __align__(32) float s_o[MAX_GROUP][HEAD_DIM];

  const int split = blockIdx.x, num_splits = gridDim.x;
  const int kv_head = blockIdx.y;
  const int b = blockIdx.z;
  const int group = num_heads / num_kv_heads;
  const int warp = threadIdx.x / 32;

  const int len = seq_lens[b];
  const int tiles = (len + TILE - 1) / TILE;
  const int tiles_per_split = (tiles + num_splits - 1) / num_splits;
  const int begin = split * tiles_per_split * TILE;
  const int end = min(len, begin + tiles_per_split * TILE);

  const half* q_ptr = q + ((size_t)b * num_heads + kv_head * group) * HEAD_DIM;
  const size_t kv_base = ((size_t)b * num_kv_heads + kv_head) * max_len * HEAD_DIM;

  for (int i = threadIdx.x; i < MAX_GROUP * HEAD_DIM; i += THREADS) {
    const int r = i / HEAD_DIM, c = i % HEAD_DIM;
    s_q[r][c] = r < group ? q_ptr[i] : __float2half(0.f);
    s_o[r][c] = 0.f;
  }

  // 16 threads per row; the row statistics live in all of them
  const int row = threadIdx.x / 16;
  const int sub = threadIdx.x % 16;
  float m_run = -FLT_MAX, l_run = 0.f;

  for (int t0 = begin; t0 < end; t0 += TILE) {
    const int valid = min(TILE, end - t0);
    load_kv_tile(s_kv, k_cache + kv_base + (size_t)t0 * HEAD_DIM, valid);
    __syncthreads();

    FragC acc;
    wmma::fill_fragment(acc, 0.f);
    for (int d = 0; d < HEAD_DIM; d += 16) {
      FragA fq;
      FragBt fk;
      wmma::load_matrix_sync(fq, &s_q[0][d], LD);
      wmma::load_matrix_sync(fk, &s_kv[warp * 32][d], LD);
      wmma::mma_sync(acc, fq, fk, acc);
    }
    wmma::store_matrix_sync(&s_s[0][warp * 32], acc, TILE + 4, wmma::mem_row_major);
    __syncthreads();

    // scores are complete and K is no longer needed
    load_kv_tile(s_kv, v_cache + kv_base + (size_t)t0 * HEAD_DIM, valid);

    float x[TILE / 16];
    float m_new = m_run;
#pragma unroll
    for (int i = 0; i < TILE / 16; ++i) {
      const int key = sub + 16 * i;
      x[i] = key < valid ? s_s[row][key] * scale : -FLT_MAX;
      m_new = fmaxf(m_new, x[i]);
    }
    for (int o = 8; o > 0; o >>= 1) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, o));
    const float alpha = __expf(m_run - m_new);
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < TILE / 16; ++i) {
      const int key = sub + 16 * i;
      const float e = key < valid ? __expf(x[i] - m_new) : 0.f;
      s_p[row][key] = __float2half(e);
      sum += e;
    }
    for (int o = 8; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    l_run = l_run * alpha + sum;
    m_run = m_new;
    for (int d = sub; d < HEAD_DIM; d += 16) s_o[row][d] *= alpha;
    __syncthreads();

    // every warp adds P x V for 32 of the 128 output columns
    FragC fo;
    wmma::load_matrix_sync(fo, &s_o[0][warp * 32], HEAD_DIM, wmma::mem_row_major);
    for (int j = 0; j < TILE; j += 16) {
      FragA fp;
      FragB fv;
      wmma::load_matrix_sync(fp, &s_p[0][j], TILE + 8);
      wmma::load_matrix_sync(fv, &s_kv[j][warp * 32], LD);
      wmma::mma_sync(fo, fp, fv, fo);
    }
    wmma::store_matrix_sync(&s_o[0][warp * 32], fo, HEAD_DIM, wmma::mem_row_major);
    __syncthreads();
  }
  __syncthreads();  // an empty split: s_o is only just being cleared

  if (row < group) {
    const size_t idx = ((size_t)b * num_heads + kv_head * group + row) * num_splits + split;
    for (int d = sub; d < HEAD_DIM; d += 16) part_o[idx * HEAD_DIM + d] = s_o[row][d];
    if (sub == 0) {
      part_m[idx] = m_run;
      part_l[idx] = l_run;
    }
  }
}

// one block of HEAD_DIM threads per (head, batch)
__global__ void combine_kernel(const float* __restrict__ part_o, const float* __restrict__ part_m,
                               const float* __restrict__ part_l, half* __restrict__ out, int num_splits) {
  const size_t bh = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  const float* m = part_m + bh * num_splits;
  const float* l = part_l + bh * num_splits;
  float m_all = -FLT_MAX;
  for (int s = 0; s < num_splits; ++s) m_all = fmaxf(m_all, m[s]);
  float num = 0.f, den = 0.f;
  for (int s = 0; s < num_splits; ++s) {
    const float w = __expf(m[s] - m_all);  // an empty split has m = -FLT_MAX: weight 0
    num += w * part_o[(bh * num_splits + s) * HEAD_DIM + threadIdx.x];
    den += w * l[s];
  }
  out[bh * HEAD_DIM + threadIdx.x] = __float2half(num / den);
}

}  // namespace decoding

// returns false where the shape is not supported
bool flash_decoding(half* out, const half* q, const half* k_cache, const half* v_cache, const int* seq_lens,
                    float* part_o, float* part_m, float* part_l, int batch, int num_heads, int num_kv_heads,
                    int max_len, int num_splits, float scale, cudaStream_t stream) {
  if (num_heads % num_kv_heads != 0 || num_heads / num_kv_heads > decoding::MAX_GROUP || num_splits < 1) return false;
  decoding::split_kernel<<<dim3(num_splits, num_kv_heads, batch), decoding::THREADS, 0, stream>>>(
      q, k_cache, v_cache, seq_lens, part_o, part_m, part_l, num_heads, num_kv_heads, max_len, scale);
  decoding::combine_kernel<<<dim3(num_heads, batch), decoding::HEAD_DIM, 0, stream>>>(part_o, part_m, part_l, out,
                                                                                      num_splits);
  return cudaGetLastError() == cudaSuccess;
}
