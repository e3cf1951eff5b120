#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

#include <cmath>

using namespace nvcuda;

#define HEADDIM_SWITCH(HEADDIM, ...)                          \
  [&] {                                                       \
    if ((HEADDIM) <= 32) {                                    \
      constexpr static int kHeadDim = 32;                     \
      return __VA_ARGS__();                                   \
    } else if ((HEADDIM) <= 64) {                             \
      constexpr static int kHeadDim = 64;                     \
      return __VA_ARGS__();                                   \
    } else {                                                  \
      constexpr static int kHeadDim = 128;                    \
      return __VA_ARGS__();                                   \
    }                                                         \
  }()

#define BOOL_SWITCH(COND, CONST_NAME, ...)          \
  [&] {                                             \
    if (COND) {                                     \
      constexpr static bool CONST_NAME = true;      \
      return __VA_ARGS__();                         \
    } else {                                        \
      constexpr static bool CONST_NAME = false;     \
      return __VA_ARGS__();                         \
    }                                               \
  }()

struct Flash_fwd_params {
  using index_t = int64_t;
  const void* q_ptr;
  const void* k_ptr;
  const void* v_ptr;
  void* o_ptr;
  float* softmax_lse_ptr;
  index_t q_batch_stride, q_row_stride, q_head_stride;
  index_t k_batch_stride, k_row_stride, k_head_stride;
  index_t v_batch_stride, v_row_stride, v_head_stride;
  index_t o_batch_stride, o_row_stride, o_head_stride;
  int b, h, h_k, seqlen_q, seqlen_k, d;
  float scale_softmax, scale_softmax_log2;
  bool is_causal;
};

template <int kHeadDim_, int kBlockM_, int kBlockN_, int kNWarps_>
struct Flash_fwd_kernel_traits {
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kBlockM = kBlockM_;
  static constexpr int kBlockN = kBlockN_;
  static constexpr int kNWarps = kNWarps_;
  static constexpr int kNThreads = kNWarps * 32;
  static constexpr int kLdQ = kHeadDim + 8;
  static constexpr int kLdS = kBlockN + 4;
  static constexpr int kLdP = kBlockN + 8;
  static constexpr int kLdO = kHeadDim + 4;
  static constexpr int kSmemSize = (kBlockM + 2 * kBlockN) * kLdQ * 2 + kBlockM * kLdS * 4 + kBlockM * kLdP * 2 +
                                   kBlockM * kLdO * 4;
};

template <typename Kernel_traits, bool Is_causal>
__global__ void __launch_bounds__(Kernel_traits::kNThreads) flash_fwd_kernel(const Flash_fwd_params params) {
  constexpr int kBlockM = Kernel_traits::kBlockM, kBlockN = Kernel_traits::kBlockN, kHeadDim = Kernel_traits::kHeadDim;
  constexpr int kLdQ = Kernel_traits::kLdQ, kLdS = Kernel_traits::kLdS, kLdP = Kernel_traits::kLdP, kLdO = Kernel_traits::kLdO;
  extern __shared__ __align__(32) char smem_[];
  half* sQ = reinterpret_cast<half*>(smem_);
  half* sK = sQ + kBlockM * kLdQ;
  half* sV = sK + kBlockN * kLdQ;
  half* sP = sV + kBlockN * kLdQ;
  float* sS = reinterpret_cast<float*>(sP + kBlockM * kLdP);
  float* sO = sS + kBlockM * kLdS;

  const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
  const int bidh_k = bidh / (params.h / params.h_k);
  const int tidx = threadIdx.x, warp = tidx / 32, lane = tidx % 32;

  const half* gQ = reinterpret_cast<const half*>(params.q_ptr) + bidb * params.q_batch_stride + bidh * params.q_head_stride;
  const half* gK = reinterpret_cast<const half*>(params.k_ptr) + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
  const half* gV = reinterpret_cast<const half*>(params.v_ptr) + bidb * params.v_batch_stride + bidh_k * params.v_head_stride;
  half* gO = reinterpret_cast<half*>(params.o_ptr) + bidb * params.o_batch_stride + bidh * params.o_head_stride;

  for (int i = tidx; i < kBlockM * kHeadDim; i += Kernel_traits::kNThreads) {
    const int r = i / kHeadDim, c = i % kHeadDim, row = m_block * kBlockM + r;
    sQ[r * kLdQ + c] = (row < params.seqlen_q && c < params.d) ? gQ[row * params.q_row_stride + c] : half(0.f);
    sO[r * kLdO + c] = 0.f;
  }

  // every warp owns 16 query rows; two lanes per row in the softmax
  const int my_row = warp * 16 + lane / 2, my_half = lane % 2;
  float row_max = -INFINITY, row_sum = 0.f;

  int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
  if (Is_causal) {
    const int last = (m_block + 1) * kBlockM + params.seqlen_k - params.seqlen_q;
    n_block_max = min(n_block_max, (last + kBlockN - 1) / kBlockN);
  }

  for (int n_block = 0; n_block < n_block_max; ++n_block) {
    __syncthreads();
    for (int i = tidx; i < kBlockN * kHeadDim; i += Kernel_traits::kNThreads) {
      const int r = i / kHeadDim, c = i % kHeadDim, row = n_block * kBlockN + r;
      const bool ok = row < params.seqlen_k && c < params.d;
      sK[r * kLdQ + c] = ok ? gK[row * params.k_row_stride + c] : half(0.f);
      sV[r * kLdQ + c] = ok ? gV[row * params.v_row_stride + c] : half(0.f);
    }
    __syncthreads();

#pragma unroll
    for (int j = 0; j < kBlockN / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
#pragma unroll
      for (int k = 0; k < kHeadDim; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(a, sQ + warp * 16 * kLdQ + k, kLdQ);
        wmma::load_matrix_sync(b, sK + j * 16 * kLdQ + k, kLdQ);
        wmma::mma_sync(s, a, b, s);
      }
      wmma::store_matrix_sync(sS + warp * 16 * kLdS + j * 16, s, kLdS, wmma::mem_row_major);
    }
    __syncwarp();

    float m_new = row_max;
    for (int c = my_half; c < kBlockN; c += 2) {
      const int col = n_block * kBlockN + c;
      const int row = m_block * kBlockM + my_row;
      const bool masked = col >= params.seqlen_k || (Is_causal && col > row + params.seqlen_k - params.seqlen_q);
      if (masked) sS[my_row * kLdS + c] = -INFINITY;
      m_new = fmaxf(m_new, sS[my_row * kLdS + c]);
    }
    m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
    const float m_safe = m_new == -INFINITY ? 0.f : m_new;
    const float correction = exp2f((row_max - m_safe) * params.scale_softmax_log2);
    float partial = 0.f;
    for (int c = my_half; c < kBlockN; c += 2) {
      const float p = exp2f((sS[my_row * kLdS + c] - m_safe) * params.scale_softmax_log2);
      partial += p;
      sP[my_row * kLdP + c] = __float2half(p);
    }
    partial += __shfl_xor_sync(0xffffffff, partial, 1);
    row_sum = row_sum * correction + partial;
    row_max = m_new;
    for (int c = my_half; c < kHeadDim; c += 2) sO[my_row * kLdO + c] *= correction;
    __syncwarp();

#pragma unroll
    for (int j = 0; j < kHeadDim / 16; ++j) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(o, sO + warp * 16 * kLdO + j * 16, kLdO, wmma::mem_row_major);
#pragma unroll
      for (int k = 0; k < kBlockN; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, sP + warp * 16 * kLdP + k, kLdP);
        wmma::load_matrix_sync(b, sV + k * kLdQ + j * 16, kLdQ);
        wmma::mma_sync(o, a, b, o);
      }
      wmma::store_matrix_sync(sO + warp * 16 * kLdO + j * 16, o, kLdO, wmma::mem_row_major);
    }
    __syncwarp();
  }

  const int row = m_block * kBlockM + my_row;
  if (row < params.seqlen_q) {
    const float inv = row_sum == 0.f ? 1.f : 1.f / row_sum;
    for (int c = my_half; c < params.d; c += 2) gO[row * params.o_row_stride + c] = __float2half(sO[my_row * kLdO + c] * inv);
    if (my_half == 0)
      params.softmax_lse_ptr[(bidb * params.h + bidh) * params.seqlen_q + row] =
          row_sum == 0.f ? INFINITY : row_max * params.scale_softmax + logf(row_sum);
  }
}

template <int kHeadDim>
void run_flash_fwd(Flash_fwd_params& params, cudaStream_t stream) {
  using Traits = Flash_fwd_kernel_traits<kHeadDim, 64, kHeadDim <= 64 ? 64 : 32, 4>;
  dim3 grid((params.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM, params.b, params.h);
  BOOL_SWITCH(params.is_causal, Is_causal, [&] {
    auto kernel = &flash_fwd_kernel<Traits, Is_causal>;
    if (Traits::kSmemSize >= 48 * 1024)
      C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSmemSize));
    kernel<<<grid, Traits::kNThreads, Traits::kSmemSize, stream>>>(params);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

std::vector<at::Tensor> mha_fwd(const at::Tensor& q,  // batch_size x seqlen_q x num_heads x head_size
                                const at::Tensor& k,  // batch_size x seqlen_k x num_heads_k x head_size
                                const at::Tensor& v,  // batch_size x seqlen_k x num_heads_k x head_size
                                const float softmax_scale, bool is_causal) {
  TORCH_CHECK(q.dtype() == torch::kFloat16, "only fp16");
  TORCH_CHECK(q.stride(-1) == 1 && k.stride(-1) == 1 && v.stride(-1) == 1);
  const auto sizes = q.sizes();
  const int batch_size = sizes[0];
  const int seqlen_q = sizes[1];
  const int num_heads = sizes[2];
  const int head_size = sizes[3];
  const int seqlen_k = k.size(1);
  const int num_heads_k = k.size(2);
  TORCH_CHECK(head_size % 8 == 0 && head_size <= 128);
  TORCH_CHECK(num_heads % num_heads_k == 0);
  at::cuda::CUDAGuard device_guard{q.device()};

  at::Tensor out = torch::empty_like(q);
  auto softmax_lse = torch::empty({batch_size, num_heads, seqlen_q}, q.options().dtype(at::kFloat));

  Flash_fwd_params params = {};
  params.q_ptr = q.data_ptr();
  params.k_ptr = k.data_ptr();
  params.v_ptr = v.data_ptr();
  params.o_ptr = out.data_ptr();
  params.softmax_lse_ptr = softmax_lse.data_ptr<float>();
  params.q_batch_stride = q.stride(0), params.q_row_stride = q.stride(-3), params.q_head_stride = q.stride(-2);
  params.k_batch_stride = k.stride(0), params.k_row_stride = k.stride(-3), params.k_head_stride = k.stride(-2);
  params.v_batch_stride = v.stride(0), params.v_row_stride = v.stride(-3), params.v_head_stride = v.stride(-2);
  params.o_batch_stride = out.stride(0), params.o_row_stride = out.stride(-3), params.o_head_stride = out.stride(-2);
  params.b = batch_size, params.h = num_heads, params.h_k = num_heads_k;
  params.seqlen_q = seqlen_q, params.seqlen_k = seqlen_k, params.d = head_size;
  params.scale_softmax = softmax_scale;
  params.scale_softmax_log2 = softmax_scale * M_LOG2E;
  params.is_causal = is_causal;

  auto stream = at::cuda::getCurrentCUDAStream().stream();
  HEADDIM_SWITCH(head_size, [&] { run_flash_fwd<kHeadDim>(params, stream); });
  return {out, softmax_lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "Flash attention, from scratch";
  m.def("fwd", &mha_fwd, "Forward pass");
}
