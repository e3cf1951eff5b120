// flash_attn_ext.cu -- tiny flash attention forward with wmma, built with torch.utils.cpp_extension
//
//   from torch.utils.cpp_extension import load
//   fa = load(name="fa", sources=["flash_attn_ext.cu"], extra_cuda_cflags=["-O3", "-arch=sm_80"])
//   o = fa.forward(q, k, v, True)       # q, k, v: (B, H, N, 64) float16 contiguous
//
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>

#define CHECK_INPUT(x)                                                 \
  TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor");               \
  TORCH_CHECK(x.is_contiguous(), #x " must be contiguous");            \
  TORCH_CHECK(x.scalar_type() == torch::kHalf, #x " must be float16")

namespace wmma = nvcuda::wmma;

constexpr int HEAD_DIM = 64;
constexpr int Br = 64;   // query rows per block
constexpr int Bc = 32;   // keys per iteration
constexpr int NUM_WARPS = 4;
constexpr int NUM_THREADS = NUM_WARPS * 32;

using FragA    = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using FragBT   = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>;
using FragB    = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
using FragAcc  = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// copy `rows` x HEAD_DIM halves starting at row `row0`; rows past `n` become zero
__device__ __forceinline__ void load_tile(__half* dst, const __half* src, int row0, int rows, int n) {
  const int vec_per_row = HEAD_DIM / 8;
  for (int i = threadIdx.x; i < rows * vec_per_row; i += NUM_THREADS) {
    const int r = i / vec_per_row;
    const int c = (i % vec_per_row) * 8;
    uint4 val = make_uint4(0, 0, 0, 0);
    if (row0 + r < n) val = *reinterpret_cast<const uint4*>(src + (size_t)(row0 + r) * HEAD_DIM + c);
    *reinterpret_cast<uint4*>(dst + r * HEAD_DIM + c) = val;
  }
}

template <bool kCausal>
__global__ void __launch_bounds__(NUM_THREADS)
flash_fwd_kernel(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                 __half* __restrict__ o, int n, float softmax_scale) {
  __shared__ __align__(32) __half sQ[Br * HEAD_DIM];
  __shared__ __align__(32) __half sK[Bc * HEAD_DIM];
  __shared__ __align__(32) __half sV[Bc * HEAD_DIM];
  __shared__ __align__(32) float  sS[Br * Bc];
  __shared__ __align__(32) __half sP[Br * Bc];
  __shared__ __align__(32) float  sO[Br * HEAD_DIM];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int lane = tid % 32;
  const int q0 = blockIdx.x * Br;
  const size_t head_off = (size_t)blockIdx.y * n * HEAD_DIM;
  q += head_off; k += head_off; v += head_off; o += head_off;

  load_tile(sQ, q, q0, Br, n);
  for (int i = tid; i < Br * HEAD_DIM; i += NUM_THREADS) sO[i] = 0.f;

  // two lanes share one row of the warp's 16-row strip
  const int row = warp * 16 + lane / 2;
  const int sub = lane & 1;
  float m_i = -INFINITY;
  float l_i = 0.f;

  const int kv_end = kCausal ? min(n, q0 + Br) : n;
  for (int j0 = 0; j0 < kv_end; j0 += Bc) {
    __syncthreads();  // everyone is done with the previous K / V
    load_tile(sK, k, j0, Bc, n);
    load_tile(sV, v, j0, Bc, n);
    __syncthreads();

    // S = Q K^T, the warp's 16 x Bc strip
    #pragma unroll
    for (int ct = 0; ct < Bc / 16; ++ct) {
      FragAcc s_acc;
      wmma::fill_fragment(s_acc, 0.f);
      #pragma unroll
      for (int d = 0; d < HEAD_DIM; d += 16) {
        FragA a;
        FragBT b;
        wmma::load_matrix_sync(a, sQ + warp * 16 * HEAD_DIM + d, HEAD_DIM);
        wmma::load_matrix_sync(b, sK + ct * 16 * HEAD_DIM + d, HEAD_DIM);
        wmma::mma_sync(s_acc, a, b, s_acc);
      }
      wmma::store_matrix_sync(sS + warp * 16 * Bc + ct * 16, s_acc, Bc, wmma::mem_row_major);
    }
    __syncwarp();

    // online softmax
    float* s_row = sS + row * Bc;
    float m_new = m_i;
    for (int c = sub; c < Bc; c += 2) {
      const int key = j0 + c;
      const bool masked = key >= n || (kCausal && key > q0 + row);
      const float s = masked ? -INFINITY : s_row[c] * softmax_scale;
      s_row[c] = s;
      m_new = fmaxf(m_new, s);
    }
    m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));

    const float corr = (m_i == -INFINITY) ? 0.f : __expf(m_i - m_new);
    float sum = 0.f;
    for (int c = sub; c < Bc; c += 2) {
      const float p = (m_new == -INFINITY) ? 0.f : __expf(s_row[c] - m_new);
      sum += p;
      sP[row * Bc + c] = __float2half(p);
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    l_i = l_i * corr + sum;
    m_i = m_new;
    for (int c = sub; c < HEAD_DIM; c += 2) sO[row * HEAD_DIM + c] *= corr;
    __syncwarp();

    // O += P V
    #pragma unroll
    for (int dt = 0; dt < HEAD_DIM / 16; ++dt) {
      FragAcc o_acc;
      float* o_ptr = sO + warp * 16 * HEAD_DIM + dt * 16;
      wmma::load_matrix_sync(o_acc, o_ptr, HEAD_DIM, wmma::mem_row_major);
      #pragma unroll
      for (int kk = 0; kk < Bc; kk += 16) {
        FragA a;
        FragB b;
        wmma::load_matrix_sync(a, sP + warp * 16 * Bc + kk, Bc);
        wmma::load_matrix_sync(b, sV + kk * HEAD_DIM + dt * 16, HEAD_DIM);
        wmma::mma_sync(o_acc, a, b, o_acc);
      }
      wmma::store_matrix_sync(o_ptr, o_acc, HEAD_DIM, wmma::mem_row_major);
    }
    __syncwarp();
  }

  if (q0 + row < n) {
    const float inv_l = 1.f / l_i;
    for (int c = sub; c < HEAD_DIM; c += 2)
      o[(size_t)(q0 + row) * HEAD_DIM + c] = __float2half(sO[row * HEAD_DIM + c] * inv_l);
  }
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  CHECK_INPUT(q);
  CHECK_INPUT(k);
  CHECK_INPUT(v);
  TORCH_CHECK(q.dim() == 4 && q.size(3) == HEAD_DIM, "expected (B, H, N, 64)");
  TORCH_CHECK(q.sizes() == k.sizes() && q.sizes() == v.sizes(), "q, k, v must have the same shape");

  const int B = q.size(0), H = q.size(1), N = q.size(2);
  auto o = torch::empty_like(q);
  const float scale = 1.0f / std::sqrt((float)HEAD_DIM);
  dim3 grid((N + Br - 1) / Br, B * H);
  auto stream = at::cuda::getCurrentCUDAStream();

  auto* q_ptr = reinterpret_cast<const __half*>(q.data_ptr<at::Half>());
  auto* k_ptr = reinterpret_cast<const __half*>(k.data_ptr<at::Half>());
  auto* v_ptr = reinterpret_cast<const __half*>(v.data_ptr<at::Half>());
  auto* o_ptr = reinterpret_cast<__half*>(o.data_ptr<at::Half>());
  if (causal)
    flash_fwd_kernel<true><<<grid, NUM_THREADS, 0, stream>>>(q_ptr, k_ptr, v_ptr, o_ptr, N, scale);
  else
    flash_fwd_kernel<false><<<grid, NUM_THREADS, 0, stream>>>(q_ptr, k_ptr, v_ptr, o_ptr, N, scale);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return o;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "flash attention forward (wmma)");
}
