/*
 * 用 WMMA 手写 FlashAttention-2 前向 (教学版)
 *
 *   Q, K, V, O : [B, H, N, 64]  fp16, 行主序
 *   一个 block 处理 64 行 Q, 4 个 warp, 每个 warp 负责 16 行
 *   K/V 每次取 64 行, 在线 softmax (online softmax)
 *   N 不要求是 64 的倍数, 支持 causal mask
 *
 * 编译: nvcc -O3 -std=c++17 -arch=sm_80 flash_attention_wmma.cu -o fa_wmma
 * 运行: ./fa_wmma [B H N]
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace nvcuda;

#define CHECK(call)                                                              \
  {                                                                              \
    const cudaError_t error = call;                                              \
    if (error != cudaSuccess) {                                                  \
      printf("ERROR: %s:%d, ", __FILE__, __LINE__);                              \
      printf("code: %d, reason: %s\n", error, cudaGetErrorString(error));        \
      exit(1);                                                                   \
    }                                                                            \
  }

constexpr int Br = 64;        // Q 分块行数
constexpr int Bc = 64;        // K/V 分块行数
constexpr int D = 64;         // head_dim
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

constexpr int LDH = D + 8;    // half 矩阵的 leading dimension, +8 避免 bank conflict
constexpr int LDF = Bc + 4;   // float 矩阵的 leading dimension

// Q, K, V, P 为 half; S, O 为 float
constexpr int kSmemBytes = 4 * 64 * LDH * sizeof(half) + 2 * 64 * LDF * sizeof(float);

// 把 64 x 64 的一块从 global 搬到 shared, 越界的行补 0
__device__ __forceinline__ void load_tile(half *dst, const half *src, int row0, int N) {
  for (int i = threadIdx.x; i < 64 * (D / 8); i += kThreads) {
    const int r = i / (D / 8);
    const int c = (i % (D / 8)) * 8;
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row0 + r < N) {
      v = *reinterpret_cast<const float4 *>(src + (size_t)(row0 + r) * D + c);
    }
    *reinterpret_cast<float4 *>(dst + r * LDH + c) = v;
  }
}

template <bool kCausal>
__global__ void __launch_bounds__(kThreads)
flash_attn_wmma_kernel(const half *__restrict__ Q, const half *__restrict__ K,
                       const half *__restrict__ V, half *__restrict__ O, int N, float scale) {
  extern __shared__ __align__(128) unsigned char smem_raw[];
  half *sQ = reinterpret_cast<half *>(smem_raw);
  half *sK = sQ + Br * LDH;
  half *sV = sK + Bc * LDH;
  half *sP = sV + Bc * LDH;
  float *sS = reinterpret_cast<float *>(sP + Br * LDH);
  float *sO = sS + Br * LDF;

  const size_t base = (size_t)blockIdx.y * N * D;   // blockIdx.y = b * H + h
  const int q0 = blockIdx.x * Br;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  // softmax 阶段: 两个 lane 负责一行, 每个 lane 32 列
  const int row = warp * 16 + lane / 2;
  const int col0 = (lane % 2) * 32;
  const int q_idx = q0 + row;

  load_tile(sQ, Q + base, q0, N);
  for (int i = threadIdx.x; i < Br * LDF; i += kThreads) sO[i] = 0.f;

  float m_i = -INFINITY;
  float l_i = 0.f;

  int n_tiles = (N + Bc - 1) / Bc;
  if (kCausal) n_tiles = min(n_tiles, (int)blockIdx.x + 1);   // Br == Bc, 对角线之后的块全部被 mask

  for (int t = 0; t < n_tiles; ++t) {
    const int k0 = t * Bc;
    load_tile(sK, K + base, k0, N);
    load_tile(sV, V + base, k0, N);
    __syncthreads();

    // ---------- S = Q * K^T  (每个 warp 16 x 64) ----------
    {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag[Bc / 16];
#pragma unroll
      for (int j = 0; j < Bc / 16; ++j) wmma::fill_fragment(s_frag[j], 0.f);
#pragma unroll
      for (int k = 0; k < D; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
        wmma::load_matrix_sync(q_frag, sQ + warp * 16 * LDH + k, LDH);
#pragma unroll
        for (int j = 0; j < Bc / 16; ++j) {
          // K 按行存储, K^T 就是 col_major
          wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
          wmma::load_matrix_sync(k_frag, sK + j * 16 * LDH + k, LDH);
          wmma::mma_sync(s_frag[j], q_frag, k_frag, s_frag[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < Bc / 16; ++j)
        wmma::store_matrix_sync(sS + warp * 16 * LDF + j * 16, s_frag[j], LDF, wmma::mem_row_major);
    }
    __syncwarp();

    // ---------- online softmax ----------
    float *s_row = sS + row * LDF + col0;
    half *p_row = sP + row * LDH + col0;
    float *o_row = sO + row * LDF + col0;

    float mx = -INFINITY;
    for (int c = 0; c < 32; ++c) {
      const int k_idx = k0 + col0 + c;
      float s = s_row[c] * scale;
      if (k_idx >= N || (kCausal && k_idx > q_idx)) s = -INFINITY;
      s_row[c] = s;
      mx = fmaxf(mx, s);
    }
    mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));

    const float m_new = fmaxf(m_i, mx);
    const float alpha = __expf(m_i - m_new);   // 第一块时 m_i = -inf, alpha = 0

    float sum = 0.f;
    for (int c = 0; c < 32; ++c) {
      const float p = __expf(s_row[c] - m_new);
      p_row[c] = __float2half(p);
      sum += p;
    }
    sum += __shfl_xor_sync(0xffffffff, sum, 1);

    l_i = l_i * alpha + sum;
    m_i = m_new;
    for (int c = 0; c < 32; ++c) o_row[c] *= alpha;   // 旧的 O 乘以修正系数
    __syncwarp();

    // ---------- O += P * V ----------
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
      float *o_tile = sO + warp * 16 * LDF + n * 16;
      wmma::load_matrix_sync(o_frag, o_tile, LDF, wmma::mem_row_major);
#pragma unroll
      for (int k = 0; k < Bc; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
        wmma::load_matrix_sync(p_frag, sP + warp * 16 * LDH + k, LDH);
        wmma::load_matrix_sync(v_frag, sV + k * LDH + n * 16, LDH);
        wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
      }
      wmma::store_matrix_sync(o_tile, o_frag, LDF, wmma::mem_row_major);
    }
    __syncthreads();   // 所有 warp 用完 K/V 之后才能加载下一块
  }

  // ---------- 归一化并写回 ----------
  if (q_idx < N) {
    const float inv = 1.f / l_i;
    const float *o_row = sO + row * LDF + col0;
    half *dst = O + base + (size_t)q_idx * D + col0;
    for (int c = 0; c < 32; c += 2)
      *reinterpret_cast<half2 *>(dst + c) = __floats2half2_rn(o_row[c] * inv, o_row[c + 1] * inv);
  }
}

void flash_attn_wmma(const half *Q, const half *K, const half *V, half *O, int B, int H, int N,
                     bool causal) {
  const float scale = 1.f / sqrtf((float)D);
  dim3 grid((N + Br - 1) / Br, B * H);
  if (causal) {
    CHECK(cudaFuncSetAttribute(flash_attn_wmma_kernel<true>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes));
    flash_attn_wmma_kernel<true><<<grid, kThreads, kSmemBytes>>>(Q, K, V, O, N, scale);
  } else {
    CHECK(cudaFuncSetAttribute(flash_attn_wmma_kernel<false>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kSmemBytes));
    flash_attn_wmma_kernel<false><<<grid, kThreads, kSmemBytes>>>(Q, K, V, O, N, scale);
  }
  CHECK(cudaGetLastError());
}

// CPU 参考实现
void attention_cpu(const std::vector<half> &Q, const std::vector<half> &K, const std::vector<half> &V,
                   std::vector<float> &O, int BH, int N, bool causal) {
  const float scale = 1.f / std::sqrt((float)D);
  std::vector<float> s(N);
  for (int bh = 0; bh < BH; ++bh) {
    const size_t base = (size_t)bh * N * D;
    for (int i = 0; i < N; ++i) {
      const int len = causal ? i + 1 : N;
      float mx = -INFINITY, sum = 0.f;
      for (int j = 0; j < len; ++j) {
        float acc = 0.f;
        for (int k = 0; k < D; ++k)
          acc += __half2float(Q[base + (size_t)i * D + k]) * __half2float(K[base + (size_t)j * D + k]);
        s[j] = acc * scale;
        mx = std::max(mx, s[j]);
      }
      for (int j = 0; j < len; ++j) {
        s[j] = std::exp(s[j] - mx);
        sum += s[j];
      }
      for (int k = 0; k < D; ++k) {
        float acc = 0.f;
        for (int j = 0; j < len; ++j) acc += s[j] * __half2float(V[base + (size_t)j * D + k]);
        O[base + (size_t)i * D + k] = acc / sum;
      }
    }
  }
}

int main(int argc, char **argv) {
  const int B = argc > 1 ? atoi(argv[1]) : 2;
  const int H = argc > 2 ? atoi(argv[2]) : 4;
  const int N = argc > 3 ? atoi(argv[3]) : 300;
  const size_t n = (size_t)B * H * N * D;

  std::mt19937 gen(2024);
  std::normal_distribution<float> dist(0.f, 1.f);
  std::vector<half> hQ(n), hK(n), hV(n), hO(n);
  for (size_t i = 0; i < n; ++i) {
    hQ[i] = __float2half(dist(gen));
    hK[i] = __float2half(dist(gen));
    hV[i] = __float2half(dist(gen));
  }
  std::vector<float> ref(n);

  half *dQ, *dK, *dV, *dO;
  CHECK(cudaMalloc((void **)&dQ, n * sizeof(half)));
  CHECK(cudaMalloc((void **)&dK, n * sizeof(half)));
  CHECK(cudaMalloc((void **)&dV, n * sizeof(half)));
  CHECK(cudaMalloc((void **)&dO, n * sizeof(half)));
  CHECK(cudaMemcpy(dQ, hQ.data(), n * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dK, hK.data(), n * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dV, hV.data(), n * sizeof(half), cudaMemcpyHostToDevice));

  bool all_ok = true;
  for (int causal = 0; causal < 2; ++causal) {
    flash_attn_wmma(dQ, dK, dV, dO, B, H, N, causal != 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(hO.data(), dO, n * sizeof(half), cudaMemcpyDeviceToHost));
    attention_cpu(hQ, hK, hV, ref, B * H, N, causal != 0);
    float max_err = 0.f;
    for (size_t i = 0; i < n; ++i) {
      const float e = std::fabs(__half2float(hO[i]) - ref[i]);
      if (e > max_err || std::isnan(e)) max_err = e;
    }
    const bool ok = max_err < 5e-3f;
    all_ok = all_ok && ok;
    printf("B=%d H=%d N=%d causal=%d  max_err=%f  %s\n", B, H, N, causal, max_err, ok ? "PASS" : "FAIL");
  }

  CHECK(cudaFree(dQ));
  CHECK(cudaFree(dK));
  CHECK(cudaFree(dV));
  CHECK(cudaFree(dO));
  return all_ok ? 0 : 1;
}
