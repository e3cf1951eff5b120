// qkv_proj_split_heads.cu - prefill: fused QKV projection, result written head by head for the attention kernels
//
//   hidden  [batch * seq_len, hidden_size]
//   w_qkv   [(n_heads + 2 * n_kv_heads) * head_dim, hidden_size]     (q | k | v, as the checkpoint converter packs them)
//   b_qkv   [(n_heads + 2 * n_kv_heads) * head_dim]                  (Qwen has it)
//   q       [batch, n_heads, seq_len, head_dim]
//   k, v    [batch, n_kv_heads, seq_len, head_dim]
#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

namespace tinyllm {

using bf16 = __nv_bfloat16;

namespace {

constexpr int BM = 64;   // tokens
constexpr int BN = 64;   // features of q | k | v
constexpr int BK = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kLd = BK + 8;
constexpr int kVecs = BK / 8;                       // 16-byte vectors in a row of a tile
constexpr int kVecsA = BM * kVecs / kThreads;       // per thread
constexpr int kVecsB = BN * kVecs / kThreads;

struct Stage {
  bf16 a[BM * kLd];
  bf16 b[BN * kLd];
};

// global -> registers; zeros outside of the matrix
template <int VECS>
__device__ __forceinline__ void fetch(uint4 (&regs)[VECS], const bf16* __restrict__ src, int row0, int rows, int k0, int cols) {
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    const int r = row0 + idx / kVecs;
    const int c = k0 + idx % kVecs * 8;
    regs[i] = r < rows && c < cols ? *reinterpret_cast<const uint4*>(src + static_cast<size_t>(r) * cols + c) : make_uint4(0, 0, 0, 0);
  }
}

// registers -> shared
template <int VECS>
__device__ __forceinline__ void commit(bf16* dst, const uint4 (&regs)[VECS]) {
#pragma unroll
  for (int i = 0; i < VECS; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    *reinterpret_cast<uint4*>(dst + idx / kVecs * kLd + idx % kVecs * 8) = regs[i];
  }
}

}  // namespace

__global__ void __launch_bounds__(kThreads)
qkv_proj_split_heads_kernel(const bf16* __restrict__ hidden, const bf16* __restrict__ w_qkv, const bf16* __restrict__ b_qkv,
                            bf16* __restrict__ q, bf16* __restrict__ k, bf16* __restrict__ v,
                            int batch, int seq_len, int hidden_size, int n_heads, int n_kv_heads, int head_dim) {
  using namespace nvcuda;
  __shared__ __align__(128) Stage stages[2];
  __shared__ __align__(128) float scratch[kWarps][16 * 16];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = warp / 2 * 32;
  const int warp_n = warp % 2 * 32;
  const int token0 = blockIdx.y * BM;
  const int feature0 = blockIdx.x * BN;
  const int tokens = batch * seq_len;
  const int q_size = n_heads * head_dim;
  const int kv_size = n_kv_heads * head_dim;
  const int features = q_size + 2 * kv_size;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  uint4 ra[kVecsA], rb[kVecsB];
  fetch(ra, hidden, token0, tokens, 0, hidden_size);
  fetch(rb, w_qkv, feature0, features, 0, hidden_size);
  commit(stages[0].a, ra);
  commit(stages[0].b, rb);
  __syncthreads();

  const int steps = (hidden_size + BK - 1) / BK;
  for (int step = 0; step < steps; ++step) {
    const Stage& cur = stages[step & 1];
    const bool more = step + 1 < steps;
    if (more) {
      fetch(ra, hidden, token0, tokens, (step + 1) * BK, hidden_size);
      fetch(rb, w_qkv, feature0, features, (step + 1) * BK, hidden_size);
    }

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(fa[i], cur.a + (warp_m + i * 16) * kLd + kk, kLd);
#pragma unroll
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(fb[j], cur.b + (warp_n + j * 16) * kLd + kk, kLd);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }

    if (more) {
      Stage& next = stages[(step + 1) & 1];
      commit(next.a, ra);
      commit(next.b, rb);
    }
    __syncthreads();
  }

  // bias and scatter; half a row of a 16 x 16 piece per lane
  const int r = lane / 2;
  const int c = lane % 2 * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(scratch[warp], acc[i][j], 16, wmma::mem_row_major);
      __syncwarp();

      const int token = token0 + warp_m + i * 16 + r;
      const int feature = feature0 + warp_n + j * 16 + c;
      if (token < tokens && feature < features) {   // head_dim is a multiple of 8
        bf16* dst;
        int heads = n_kv_heads;
        int f = feature;
        if (f < q_size) {
          dst = q;
          heads = n_heads;
        } else if (f < q_size + kv_size) {
          dst = k;
          f -= q_size;
        } else {
          dst = v;
          f -= q_size + kv_size;
        }
        const int b = token / seq_len;
        const int s = token % seq_len;
        const int head = f / head_dim;
        dst += ((static_cast<size_t>(b) * heads + head) * seq_len + s) * head_dim + f % head_dim;

        uint4 packed;
        bf16* out = reinterpret_cast<bf16*>(&packed);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float x = scratch[warp][r * 16 + c + e];
          if (b_qkv != nullptr) x += __bfloat162float(b_qkv[feature + e]);
          out[e] = __float2bfloat16(x);
        }
        *reinterpret_cast<uint4*>(dst) = packed;
      }
      __syncwarp();
    }
  }
}

void qkv_proj_split_heads(const Tensor& hidden, const Tensor& w_qkv, const Tensor& b_qkv, Tensor& q, Tensor& k, Tensor& v,
                          const ModelConfig& cfg, cudaStream_t stream) {
  const int batch = hidden.size(0);
  const int seq_len = hidden.size(1);
  const int features = (cfg.n_heads + 2 * cfg.n_kv_heads) * cfg.head_dim;
  const dim3 grid((features + BN - 1) / BN, (batch * seq_len + BM - 1) / BM);
  qkv_proj_split_heads_kernel<<<grid, kThreads, 0, stream>>>(
      hidden.data<bf16>(), w_qkv.data<bf16>(), b_qkv.empty() ? nullptr : b_qkv.data<bf16>(), q.data<bf16>(), k.data<bf16>(),
      v.data<bf16>(), batch, seq_len, cfg.hidden_size, cfg.n_heads, cfg.n_kv_heads, cfg.head_dim);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace tinyllm
