// FlashAttention-2 style forward, WMMA API, causal. Q/K/V/O are [batch, seq, heads, dim].
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;

template <int Br, int Bc, int D>
__global__ void flash_fwd(const __half *Q, const __half *K, const __half *V, __half *O,
                          const int N, const int H, const float softmax_scale) {
  constexpr int LDH = D + 8;
  constexpr int LDS = Bc + 4;
  constexpr int LDP = Bc + 8;
  constexpr int LDO = D + 4;
  __shared__ __align__(32) __half Qs[Br * LDH];
  __shared__ __align__(32) __half KVs[Bc * LDH];
  __shared__ __align__(32) float Ss[Br * LDS];
  __shared__ __align__(32) __half Ps[Br * LDP];
  __shared__ __align__(32) float Os[Br * LDO];
  __shared__ float row_m[Br], row_l[Br];

  const int tid = threadIdx.x;
  const int nthr = blockDim.x;
  const int wid = tid >> 5;
  const int head = blockIdx.y;
  const int bat = blockIdx.z;
  const int q_start = blockIdx.x * Br;
  const int tok_stride = H * D;
  const size_t off = (size_t)bat * N * tok_stride + head * D;

  for (int i = tid; i < Br * D; i += nthr) {
    int r = i / D, c = i % D;
    Qs[r * LDH + c] = (q_start + r < N) ? Q[off + (size_t)(q_start + r) * tok_stride + c] : __half(0.f);
    Os[r * LDO + c] = 0.f;
  }
  if (tid < Br) { row_m[tid] = -1e30f; row_l[tid] = 0.f; }

  const int last_key = min(N, q_start + Br);
  const int n_tiles = (last_key + Bc - 1) / Bc;
  for (int j = 0; j < n_tiles; ++j) {
    const int k_start = j * Bc;
    __syncthreads();
    for (int i = tid; i < Bc * D; i += nthr) {
      int r = i / D, c = i % D;
      KVs[r * LDH + c] = (k_start + r < N) ? K[off + (size_t)(k_start + r) * tok_stride + c] : __half(0.f);
    }
    __syncthreads();

    // every warp: 16 rows x Bc columns of S
#pragma unroll
    for (int n = 0; n < Bc / 16; ++n) {
      fragment<accumulator, 16, 16, 16, float> s_acc;
      fill_fragment(s_acc, 0.0f);
#pragma unroll
      for (int kk = 0; kk < D / 16; ++kk) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> a;
        fragment<matrix_b, 16, 16, 16, __half, col_major> b;
        load_matrix_sync(a, Qs + wid * 16 * LDH + kk * 16, LDH);
        load_matrix_sync(b, KVs + n * 16 * LDH + kk * 16, LDH);
        mma_sync(s_acc, a, b, s_acc);
      }
      store_matrix_sync(Ss + wid * 16 * LDS + n * 16, s_acc, LDS, mem_row_major);
    }
    __syncthreads();

    // load V while one thread per row does the softmax
    for (int i = tid; i < Bc * D; i += nthr) {
      int r = i / D, c = i % D;
      KVs[r * LDH + c] = (k_start + r < N) ? V[off + (size_t)(k_start + r) * tok_stride + c] : __half(0.f);
    }
    if (tid < Br) {
      const int qi = q_start + tid;
      float m_old = row_m[tid], m_new = m_old;
      for (int c = 0; c < Bc; ++c) {
        float s = Ss[tid * LDS + c] * softmax_scale;
        if (k_start + c > qi || k_start + c >= N) s = -1e30f;
        Ss[tid * LDS + c] = s;
        m_new = fmaxf(m_new, s);
      }
      float alpha = expf(m_old - m_new);
      float l = row_l[tid] * alpha;
      for (int c = 0; c < Bc; ++c) {
        float s = Ss[tid * LDS + c];
        float p = (s <= -1e29f) ? 0.f : expf(s - m_new);
        l += p;
        Ps[tid * LDP + c] = __float2half(p);
      }
      row_m[tid] = m_new;
      row_l[tid] = l;
      for (int c = 0; c < D; ++c) Os[tid * LDO + c] *= alpha;
    }
    __syncthreads();

#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      fragment<accumulator, 16, 16, 16, float> o_acc;
      load_matrix_sync(o_acc, Os + wid * 16 * LDO + n * 16, LDO, mem_row_major);
#pragma unroll
      for (int kk = 0; kk < Bc / 16; ++kk) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> a;
        fragment<matrix_b, 16, 16, 16, __half, row_major> b;
        load_matrix_sync(a, Ps + wid * 16 * LDP + kk * 16, LDP);
        load_matrix_sync(b, KVs + kk * 16 * LDH + n * 16, LDH);
        mma_sync(o_acc, a, b, o_acc);
      }
      store_matrix_sync(Os + wid * 16 * LDO + n * 16, o_acc, LDO, mem_row_major);
    }
  }
  __syncthreads();
  for (int i = tid; i < Br * D; i += nthr) {
    int r = i / D, c = i % D;
    if (q_start + r < N)
      O[off + (size_t)(q_start + r) * tok_stride + c] = __float2half(Os[r * LDO + c] / row_l[r]);
  }
}

int main(int argc, char **argv) {
  int B = 2, H = 4, N = 200;
  constexpr int D = 64, Br = 32, Bc = 32;
  size_t n = (size_t)B * N * H * D;
  std::vector<__half> h(n);
  for (auto &x : h) x = __float2half((rand() % 1000) / 500.f - 1.f);
  __half *q, *k, *v, *o;
  cudaMalloc(&q, n * 2); cudaMalloc(&k, n * 2); cudaMalloc(&v, n * 2); cudaMalloc(&o, n * 2);
  cudaMemcpy(q, h.data(), n * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(k, h.data(), n * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(v, h.data(), n * 2, cudaMemcpyHostToDevice);
  dim3 grid((N + Br - 1) / Br, H, B);
  flash_fwd<Br, Bc, D><<<grid, 64>>>(q, k, v, o, N, H, 0.125f);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
