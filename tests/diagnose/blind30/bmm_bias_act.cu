// out[b] = act(x[b] @ w[b] + bias[b])      torch.float32, TF32 tensor cores
//
//   x    [B][M][K]    w  [B][K][N]    bias [B][N] (or None)    out [B][M][N]
//
// K and N must be multiples of 4 (float4), M is free. Batch strides come from the tensors, rows are dense.
#ifdef WITH_TORCH
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#endif
#include <cstdint>
#include <cuda_runtime.h>
#include <mma.h>

namespace {

using namespace nvcuda;

enum Activation { ACT_NONE = 0, ACT_RELU = 1, ACT_GELU = 2, ACT_SILU = 3 };

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 16;
constexpr int kThreads = 128;
constexpr int kWarpsN = 2;
constexpr int kWarpM = 32;
constexpr int kWarpN = 32;
constexpr int kLdA = kBlockK + 4;
constexpr int kLdB = kBlockN + 4;
constexpr int kLdPatch = 20;
constexpr int kVecA = kBlockM * kBlockK / 4 / kThreads;   // float4 per thread
constexpr int kVecB = kBlockK * kBlockN / 4 / kThreads;

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

template <int ACT>
__device__ __forceinline__ float activate(float v) {
  if (ACT == ACT_RELU) return fmaxf(v, 0.0f);
  if (ACT == ACT_GELU) {
    const float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    return 0.5f * v * (1.0f + tanhf(inner));
  }
  if (ACT == ACT_SILU) return v / (1.0f + __expf(-v));
  return v;
}

template <class Frag>
__device__ __forceinline__ void to_tf32(Frag &f) {
#pragma unroll
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

__device__ __forceinline__ void fetch_x(float4 (&regs)[kVecA], const float *x, int m0, int k0, int M, int K) {
#pragma unroll
  for (int i = 0; i < kVecA; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    const int r = m0 + idx / (kBlockK / 4);
    const int c = k0 + idx % (kBlockK / 4) * 4;
    regs[i] = (r < M && c < K) ? *reinterpret_cast<const float4 *>(x + (int64_t)r * K + c)
                               : make_float4(0.f, 0.f, 0.f, 0.f);
  }
}

__device__ __forceinline__ void fetch_w(float4 (&regs)[kVecB], const float *w, int k0, int n0, int K, int N) {
#pragma unroll
  for (int i = 0; i < kVecB; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    const int r = k0 + idx / (kBlockN / 4);
    const int c = n0 + idx % (kBlockN / 4) * 4;
    regs[i] = (r < K && c < N) ? *reinterpret_cast<const float4 *>(w + (int64_t)r * N + c)
                               : make_float4(0.f, 0.f, 0.f, 0.f);
  }
}

__device__ __forceinline__ void stash_x(float *dst, const float4 (&regs)[kVecA]) {
#pragma unroll
  for (int i = 0; i < kVecA; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    *reinterpret_cast<float4 *>(dst + idx / (kBlockK / 4) * kLdA + idx % (kBlockK / 4) * 4) = regs[i];
  }
}

__device__ __forceinline__ void stash_w(float *dst, const float4 (&regs)[kVecB]) {
#pragma unroll
  for (int i = 0; i < kVecB; ++i) {
    const int idx = threadIdx.x + i * kThreads;
    *reinterpret_cast<float4 *>(dst + idx / (kBlockN / 4) * kLdB + idx % (kBlockN / 4) * 4) = regs[i];
  }
}

template <int ACT>
__global__ void __launch_bounds__(kThreads)
bmm_bias_act_kernel(const float *__restrict__ x, const float *__restrict__ w, const float *__restrict__ bias,
                    float *__restrict__ out, int M, int N, int K, int64_t stride_x, int64_t stride_w,
                    int64_t stride_bias, int64_t stride_out) {
  __shared__ __align__(32) float s_x[2][kBlockM * kLdA];
  __shared__ __align__(32) float s_w[2][kBlockK * kLdB];
  __shared__ __align__(32) float s_patch[kThreads / 32][16 * kLdPatch];

  const int batch = blockIdx.z;
  x += batch * stride_x;
  w += batch * stride_w;
  out += batch * stride_out;
  if (bias != nullptr) bias += batch * stride_bias;

  const int m0 = blockIdx.x * kBlockM;
  const int n0 = blockIdx.y * kBlockN;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int wm = warp / kWarpsN * kWarpM;
  const int wn = warp % kWarpsN * kWarpN;

  FragC acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

  float4 rx[kVecA], rw[kVecB];
  fetch_x(rx, x, m0, 0, M, K);
  fetch_w(rw, w, 0, n0, K, N);
  stash_x(s_x[0], rx);
  stash_w(s_w[0], rw);
  __syncthreads();

  const int tiles = (K + kBlockK - 1) / kBlockK;
  for (int t = 0; t < tiles; ++t) {
    const int cur = t & 1;
    const bool more = t + 1 < tiles;
    if (more) {  // in flight while this tile is multiplied
      fetch_x(rx, x, m0, (t + 1) * kBlockK, M, K);
      fetch_w(rw, w, (t + 1) * kBlockK, n0, K, N);
    }
#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 8) {
      FragA fa[2];
      FragB fb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(fa[i], s_x[cur] + (wm + i * 16) * kLdA + kk, kLdA);
        to_tf32(fa[i]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::load_matrix_sync(fb[j], s_w[cur] + kk * kLdB + wn + j * 16, kLdB);
        to_tf32(fb[j]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    if (more) {
      stash_x(s_x[cur ^ 1], rx);
      stash_w(s_w[cur ^ 1], rw);
    }
    __syncthreads();
  }

  // epilogue, a 16x16 patch at a time: a lane has half a row of it
  float *patch = s_patch[warp];
  const int pr = lane / 2;
  const int pc = lane % 2 * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(patch, acc[i][j], kLdPatch, wmma::mem_row_major);
      __syncwarp();
      const int m = m0 + wm + i * 16 + pr;
      const int n = n0 + wn + j * 16 + pc;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (m < M && n + e < N) {
          float v = patch[pr * kLdPatch + pc + e];
          if (bias != nullptr) v += bias[n + e];
          out[(int64_t)m * N + n + e] = activate<ACT>(v);
        }
      }
      __syncwarp();
    }
  }
}

}  // namespace

#ifdef WITH_TORCH
torch::Tensor bmm_bias_act(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> bias, int64_t act) {
  TORCH_CHECK(x.is_cuda() && w.is_cuda() && x.dim() == 3 && w.dim() == 3, "x and w must be 3-d CUDA tensors");
  const int B = x.size(0), M = x.size(1), K = x.size(2), N = w.size(2);
  TORCH_CHECK(K % 4 == 0 && N % 4 == 0, "K and N must be multiples of 4");
  auto out = torch::empty({B, M, N}, x.options());
  const dim3 grid((M + kBlockM - 1) / kBlockM, (N + kBlockN - 1) / kBlockN, B);
  const float *b = bias ? bias->data_ptr<float>() : nullptr;
  auto stream = at::cuda::getCurrentCUDAStream();
#define LAUNCH(A) bmm_bias_act_kernel<A><<<grid, kThreads, 0, stream>>>(x.data_ptr<float>(), w.data_ptr<float>(), b, \
      out.data_ptr<float>(), M, N, K, x.stride(0), w.stride(0), N, out.stride(0))
  switch (act) {
    case ACT_RELU: LAUNCH(ACT_RELU); break;
    case ACT_GELU: LAUNCH(ACT_GELU); break;
    case ACT_SILU: LAUNCH(ACT_SILU); break;
    default: LAUNCH(ACT_NONE);
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("bmm_bias_act", &bmm_bias_act); }
#endif
