"""Correct kernels for the tests of edits; a test breaks one in one place and asks for the mend."""

FLASH = """\
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
constexpr int BR = 32;
constexpr int BC = 64;
constexpr int HD = 64;
constexpr int KP = HD + 8;
constexpr int SP = BC + 4;
constexpr int WARPS = 4;

__device__ float warp_total(float x) {
  for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

__global__ void flash(const half* Q, const half* K, const half* V, float* O, int n, int heads, float sm_scale) {
  __shared__ __align__(32) half keys[BC][KP];
  __shared__ __align__(32) half values[BC][KP];
  __shared__ __align__(32) float scores[BR][SP];
  __shared__ __align__(32) half probs[BR][BC + 8];
  __shared__ float best[BR];
  __shared__ float total[BR];
  int warp = threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  int row0 = blockIdx.x * BR;
  int head = blockIdx.y;
  int batch = blockIdx.z;
  size_t base = ((size_t)batch * heads + head) * n * HD;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fq;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fk;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  for (int i = threadIdx.x; i < BR; i += blockDim.x) {
    best[i] = -INFINITY;
    total[i] = 0.0f;
  }
  for (int j0 = 0; j0 < n; j0 += BC) {
    for (int i = threadIdx.x; i < BC * HD; i += blockDim.x) {
      int r = i / HD;
      int c = i % HD;
      keys[r][c] = j0 + r < n ? K[base + (j0 + r) * HD + c] : __float2half(0.0f);
      values[r][c] = j0 + r < n ? V[base + (j0 + r) * HD + c] : __float2half(0.0f);
    }
    __syncthreads();
    for (int tile = warp; tile < (BR / 16) * (BC / 16); tile += WARPS) {
      int tr = tile / (BC / 16);
      int tc = tile % (BC / 16);
      wmma::fill_fragment(acc, 0.0f);
      for (int kk = 0; kk < HD; kk += 16) {
        wmma::load_matrix_sync(fq, Q + base + (row0 + tr * 16) * HD + kk, HD);
        wmma::load_matrix_sync(fk, &keys[tc * 16][kk], KP);
        wmma::mma_sync(acc, fq, fk, acc);
      }
      wmma::store_matrix_sync(&scores[tr * 16][tc * 16], acc, SP, wmma::mem_row_major);
    }
    __syncthreads();
    for (int r = warp; r < BR; r += WARPS) {
      float m = best[r];
      float mine = -INFINITY;
      for (int c = lane; c < BC; c += 32) {
        float s = j0 + c < n && j0 + c <= row0 + r ? scores[r][c] * sm_scale : -INFINITY;
        mine = fmaxf(mine, s);
        scores[r][c] = s;
      }
      for (int step = 16; step > 0; step /= 2)
        mine = fmaxf(mine, __shfl_xor_sync(0xffffffff, mine, step));
      float m_new = fmaxf(m, mine);
      float alpha = __expf(m - m_new);
      float sum = 0.0f;
      for (int c = lane; c < BC; c += 32) {
        float p = __expf(scores[r][c] - m_new);
        sum += p;
        probs[r][c] = __float2half(p);
      }
      sum = warp_total(sum);
      total[r] = total[r] * alpha + sum;
      best[r] = m_new;
      for (int c = lane; c < HD; c += 32)
        O[base + (row0 + r) * HD + c] = O[base + (row0 + r) * HD + c] * alpha;
    }
    __syncthreads();
    for (int tile = warp; tile < (BR / 16) * (HD / 16); tile += WARPS) {
      int tr = tile / (HD / 16);
      int tc = tile % (HD / 16);
      float* out = O + base + (row0 + tr * 16) * HD + tc * 16;
      wmma::load_matrix_sync(acc, out, HD, wmma::mem_row_major);
      for (int kk = 0; kk < BC; kk += 16) {
        wmma::load_matrix_sync(fq, &probs[tr * 16][kk], BC + 8);
        wmma::load_matrix_sync(fv, &values[kk][tc * 16], KP);
        wmma::mma_sync(acc, fq, fv, acc);
      }
      wmma::store_matrix_sync(out, acc, HD, wmma::mem_row_major);
    }
    __syncthreads();
  }
  for (int r = warp; r < BR; r += WARPS) {
    if (row0 + r >= n) continue;
    float inv = 1.0f / total[r];
    for (int c = lane; c < HD; c += 32)
      O[base + (row0 + r) * HD + c] *= inv;
  }
}
"""

GEMM = """\
#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
using namespace nvcuda;
#define TM 64
#define TN 64
#define TK 32
#define PAD 8
template <typename L> using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 16, half, L>;
using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;

__device__ __forceinline__ void copy16(void* to, const void* from) {
  unsigned a = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\\n" ::"r"(a), "l"(from));
}

__device__ void fetch(half (*a)[TK + PAD], half (*b)[TN + PAD], const half* A, const half* B, int N, int K,
                      int row, int col, int k0) {
  for (int i = threadIdx.x; i < TM * TK / 8; i += blockDim.x) {
    int r = i / (TK / 8), c = i % (TK / 8) * 8;
    copy16(&a[r][c], A + (row + r) * K + k0 + c);
  }
  for (int i = threadIdx.x; i < TK * TN / 8; i += blockDim.x) {
    int r = i / (TN / 8), c = i % (TN / 8) * 8;
    copy16(&b[r][c], B + (k0 + r) * N + col + c);
  }
}

__global__ void matmul(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(128) half sa[2][TM][TK + PAD];
  __shared__ __align__(128) half sb[2][TK][TN + PAD];
  const int row = blockIdx.y * TM;
  const int col = blockIdx.x * TN;
  const int w = threadIdx.x / 32;
  const int wr = w / 2 * 32;
  const int wc = w % 2 * 32;
  FragC acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::fill_fragment(acc[i][j], 0.0f);
  const int steps = (K + TK - 1) / TK;
  fetch(sa[0], sb[0], A, B, N, K, row, col, 0);
  asm volatile("cp.async.commit_group;\\n");
  for (int s = 0; s < steps; ++s) {
    const int cur = s & 1;
    if (s + 1 < steps) {
      fetch(sa[cur ^ 1], sb[cur ^ 1], A, B, N, K, row, col, (s + 1) * TK);
      asm volatile("cp.async.commit_group;\\n");
      asm volatile("cp.async.wait_group 1;\\n");
    } else {
      asm volatile("cp.async.wait_group 0;\\n");
    }
    __syncthreads();
    for (int kk = 0; kk < TK; kk += 16) {
      FragA fa[2];
      FragB<wmma::row_major> fb[2];
      for (int i = 0; i < 2; ++i)
        wmma::load_matrix_sync(fa[i], &sa[cur][wr + i * 16][kk], TK + PAD);
      for (int j = 0; j < 2; ++j)
        wmma::load_matrix_sync(fb[j], &sb[cur][kk][wc + j * 16], TN + PAD);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
          wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const int r = row + wr + i * 16;
      const int c = col + wc + j * 16;
      if (r < M && c < N) wmma::store_matrix_sync(C + r * N + c, acc[i][j], N, wmma::mem_row_major);
    }
}
"""
