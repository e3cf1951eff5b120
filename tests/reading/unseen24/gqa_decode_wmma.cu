// Decode-phase attention over a KV cache with grouped query heads.
//
// One new token per sequence: q is [batch, num_heads, D], the caches are
// [batch, num_kv_heads, max_seq, D], out is [batch, num_heads, D] (all fp16).
// seq_lens[b] says how many cache rows of sequence b are valid (the new token's
// key and value are already appended by append_kv_kernel below).
//
// A single query row would waste 15/16 of a tensor core tile. With GQA the
// `group = num_heads / num_kv_heads` query heads that share a KV head are the
// rows of the tile, so K and V are read once for all of them. group <= 16, the
// rest of the tile is zero.
//
// grid = (num_kv_heads, batch), 4 warps. The keys are walked 64 at a time, each
// warp computes a 16 x 16 piece of the scores and D/4 columns of the output.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cassert>
#include <cstdint>
#include <cstdio>

using namespace nvcuda;

namespace decode {

constexpr int ROWS = 16;         // query heads of a group, padded
constexpr int KEYS = 64;         // keys of a step
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * 32;

template <int D>
struct alignas(128) SharedStorage {
  half q[ROWS][D + 8];
  half kv[KEYS][D + 8];          // K first, then V
  float s[ROWS][KEYS + 4];
  half p[ROWS][KEYS + 8];
  float o[ROWS][D + 4];
  float row_max[ROWS];
  float row_sum[ROWS];
};

// Writes this step's key and value to position seq_lens[b] of the caches. The caller increments
// seq_lens afterwards.
__global__ void append_kv_kernel(const half *__restrict__ k_new, const half *__restrict__ v_new,
                                 half *__restrict__ k_cache, half *__restrict__ v_cache,
                                 const int *__restrict__ seq_lens, int num_kv_heads, int max_seq, int D) {
  const int b = blockIdx.y, h = blockIdx.x;
  const int pos = seq_lens[b];
  if (pos >= max_seq) return;  // full
  const size_t src = ((size_t)b * num_kv_heads + h) * D;
  const size_t dst = (((size_t)b * num_kv_heads + h) * max_seq + pos) * D;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    k_cache[dst + d] = k_new[src + d];
    v_cache[dst + d] = v_new[src + d];
  }
}

template <int D>
__device__ __forceinline__ void load_rows(half (*dst)[D + 8], const half *src, int rows, int rows_padded) {
  constexpr int VEC = 8;  // halfs of a 128 bit load
  for (int i = threadIdx.x; i < rows_padded * (D / VEC); i += THREADS) {
    const int r = i / (D / VEC);
    const int c = (i % (D / VEC)) * VEC;
    uint4 v = {0, 0, 0, 0};
    if (r < rows) v = *reinterpret_cast<const uint4 *>(src + (size_t)r * D + c);
    *reinterpret_cast<uint4 *>(&dst[r][c]) = v;
  }
}

template <int D>
__global__ void __launch_bounds__(THREADS)
gqa_decode_kernel(const half *__restrict__ q, const half *__restrict__ k_cache, const half *__restrict__ v_cache,
                  const int *__restrict__ seq_lens, half *__restrict__ out, int num_heads, int num_kv_heads,
                  int max_seq, float sm_scale) {
  extern __shared__ __align__(128) char smem_raw[];
  SharedStorage<D> &sm = *reinterpret_cast<SharedStorage<D> *>(smem_raw);

  const int b = blockIdx.y;
  const int kvh = blockIdx.x;
  const int group = num_heads / num_kv_heads;
  const int len = seq_lens[b];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const half *q_ptr = q + ((size_t)b * num_heads + (size_t)kvh * group) * D;
  const half *k_ptr = k_cache + ((size_t)b * num_kv_heads + kvh) * max_seq * D;
  const half *v_ptr = v_cache + ((size_t)b * num_kv_heads + kvh) * max_seq * D;
  half *o_ptr = out + ((size_t)b * num_heads + (size_t)kvh * group) * D;

  load_rows<D>(sm.q, q_ptr, group, ROWS);
  for (int i = threadIdx.x; i < ROWS * D; i += THREADS) sm.o[i / D][i % D] = 0.f;
  if (threadIdx.x < ROWS) {
    sm.row_max[threadIdx.x] = -INFINITY;
    sm.row_sum[threadIdx.x] = 0.f;
  }

  for (int start = 0; start < len; start += KEYS) {
    const int n = min(KEYS, len - start);
    load_rows<D>(sm.kv, k_ptr + (size_t)start * D, n, KEYS);
    __syncthreads();

    // scores: warp w has keys 16w .. 16w+15
    {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
#pragma unroll
      for (int d = 0; d < D; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
        wmma::load_matrix_sync(fq, &sm.q[0][d], D + 8);
        wmma::load_matrix_sync(fk, &sm.kv[warp * 16][d], D + 8);
        wmma::mma_sync(acc, fq, fk, acc);
      }
      wmma::store_matrix_sync(&sm.s[0][warp * 16], acc, KEYS + 4, wmma::mem_row_major);
    }
    __syncthreads();

    // K is not needed any more, V takes its place while the softmax runs
    load_rows<D>(sm.kv, v_ptr + (size_t)start * D, n, KEYS);

    for (int r = warp; r < ROWS; r += WARPS) {
      const float s0 = lane < n ? sm.s[r][lane] * sm_scale : -INFINITY;
      const float s1 = lane + 32 < n ? sm.s[r][lane + 32] * sm_scale : -INFINITY;
      float mx = fmaxf(s0, s1);
#pragma unroll
      for (int o = 16; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
      const float old_max = sm.row_max[r];
      const float new_max = fmaxf(old_max, mx);
      const float p0 = __expf(s0 - new_max), p1 = __expf(s1 - new_max);
      float sum = p0 + p1;
#pragma unroll
      for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
      const float rescale = __expf(old_max - new_max);
      sm.p[r][lane] = __float2half(p0);
      sm.p[r][lane + 32] = __float2half(p1);
      for (int d = lane; d < D; d += 32) sm.o[r][d] *= rescale;
      __syncwarp();
      if (lane == 0) {
        sm.row_max[r] = new_max;
        sm.row_sum[r] = sm.row_sum[r] * rescale + sum;
      }
    }
    __syncthreads();

    // output: warp w has columns D/4*w ..
#pragma unroll
    for (int c = 0; c < D / WARPS; c += 16) {
      const int col = warp * (D / WARPS) + c;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, &sm.o[0][col], D + 4, wmma::mem_row_major);
#pragma unroll
      for (int k = 0; k < KEYS; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
        wmma::load_matrix_sync(fp, &sm.p[0][k], KEYS + 8);
        wmma::load_matrix_sync(fv, &sm.kv[k][col], D + 8);
        wmma::mma_sync(acc, fp, fv, acc);
      }
      wmma::store_matrix_sync(&sm.o[0][col], acc, D + 4, wmma::mem_row_major);
    }
    __syncthreads();
  }
  __syncthreads();  // an empty cache has not met a barrier yet

  for (int i = threadIdx.x; i < group * D; i += THREADS) {
    const int r = i / D, d = i % D;
    const float sum = sm.row_sum[r];
    o_ptr[i] = __float2half(sum > 0.f ? sm.o[r][d] / sum : 0.f);
  }
}

template <int D>
static cudaError_t launch(const half *q, const half *k_cache, const half *v_cache, const int *seq_lens, half *out,
                          int batch, int num_heads, int num_kv_heads, int max_seq, cudaStream_t stream) {
  const size_t smem = sizeof(SharedStorage<D>);
  cudaError_t e =
      cudaFuncSetAttribute(gqa_decode_kernel<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);
  if (e != cudaSuccess) return e;
  dim3 grid(num_kv_heads, batch);
  gqa_decode_kernel<D><<<grid, THREADS, smem, stream>>>(q, k_cache, v_cache, seq_lens, out, num_heads, num_kv_heads,
                                                        max_seq, 1.0f / sqrtf((float)D));
  return cudaGetLastError();
}

// returns false for shapes that are not supported
bool gqa_decode(const half *q, const half *k_cache, const half *v_cache, const int *seq_lens, half *out, int batch,
                int num_heads, int num_kv_heads, int head_dim, int max_seq, cudaStream_t stream) {
  if (num_kv_heads <= 0 || num_heads % num_kv_heads != 0) return false;
  if (num_heads / num_kv_heads > ROWS) return false;
  cudaError_t e;
  switch (head_dim) {
    case 64:
      e = launch<64>(q, k_cache, v_cache, seq_lens, out, batch, num_heads, num_kv_heads, max_seq, stream);
      break;
    case 128:
      e = launch<128>(q, k_cache, v_cache, seq_lens, out, batch, num_heads, num_kv_heads, max_seq, stream);
      break;
    default:
      return false;
  }
  if (e != cudaSuccess) fprintf(stderr, "gqa_decode: %s\n", cudaGetErrorString(e));
  return e == cudaSuccess;
}

}  // namespace decode
