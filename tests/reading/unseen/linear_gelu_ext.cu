// Fused y = gelu(x @ W.T + b) for PyTorch.
//
//   from torch.utils.cpp_extension import load
//   ext = load(name="linear_gelu", sources=["linear_gelu_ext.cu"])
//   y = ext.linear_gelu(x, lin.weight, lin.bias)
//
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace {

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kThreads = 128;
constexpr int kPad = 8;

template <typename T> __device__ __forceinline__ float to_float(T v);
template <> __device__ __forceinline__ float to_float<__half>(__half v) { return __half2float(v); }
template <> __device__ __forceinline__ float to_float<__nv_bfloat16>(__nv_bfloat16 v) {
  return __bfloat162float(v);
}
template <typename T> __device__ __forceinline__ T from_float(float v);
template <> __device__ __forceinline__ __half from_float<__half>(float v) { return __float2half(v); }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16(v);
}

__device__ __forceinline__ float gelu_erf(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
}

template <typename scalar_t>
__global__ void linear_gelu_forward_kernel(const scalar_t* __restrict__ input,   // [M, K]
                                           const scalar_t* __restrict__ weight,  // [N, K]
                                           const scalar_t* __restrict__ bias,    // [N]
                                           scalar_t* __restrict__ output,        // [M, N]
                                           int M, int N, int K) {
  __shared__ __align__(16) scalar_t sX[kTileM][kTileK + kPad];
  __shared__ __align__(16) scalar_t sW[kTileN][kTileK + kPad];
  __shared__ __align__(16) float sOut[kTileM][kTileN + 4];

  const int m0 = blockIdx.x * kTileM;
  const int n0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x >> 5;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) wmma::fill_fragment(acc[j], 0.f);

  for (int k0 = 0; k0 < K; k0 += kTileK) {
    for (int i = threadIdx.x; i < kTileM * kTileK; i += kThreads) {
      const int r = i / kTileK, c = i % kTileK;
      const int gm = m0 + r, gn = n0 + r, gk = k0 + c;
      sX[r][c] = (gm < M && gk < K) ? input[(int64_t)gm * K + gk] : from_float<scalar_t>(0.f);
      sW[r][c] = (gn < N && gk < K) ? weight[(int64_t)gn * K + gk] : from_float<scalar_t>(0.f);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, scalar_t, wmma::row_major> a;
      wmma::load_matrix_sync(a, &sX[warp * 16][kk], kTileK + kPad);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        // weight is [out, in]: the transpose is free with a col_major fragment
        wmma::fragment<wmma::matrix_b, 16, 16, 16, scalar_t, wmma::col_major> b;
        wmma::load_matrix_sync(b, &sW[j * 16][kk], kTileK + kPad);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 4; ++j)
    wmma::store_matrix_sync(&sOut[warp * 16][j * 16], acc[j], kTileN + 4, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
    const int r = i / kTileN, c = i % kTileN;
    const int gm = m0 + r, gn = n0 + c;
    if (gm < M && gn < N) {
      const float v = sOut[r][c] + to_float(bias[gn]);
      output[(int64_t)gm * N + gn] = from_float<scalar_t>(gelu_erf(v));
    }
  }
}

template <typename scalar_t>
void launch(const void* x, const void* w, const void* b, void* y, int M, int N, int K, cudaStream_t stream) {
  const dim3 grid((M + kTileM - 1) / kTileM, (N + kTileN - 1) / kTileN);
  linear_gelu_forward_kernel<scalar_t><<<grid, kThreads, 0, stream>>>(
      static_cast<const scalar_t*>(x), static_cast<const scalar_t*>(w), static_cast<const scalar_t*>(b),
      static_cast<scalar_t*>(y), M, N, K);
}

}  // namespace

torch::Tensor linear_gelu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  CHECK_INPUT(x);
  CHECK_INPUT(weight);
  CHECK_INPUT(bias);
  TORCH_CHECK(x.dim() >= 2, "x must have at least two dimensions");
  TORCH_CHECK(weight.size(1) == x.size(-1), "in_features mismatch");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));

  const int64_t K = x.size(-1);
  const int64_t M = x.numel() / K;
  const int64_t N = weight.size(0);
  auto sizes = x.sizes().vec();
  sizes.back() = N;
  auto y = torch::empty(sizes, x.options());
  auto stream = at::cuda::getCurrentCUDAStream();

  switch (x.scalar_type()) {
    case at::ScalarType::Half:
      launch<__half>(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr(), M, N, K, stream);
      break;
    case at::ScalarType::BFloat16:
      launch<__nv_bfloat16>(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr(), M, N, K, stream);
      break;
    default:
      TORCH_CHECK(false, "linear_gelu: unsupported dtype ", x.scalar_type());
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("linear_gelu", &linear_gelu, "y = gelu(x @ W.T + b) (CUDA)");
}
