// Memory-efficient cross entropy for the LM head. The [T, V] logits are never written: every block owns
// BT tokens and walks over the vocabulary, keeping a running max / sum like flash attention does.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <torch/extension.h>

#include <tuple>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

#define CHECK_INPUT(x)                                          \
  TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor");        \
  TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

constexpr int BT = 32;        // tokens of a block
constexpr int BV = 64;        // vocabulary entries per step, 16 per warp
constexpr int BK = 32;
constexpr int PAD = 8;
constexpr int NTHREADS = 128;

__global__ void __launch_bounds__(NTHREADS)
linear_xent_fwd_kernel(const bf16* __restrict__ h, const bf16* __restrict__ w, const int64_t* __restrict__ y,
                       float* __restrict__ loss, float* __restrict__ lse, int T, int D, int V,
                       int64_t ignore_index) {
  __shared__ __align__(32) bf16 sh[BT][BK + PAD];
  __shared__ __align__(32) bf16 sw[BV][BK + PAD];
  __shared__ __align__(32) float sl[BT][BV + 4];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int t0 = blockIdx.x * BT;

  // four neighbouring lanes share a token in the softmax part
  const int r = tid >> 2;
  const int q = tid & 3;
  const int t = t0 + r;
  const int64_t label = t < T ? y[t] : ignore_index;

  float m_i = -INFINITY;
  float s_i = 0.f;
  float x_y = 0.f;

  for (int v0 = 0; v0 < V; v0 += BV) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BT / 16];
#pragma unroll
    for (int i = 0; i < BT / 16; ++i) wmma::fill_fragment(acc[i], 0.f);

    for (int k0 = 0; k0 < D; k0 += BK) {
      const uint4 zero = make_uint4(0, 0, 0, 0);
      // 8 bf16 = 16 bytes per access
      {
        const int row = tid / (BK / 8), col = tid % (BK / 8) * 8;
        const bool ok = t0 + row < T && k0 + col < D;
        *reinterpret_cast<uint4*>(&sh[row][col]) =
            ok ? *reinterpret_cast<const uint4*>(h + (int64_t)(t0 + row) * D + k0 + col) : zero;
      }
#pragma unroll
      for (int i = tid; i < BV * BK / 8; i += NTHREADS) {
        const int row = i / (BK / 8), col = i % (BK / 8) * 8;
        const bool ok = v0 + row < V && k0 + col < D;
        *reinterpret_cast<uint4*>(&sw[row][col]) =
            ok ? *reinterpret_cast<const uint4*>(w + (int64_t)(v0 + row) * D + k0 + col) : zero;
      }
      __syncthreads();
#pragma unroll
      for (int kk = 0; kk < BK; kk += 16) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
        wmma::load_matrix_sync(fb, &sw[warp * 16][kk], BK + PAD);
#pragma unroll
        for (int i = 0; i < BT / 16; ++i) {
          wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
          wmma::load_matrix_sync(fa, &sh[i * 16][kk], BK + PAD);
          wmma::mma_sync(acc[i], fa, fb, acc[i]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < BT / 16; ++i)
      wmma::store_matrix_sync(&sl[i * 16][warp * 16], acc[i], BV + 4, wmma::mem_row_major);
    __syncthreads();

    float m_new = m_i;
    for (int c = q; c < BV; c += 4)
      if (v0 + c < V) m_new = fmaxf(m_new, sl[r][c]);
    m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));
    m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 2));

    s_i *= __expf(m_i - m_new);
    for (int c = q; c < BV; c += 4) {
      if (v0 + c >= V) break;
      const float x = sl[r][c];
      s_i += __expf(x - m_new);
      if (v0 + c == label) x_y = x;
    }
    m_i = m_new;
    __syncthreads();
  }

  // lanes hold partial sums, and only one of them has seen the label
  s_i += __shfl_xor_sync(0xffffffffu, s_i, 1);
  s_i += __shfl_xor_sync(0xffffffffu, s_i, 2);
  x_y += __shfl_xor_sync(0xffffffffu, x_y, 1);
  x_y += __shfl_xor_sync(0xffffffffu, x_y, 2);
  if (q == 0 && t < T) {
    const float z = m_i + logf(s_i);
    lse[t] = z;
    loss[t] = label == ignore_index ? 0.f : z - x_y;
  }
}

std::tuple<torch::Tensor, torch::Tensor> linear_cross_entropy_forward(torch::Tensor hidden, torch::Tensor weight,
                                                                      torch::Tensor labels, int64_t ignore_index) {
  CHECK_INPUT(hidden);
  CHECK_INPUT(weight);
  CHECK_INPUT(labels);
  TORCH_CHECK(hidden.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16, "bf16 only");
  TORCH_CHECK(labels.scalar_type() == at::kLong, "labels must be int64");
  TORCH_CHECK(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1), "shape mismatch");
  const int T = hidden.size(0), D = hidden.size(1), V = weight.size(0);
  TORCH_CHECK(labels.numel() == T, "one label per token");
  TORCH_CHECK(D % 8 == 0, "hidden size must be a multiple of 8");

  const at::cuda::OptionalCUDAGuard guard(device_of(hidden));
  auto opts = hidden.options().dtype(at::kFloat);
  auto loss = torch::empty({T}, opts);
  auto lse = torch::empty({T}, opts);
  if (T == 0) return {loss, lse};
  linear_xent_fwd_kernel<<<(T + BT - 1) / BT, NTHREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const bf16*>(hidden.data_ptr<at::BFloat16>()),
      reinterpret_cast<const bf16*>(weight.data_ptr<at::BFloat16>()), labels.data_ptr<int64_t>(),
      loss.data_ptr<float>(), lse.data_ptr<float>(), T, D, V, ignore_index);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {loss, lse};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("linear_cross_entropy_forward", &linear_cross_entropy_forward, "fused LM head + cross entropy (CUDA)",
        py::arg("hidden"), py::arg("weight"), py::arg("labels"), py::arg("ignore_index") = -100);
}
