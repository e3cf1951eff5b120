// fa2_kvcache_bf16.cu
//
// FlashAttention-2 forward against a KV cache, bf16, Ampere (mma.sync m16n8k16).
// S, P and O never leave the registers.
//
//   Q       [batch, seqlen_q, num_heads,    HEAD_DIM]
//   K/Vcache[batch, max_seqlen, num_heads_kv, HEAD_DIM]
//   cache_seqlens[batch]: number of valid keys (the new keys are already appended)
//   O       [batch, seqlen_q, num_heads, HEAD_DIM]
//
//   query i of a sequence sits at position cache_seqlens[b] - seqlen_q + i,
//   so it sees the keys 0 .. cache_seqlens[b] - seqlen_q + i.   cache_seqlens[b] >= seqlen_q.
//
// nvcc -std=c++17 -O3 -arch=sm_80 fa2_kvcache_bf16.cu -o fa2 && ./fa2

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

typedef __nv_bfloat16 bf16;

inline void cuda_check(cudaError_t e, const char *file, int line) {
  if (e != cudaSuccess) {
    std::fprintf(stderr, "%s:%d %s\n", file, line, cudaGetErrorString(e));
    std::exit(1);
  }
}
#define CUDA_CHECK(x) cuda_check((x), __FILE__, __LINE__)

constexpr int BLOCK_Q = 64;
constexpr int BLOCK_KV = 64;
constexpr int NUM_WARPS = 4;
constexpr int TB_SIZE = NUM_WARPS * 32;
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_K = 16;

__device__ __forceinline__ void ldmatrix_x4(uint32_t regs[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(regs[0]), "=r"(regs[1]), "=r"(regs[2]), "=r"(regs[3])
               : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t regs[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(regs[0]), "=r"(regs[1]), "=r"(regs[2]), "=r"(regs[3])
               : "r"(addr));
}

__device__ __forceinline__ void mma_m16n8k16(float D[4], const uint32_t A[4], uint32_t B0, uint32_t B1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, "
               "{%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
               : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B0), "r"(B1));
}

__device__ __forceinline__ void cp_async_zfill(uint32_t dst, const void *src, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;"); }
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;"); }

// byte offset of the 16-byte chunk (row, chunk) in a tile of HEAD_DIM columns.
// The XOR keeps 8 neighbouring rows on different banks for ldmatrix.
template <int HEAD_DIM>
__device__ __forceinline__ uint32_t swizzle(int row, int chunk) {
  return row * (HEAD_DIM * (int)sizeof(bf16)) + ((chunk ^ (row & 7)) << 4);
}

// a 64 x HEAD_DIM tile, rows >= valid_rows are filled with zeros
template <int HEAD_DIM>
__device__ __forceinline__ void load_tile(uint32_t smem, const bf16 *gmem, int row_stride, int valid_rows) {
  constexpr int CHUNKS = HEAD_DIM / 8;
#pragma unroll
  for (int i = 0; i < 64 * CHUNKS / TB_SIZE; i++) {
    const int idx = i * TB_SIZE + threadIdx.x;
    const int row = idx / CHUNKS;
    const int chunk = idx % CHUNKS;
    const bool valid = row < valid_rows;
    const bf16 *src = gmem + (valid ? (int64_t)row * row_stride : 0) + chunk * 8;
    cp_async_zfill(smem + swizzle<HEAD_DIM>(row, chunk), src, valid);
  }
}

__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
  __nv_bfloat162 t = __floats2bfloat162_rn(lo, hi);
  return *reinterpret_cast<uint32_t *>(&t);
}

template <int HEAD_DIM>
__global__ void __launch_bounds__(TB_SIZE)
fa2_kvcache_kernel(const bf16 *__restrict__ Q, const bf16 *__restrict__ K, const bf16 *__restrict__ V,
                   const int *__restrict__ cache_seqlens, bf16 *__restrict__ O, int seqlen_q,
                   int max_seqlen, int num_heads, int num_heads_kv, float softmax_scale_log2) {
  const int tid = threadIdx.x;
  const int warp_id = tid / 32;
  const int lane_id = tid % 32;

  const int q_start = blockIdx.x * BLOCK_Q;
  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int kv_head = head / (num_heads / num_heads_kv);
  const int seqlen_k = cache_seqlens[batch];
  const int past = seqlen_k - seqlen_q;

  const int q_stride = num_heads * HEAD_DIM;
  const int kv_stride = num_heads_kv * HEAD_DIM;
  Q += ((int64_t)batch * seqlen_q + q_start) * q_stride + head * HEAD_DIM;
  O += ((int64_t)batch * seqlen_q + q_start) * q_stride + head * HEAD_DIM;
  K += (int64_t)batch * max_seqlen * kv_stride + kv_head * HEAD_DIM;
  V += (int64_t)batch * max_seqlen * kv_stride + kv_head * HEAD_DIM;

  extern __shared__ __align__(128) uint8_t smem[];
  constexpr uint32_t TILE_BYTES = 64 * HEAD_DIM * sizeof(bf16);
  const uint32_t Q_smem = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  const uint32_t K_smem = Q_smem + TILE_BYTES;
  const uint32_t V_smem = K_smem + TILE_BYTES;

  // the last row of this block that exists decides how many keys are needed
  const int last_q = min(q_start + BLOCK_Q, seqlen_q) - 1;
  const int kv_end = past + last_q + 1;
  const int num_kv_blocks = (kv_end + BLOCK_KV - 1) / BLOCK_KV;

  load_tile<HEAD_DIM>(Q_smem, Q, q_stride, seqlen_q - q_start);
  load_tile<HEAD_DIM>(K_smem, K, kv_stride, seqlen_k);
  cp_async_commit();

  uint32_t Q_rmem[HEAD_DIM / MMA_K][4];
  float O_rmem[HEAD_DIM / MMA_N][4] = {};
  float rowmax[2] = {-INFINITY, -INFINITY};
  float rowsum[2] = {0.f, 0.f};

  for (int kv_id = 0; kv_id < num_kv_blocks; kv_id++) {
    const int kv_start = kv_id * BLOCK_KV;

    // K is here, and nobody reads the V of the last step any more
    cp_async_wait_all();
    __syncthreads();

    load_tile<HEAD_DIM>(V_smem, V + (int64_t)kv_start * kv_stride, kv_stride, seqlen_k - kv_start);
    cp_async_commit();

    if (kv_id == 0) {
#pragma unroll
      for (int d = 0; d < HEAD_DIM / MMA_K; d++) {
        const int row = warp_id * MMA_M + (lane_id % 16);
        const int chunk = d * 2 + lane_id / 16;
        ldmatrix_x4(Q_rmem[d], Q_smem + swizzle<HEAD_DIM>(row, chunk));
      }
    }

    // S = Q @ K.T   [16, BLOCK_KV] per warp
    float S_rmem[BLOCK_KV / MMA_N][4] = {};
#pragma unroll
    for (int d = 0; d < HEAD_DIM / MMA_K; d++) {
#pragma unroll
      for (int n = 0; n < BLOCK_KV / MMA_N; n += 2) {
        uint32_t K_rmem[4];
        const int row = n * MMA_N + (lane_id / 16) * 8 + (lane_id % 8);
        const int chunk = d * 2 + (lane_id / 8) % 2;
        ldmatrix_x4(K_rmem, K_smem + swizzle<HEAD_DIM>(row, chunk));
        mma_m16n8k16(S_rmem[n], Q_rmem[d], K_rmem[0], K_rmem[1]);
        mma_m16n8k16(S_rmem[n + 1], Q_rmem[d], K_rmem[2], K_rmem[3]);
      }
    }

    // causal mask, only where the block touches the diagonal
    if (kv_start + BLOCK_KV > past + q_start + warp_id * MMA_M + 1) {
#pragma unroll
      for (int n = 0; n < BLOCK_KV / MMA_N; n++) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
          const int col = kv_start + n * MMA_N + (lane_id % 4) * 2 + (r & 1);
          const int row = q_start + warp_id * MMA_M + lane_id / 4 + (r >> 1) * 8;
          if (col > past + row) S_rmem[n][r] = -INFINITY;
        }
      }
    }

    // online softmax, base 2
    float new_max[2] = {rowmax[0], rowmax[1]};
#pragma unroll
    for (int n = 0; n < BLOCK_KV / MMA_N; n++) {
      new_max[0] = fmaxf(new_max[0], fmaxf(S_rmem[n][0], S_rmem[n][1]));
      new_max[1] = fmaxf(new_max[1], fmaxf(S_rmem[n][2], S_rmem[n][3]));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
      new_max[i] = fmaxf(new_max[i], __shfl_xor_sync(0xFFFFFFFF, new_max[i], 1));
      new_max[i] = fmaxf(new_max[i], __shfl_xor_sync(0xFFFFFFFF, new_max[i], 2));
    }

    float rescale[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      rescale[i] = exp2f((rowmax[i] - new_max[i]) * softmax_scale_log2);
      rowmax[i] = new_max[i];
      rowsum[i] *= rescale[i];
    }
#pragma unroll
    for (int n = 0; n < HEAD_DIM / MMA_N; n++) {
      O_rmem[n][0] *= rescale[0];
      O_rmem[n][1] *= rescale[0];
      O_rmem[n][2] *= rescale[1];
      O_rmem[n][3] *= rescale[1];
    }

    uint32_t P_rmem[BLOCK_KV / MMA_K][4];
#pragma unroll
    for (int n = 0; n < BLOCK_KV / MMA_N; n++) {
      const float p0 = exp2f((S_rmem[n][0] - rowmax[0]) * softmax_scale_log2);
      const float p1 = exp2f((S_rmem[n][1] - rowmax[0]) * softmax_scale_log2);
      const float p2 = exp2f((S_rmem[n][2] - rowmax[1]) * softmax_scale_log2);
      const float p3 = exp2f((S_rmem[n][3] - rowmax[1]) * softmax_scale_log2);
      // partial sums of this thread, the 4 threads of a row are added at the end
      rowsum[0] += p0 + p1;
      rowsum[1] += p2 + p3;
      // the C layout of two n8 tiles is the A layout of one k16 tile
      P_rmem[n / 2][(n % 2) * 2 + 0] = pack_bf16(p0, p1);
      P_rmem[n / 2][(n % 2) * 2 + 1] = pack_bf16(p2, p3);
    }

    // V is here, and everybody is done with K
    cp_async_wait_all();
    __syncthreads();
    if (kv_id + 1 < num_kv_blocks) {
      const int next = kv_start + BLOCK_KV;
      load_tile<HEAD_DIM>(K_smem, K + (int64_t)next * kv_stride, kv_stride, seqlen_k - next);
      cp_async_commit();
    }

    // O += P @ V
#pragma unroll
    for (int kk = 0; kk < BLOCK_KV / MMA_K; kk++) {
#pragma unroll
      for (int n = 0; n < HEAD_DIM / MMA_N; n += 2) {
        uint32_t V_rmem[4];
        const int row = kk * MMA_K + (lane_id % 16);
        const int chunk = n + lane_id / 16;
        ldmatrix_x4_trans(V_rmem, V_smem + swizzle<HEAD_DIM>(row, chunk));
        mma_m16n8k16(O_rmem[n], P_rmem[kk], V_rmem[0], V_rmem[1]);
        mma_m16n8k16(O_rmem[n + 1], P_rmem[kk], V_rmem[2], V_rmem[3]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; i++) {
    rowsum[i] += __shfl_xor_sync(0xFFFFFFFF, rowsum[i], 1);
    rowsum[i] += __shfl_xor_sync(0xFFFFFFFF, rowsum[i], 2);
  }
  const int row0 = warp_id * MMA_M + lane_id / 4;
#pragma unroll
  for (int n = 0; n < HEAD_DIM / MMA_N; n++) {
    const int col = n * MMA_N + (lane_id % 4) * 2;
    if (q_start + row0 < seqlen_q)
      *reinterpret_cast<uint32_t *>(O + (int64_t)row0 * q_stride + col) =
          pack_bf16(O_rmem[n][0] / rowsum[0], O_rmem[n][1] / rowsum[0]);
    if (q_start + row0 + 8 < seqlen_q)
      *reinterpret_cast<uint32_t *>(O + (int64_t)(row0 + 8) * q_stride + col) =
          pack_bf16(O_rmem[n][2] / rowsum[1], O_rmem[n][3] / rowsum[1]);
  }
}

template <int HEAD_DIM>
void fa2_kvcache(const bf16 *Q, const bf16 *K, const bf16 *V, const int *cache_seqlens, bf16 *O, int batch,
                 int seqlen_q, int max_seqlen, int num_heads, int num_heads_kv) {
  const int smem_size = 3 * 64 * HEAD_DIM * sizeof(bf16);
  auto kernel = fa2_kvcache_kernel<HEAD_DIM>;
  if (smem_size > 48'000)
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_size));
  const float scale_log2 = 1.4426950408889634f / sqrtf((float)HEAD_DIM);
  dim3 grid((seqlen_q + BLOCK_Q - 1) / BLOCK_Q, num_heads, batch);
  kernel<<<grid, TB_SIZE, smem_size>>>(Q, K, V, cache_seqlens, O, seqlen_q, max_seqlen, num_heads,
                                       num_heads_kv, scale_log2);
  CUDA_CHECK(cudaGetLastError());
}

template <int HEAD_DIM>
bool test(int batch, int seqlen_q, const std::vector<int> &seqlens, int num_heads, int num_heads_kv) {
  int max_seqlen = 0;
  for (int s : seqlens) max_seqlen = std::max(max_seqlen, s);
  max_seqlen += 17;  // the cache is longer than what is in use

  std::mt19937 gen(1234);
  std::normal_distribution<float> dist(0.f, 1.f);
  std::vector<bf16> q((size_t)batch * seqlen_q * num_heads * HEAD_DIM), o(q.size());
  std::vector<bf16> k((size_t)batch * max_seqlen * num_heads_kv * HEAD_DIM), v(k.size());
  for (auto &x : q) x = __float2bfloat16(dist(gen));
  for (auto &x : k) x = __float2bfloat16(dist(gen));
  for (auto &x : v) x = __float2bfloat16(dist(gen));

  bf16 *dq, *dk, *dv, *dout;
  int *dlen;
  CUDA_CHECK(cudaMalloc(&dq, q.size() * sizeof(bf16)));
  CUDA_CHECK(cudaMalloc(&dk, k.size() * sizeof(bf16)));
  CUDA_CHECK(cudaMalloc(&dv, v.size() * sizeof(bf16)));
  CUDA_CHECK(cudaMalloc(&dout, o.size() * sizeof(bf16)));
  CUDA_CHECK(cudaMalloc(&dlen, batch * sizeof(int)));
  CUDA_CHECK(cudaMemcpy(dq, q.data(), q.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dk, k.data(), k.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dv, v.data(), v.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dlen, seqlens.data(), batch * sizeof(int), cudaMemcpyHostToDevice));

  fa2_kvcache<HEAD_DIM>(dq, dk, dv, dlen, dout, batch, seqlen_q, max_seqlen, num_heads, num_heads_kv);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(o.data(), dout, o.size() * sizeof(bf16), cudaMemcpyDeviceToHost));

  double worst = 0;
  std::vector<float> p(max_seqlen);
  for (int b = 0; b < batch; b++)
    for (int i = 0; i < seqlen_q; i++)
      for (int h = 0; h < num_heads; h++) {
        const int hk = h / (num_heads / num_heads_kv);
        const int len = seqlens[b] - seqlen_q + i + 1;
        const bf16 *qr = &q[((size_t)(b * seqlen_q + i) * num_heads + h) * HEAD_DIM];
        float mx = -INFINITY, sum = 0;
        for (int j = 0; j < len; j++) {
          const bf16 *kr = &k[((size_t)(b * max_seqlen + j) * num_heads_kv + hk) * HEAD_DIM];
          float s = 0;
          for (int d = 0; d < HEAD_DIM; d++) s += __bfloat162float(qr[d]) * __bfloat162float(kr[d]);
          p[j] = s / std::sqrt((float)HEAD_DIM);
          mx = std::max(mx, p[j]);
        }
        for (int j = 0; j < len; j++) sum += (p[j] = std::exp(p[j] - mx));
        for (int d = 0; d < HEAD_DIM; d++) {
          float acc = 0;
          for (int j = 0; j < len; j++)
            acc += p[j] * __bfloat162float(v[((size_t)(b * max_seqlen + j) * num_heads_kv + hk) * HEAD_DIM + d]);
          const float got = __bfloat162float(o[((size_t)(b * seqlen_q + i) * num_heads + h) * HEAD_DIM + d]);
          worst = std::max(worst, (double)std::fabs(acc / sum - got));
        }
      }
  std::printf("D=%d q=%d heads=%d/%d  max abs err %.5f %s\n", HEAD_DIM, seqlen_q, num_heads, num_heads_kv, worst,
              worst < 2e-2 ? "OK" : "FAILED");
  cudaFree(dq); cudaFree(dk); cudaFree(dv); cudaFree(dout); cudaFree(dlen);
  return worst < 2e-2;
}

int main() {
  bool ok = true;
  ok &= test<64>(2, 1, {1, 300}, 8, 2);          // decode
  ok &= test<64>(2, 100, {100, 187}, 4, 4);      // prefill and chunked prefill
  ok &= test<128>(3, 130, {130, 200, 511}, 4, 1);
  return ok ? 0 : 1;
}
