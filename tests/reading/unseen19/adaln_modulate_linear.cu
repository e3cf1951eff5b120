// adaLN-Zero of DiT blocks, fused with the linear layer behind it (qkv or the first one of the MLP):
//   LayerNorm(x, elementwise_affine=False) -> modulate(shift, scale) -> Linear [-> GELU(tanh)]
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <vector>

namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

constexpr int kM = 32;
constexpr int kN = 64;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}

__device__ __forceinline__ float gelu_tanh(float v) {
  const float u = 0.7978845608f * (v + 0.044715f * v * v * v);
  return 0.5f * v * (1.f + tanhf(u));
}

template <bool Gelu>
__global__ void __launch_bounds__(kThreads)
adaln_linear_kernel(const at::Half* __restrict__ x_, const at::Half* __restrict__ shift_,
                    const at::Half* __restrict__ scale_, const at::Half* __restrict__ w_,
                    const at::Half* __restrict__ b_, at::Half* __restrict__ out_, int rows, int seqlen, int dim,
                    int cond_stride, int odim, float eps) {
  extern __shared__ __align__(32) unsigned char raw[];
  const half* x = reinterpret_cast<const half*>(x_);
  const half* shift = reinterpret_cast<const half*>(shift_);
  const half* scale = reinterpret_cast<const half*>(scale_);
  const half* w = reinterpret_cast<const half*>(w_);
  const half* b = reinterpret_cast<const half*>(b_);
  half* out = reinterpret_cast<half*>(out_);

  const int ld = dim + 16;
  half* xn = reinterpret_cast<half*>(raw);                                   // kM x ld
  float* buf = reinterpret_cast<float*>(raw + sizeof(half) * kM * ld);       // kM x (kN + 8)
  constexpr int ldb = kN + 8;

  const int m0 = blockIdx.x * kM;
  const int n0 = blockIdx.y * kN;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;

  // normalise and modulate, a row per warp at a time
  for (int r = warp; r < kM; r += kWarps) {
    const int m = m0 + r;
    half* dst = xn + r * ld;
    if (m >= rows) {
      for (int d = lane; d < dim; d += 32) dst[d] = __float2half(0.f);
      continue;
    }
    const half* src = x + (int64_t)m * dim;
    float s = 0.f;
    for (int d = lane; d < dim; d += 32) s += __half2float(src[d]);
    const float mean = warp_sum(s) / dim;
    float v = 0.f;
    for (int d = lane; d < dim; d += 32) {
      const float t = __half2float(src[d]) - mean;
      v += t * t;
    }
    const float rstd = rsqrtf(warp_sum(v) / dim + eps);
    const int64_t c = (int64_t)(m / seqlen) * cond_stride;  // one shift and scale per image
    for (int d = lane; d < dim; d += 32) {
      const float t = (__half2float(src[d]) - mean) * rstd;
      dst[d] = __float2half(t * (1.f + __half2float(scale[c + d])) + __half2float(shift[c + d]));
    }
  }
  __syncthreads();

  // 8 warps: 2 x 4 tiles of 16 x 16
  const int wm = (warp & 1) * 16, wn = (warp >> 1) * 16;
  fragment<accumulator, 16, 16, 16, float> acc;
  nvcuda::wmma::fill_fragment(acc, 0.f);
  if (n0 + wn < odim) {
    const half* wp = w + (int64_t)(n0 + wn) * dim;
    for (int k = 0; k < dim; k += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> fa;
      fragment<matrix_b, 16, 16, 16, half, col_major> fb;
      nvcuda::wmma::load_matrix_sync(fa, xn + wm * ld + k, ld);
      nvcuda::wmma::load_matrix_sync(fb, wp + k, dim);
      nvcuda::wmma::mma_sync(acc, fa, fb, acc);
    }
  }
  nvcuda::wmma::store_matrix_sync(buf + wm * ldb + wn, acc, ldb, nvcuda::wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
    const int r = i / kN, n = n0 + i % kN;
    if (m0 + r >= rows || n >= odim) continue;
    float v = buf[r * ldb + i % kN];
    if (b) v += __half2float(b[n]);
    if (Gelu) v = gelu_tanh(v);
    out[(int64_t)(m0 + r) * odim + n] = __float2half(v);
  }
}

}  // namespace

// x: [B, S, D]; shift, scale: [B, D], may be chunks of one [B, 6 * D] tensor; weight: [O, D]; bias: [O] or None
torch::Tensor adaln_linear(torch::Tensor x, torch::Tensor shift, torch::Tensor scale, torch::Tensor weight,
                           c10::optional<torch::Tensor> bias, double eps, bool gelu) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dim() == 3, "x: contiguous [B, S, D]");
  TORCH_CHECK(x.dtype() == torch::kFloat16 && weight.dtype() == torch::kFloat16, "fp16 only");
  TORCH_CHECK(shift.stride(1) == 1 && scale.stride(1) == 1 && shift.stride(0) == scale.stride(0),
              "shift and scale must come from the same chunk()");
  const int B = x.size(0), S = x.size(1), D = x.size(2), O = weight.size(0);
  TORCH_CHECK(weight.is_contiguous() && weight.size(1) == D && D % 16 == 0 && O % 16 == 0, "bad weight shape");
  TORCH_CHECK(shift.size(0) == B && shift.size(1) == D && scale.size(0) == B && scale.size(1) == D);

  auto out = torch::empty({B, S, O}, x.options());
  const int rows = B * S;
  const size_t smem = sizeof(half) * kM * (D + 16) + sizeof(float) * kM * (kN + 8);
  const dim3 grid((rows + kM - 1) / kM, (O + kN - 1) / kN);
  auto stream = at::cuda::getCurrentCUDAStream().stream();
  auto kernel = gelu ? adaln_linear_kernel<true> : adaln_linear_kernel<false>;
  if (smem > 48 * 1024)
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
  kernel<<<grid, kThreads, smem, stream>>>(
      x.data_ptr<at::Half>(), shift.data_ptr<at::Half>(), scale.data_ptr<at::Half>(), weight.data_ptr<at::Half>(),
      bias.has_value() ? bias->data_ptr<at::Half>() : nullptr, out.data_ptr<at::Half>(), rows, S, D,
      (int)shift.stride(0), O, (float)eps);
  C10_CUDA_CHECK(cudaGetLastError());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("adaln_linear", &adaln_linear, "LayerNorm + modulate + Linear (+ GELU)", pybind11::arg("x"),
        pybind11::arg("shift"), pybind11::arg("scale"), pybind11::arg("weight"), pybind11::arg("bias") = py::none(),
        pybind11::arg("eps") = 1e-6, pybind11::arg("gelu") = false);
}
