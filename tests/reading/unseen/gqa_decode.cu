// Single-token decode attention for grouped-query models.
//
// All query heads that share a KV head form the rows of one 16-row MMA tile, so
// that the tensor cores are not (completely) wasted on a GEMV.
//
//   q        [B, Hq, 128]
//   k_cache  [B, Hkv, max_len, 128]
//   v_cache  [B, Hkv, max_len, 128]
//   seq_lens [B]     valid tokens per sequence, the new one included
//   out      [B, Hq, 128]
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <mma.h>

namespace {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr int HEAD_DIM = 128;
constexpr int MAX_GROUP = 16;
constexpr int TILE = 64;          // keys per iteration
constexpr int N_WARPS = 4;
constexpr int Q_LD = HEAD_DIM + 8;
constexpr int P_LD = TILE + 8;
constexpr int S_LD = TILE + 4;
constexpr int O_LD = HEAD_DIM + 4;

struct Smem {
  bf16 q[MAX_GROUP * Q_LD];
  bf16 kv[TILE * Q_LD];           // K first, then V in the same place
  bf16 p[MAX_GROUP * P_LD];
  float s[MAX_GROUP * S_LD];
  float o[MAX_GROUP * O_LD];
  float m[MAX_GROUP], l[MAX_GROUP], alpha[MAX_GROUP];
};

__device__ void load_tile(bf16* dst, const bf16* src, int rows_valid) {
  for (int i = threadIdx.x; i < TILE * HEAD_DIM / 8; i += N_WARPS * 32) {
    const int r = i / (HEAD_DIM / 8), c = i % (HEAD_DIM / 8) * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (r < rows_valid) v = *reinterpret_cast<const uint4*>(src + (size_t)r * HEAD_DIM + c);
    *reinterpret_cast<uint4*>(dst + r * Q_LD + c) = v;
  }
}

__global__ void __launch_bounds__(N_WARPS * 32)
gqa_decode_kernel(const bf16* __restrict__ q, const bf16* __restrict__ k_cache, const bf16* __restrict__ v_cache,
                  const int* __restrict__ seq_lens, bf16* __restrict__ out, int group, int max_len, float scale) {
  __shared__ __align__(128) Smem sm;
  const int kv_head = blockIdx.x, batch = blockIdx.y;
  const int n_kv_heads = gridDim.x;
  const int len = seq_lens[batch];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const bf16* q_ptr = q + ((size_t)batch * n_kv_heads + kv_head) * group * HEAD_DIM;
  const size_t cache_base = ((size_t)batch * n_kv_heads + kv_head) * max_len * HEAD_DIM;

  for (int i = threadIdx.x; i < MAX_GROUP * HEAD_DIM; i += blockDim.x) {
    const int r = i / HEAD_DIM, c = i % HEAD_DIM;
    sm.q[r * Q_LD + c] = r < group ? q_ptr[r * HEAD_DIM + c] : __float2bfloat16(0.f);
    sm.o[r * O_LD + c] = 0.f;
  }
  if (threadIdx.x < MAX_GROUP) {
    sm.m[threadIdx.x] = -INFINITY;
    sm.l[threadIdx.x] = 0.f;
  }

  for (int t0 = 0; t0 < len; t0 += TILE) {
    const int valid = min(TILE, len - t0);
    __syncthreads();
    load_tile(sm.kv, k_cache + cache_base + (size_t)t0 * HEAD_DIM, valid);
    __syncthreads();

    {  // scores: warp w does keys [16 w, 16 w + 16)
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::fill_fragment(acc, 0.f);
#pragma unroll
      for (int d = 0; d < HEAD_DIM; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b;
        wmma::load_matrix_sync(a, sm.q + d, Q_LD);
        wmma::load_matrix_sync(b, sm.kv + warp * 16 * Q_LD + d, Q_LD);
        wmma::mma_sync(acc, a, b, acc);
      }
      wmma::store_matrix_sync(sm.s + warp * 16, acc, S_LD, wmma::mem_row_major);
    }
    __syncthreads();
    load_tile(sm.kv, v_cache + cache_base + (size_t)t0 * HEAD_DIM, valid);

    // four rows per warp, two keys per lane
    for (int r = warp; r < MAX_GROUP; r += N_WARPS) {
      const float x0 = lane < valid ? sm.s[r * S_LD + lane] * scale : -INFINITY;
      const float x1 = lane + 32 < valid ? sm.s[r * S_LD + lane + 32] * scale : -INFINITY;
      float mx = fmaxf(x0, x1);
      for (int o = 16; o > 0; o /= 2) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, o));
      const float m_old = sm.m[r];
      const float m_new = fmaxf(m_old, mx);
      const float p0 = __expf(x0 - m_new), p1 = __expf(x1 - m_new);
      sm.p[r * P_LD + lane] = __float2bfloat16(p0);
      sm.p[r * P_LD + lane + 32] = __float2bfloat16(p1);
      float sum = p0 + p1;
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffff, sum, o);
      __syncwarp();
      if (lane == 0) {
        const float al = __expf(m_old - m_new);
        sm.alpha[r] = al;
        sm.l[r] = sm.l[r] * al + sum;
        sm.m[r] = m_new;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MAX_GROUP * HEAD_DIM; i += blockDim.x)
      sm.o[i / HEAD_DIM * O_LD + i % HEAD_DIM] *= sm.alpha[i / HEAD_DIM];
    __syncthreads();

    // o += p v: 8 column tiles, two per warp
    for (int n = warp * 2; n < warp * 2 + 2; ++n) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, sm.o + n * 16, O_LD, wmma::mem_row_major);
#pragma unroll
      for (int kk = 0; kk < TILE; kk += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
        wmma::load_matrix_sync(a, sm.p + kk, P_LD);
        wmma::load_matrix_sync(b, sm.kv + kk * Q_LD + n * 16, Q_LD);
        wmma::mma_sync(acc, a, b, acc);
      }
      wmma::store_matrix_sync(sm.o + n * 16, acc, O_LD, wmma::mem_row_major);
    }
  }
  __syncthreads();

  bf16* o_ptr = out + ((size_t)batch * n_kv_heads + kv_head) * group * HEAD_DIM;
  for (int i = threadIdx.x; i < group * HEAD_DIM; i += blockDim.x) {
    const int r = i / HEAD_DIM, c = i % HEAD_DIM;
    o_ptr[i] = __float2bfloat16(sm.o[r * O_LD + c] / sm.l[r]);
  }
}

}  // namespace

void gqa_decode(torch::Tensor& out, const torch::Tensor& q, const torch::Tensor& k_cache, const torch::Tensor& v_cache,
                const torch::Tensor& seq_lens, double scale) {
  TORCH_CHECK(q.dim() == 3 && q.size(2) == HEAD_DIM, "q must be [B, Hq, 128]");
  const int B = q.size(0), Hq = q.size(1), Hkv = k_cache.size(1);
  const int max_len = k_cache.size(2);
  const int group = Hq / Hkv;
  TORCH_CHECK(group <= MAX_GROUP, "at most ", MAX_GROUP, " query heads per kv head");
  auto ptr = [](const torch::Tensor& t) { return reinterpret_cast<bf16*>(t.data_ptr<at::BFloat16>()); };
  dim3 grid(Hkv, B);
  gqa_decode_kernel<<<grid, N_WARPS * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      ptr(q), ptr(k_cache), ptr(v_cache), seq_lens.data_ptr<int>(), ptr(out), group, max_len, static_cast<float>(scale));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gqa_decode", &gqa_decode); }
