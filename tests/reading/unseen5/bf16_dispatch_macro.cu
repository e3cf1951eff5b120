// bfloat16 linear layer y = x W^T for several tile shapes; the host picks the shape with a macro.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

#define BOOL_SWITCH(COND, CONST_NAME, ...)      \
  [&] {                                         \
    if (COND) {                                 \
      constexpr static bool CONST_NAME = true;  \
      return __VA_ARGS__();                     \
    } else {                                    \
      constexpr static bool CONST_NAME = false; \
      return __VA_ARGS__();                     \
    }                                           \
  }()

#define TILE_SWITCH(ROWS, TILE_M, ...)   \
  [&] {                                  \
    if ((ROWS) <= 16) {                  \
      constexpr static int TILE_M = 16;  \
      return __VA_ARGS__();              \
    } else if ((ROWS) <= 64) {           \
      constexpr static int TILE_M = 32;  \
      return __VA_ARGS__();              \
    } else {                             \
      constexpr static int TILE_M = 64;  \
      return __VA_ARGS__();              \
    }                                    \
  }()

template <int kTileM, int kTileN, int kTileK, bool kEvenM>
struct Traits {
  static constexpr int kWarpsN = kTileN / 16;
  static constexpr int kThreads = 32 * kWarpsN;
  static constexpr int kLd = kTileK + 8;
  static constexpr int kSmemIn = (kTileM + kTileN) * kLd * sizeof(bf16);
  static constexpr int kSmemOut = kTileM * kTileN * sizeof(float);
  static constexpr int kSmem = kSmemIn > kSmemOut ? kSmemIn : kSmemOut;
};

template <int kTileM, int kTileN, int kTileK, bool kEvenM>
__global__ void __launch_bounds__(Traits<kTileM, kTileN, kTileK, kEvenM>::kThreads)
    linear_bf16_kernel(const bf16* __restrict__ x, const bf16* __restrict__ weight, bf16* __restrict__ y, int rows,
                       int out_features, int in_features) {
  using T = Traits<kTileM, kTileN, kTileK, kEvenM>;
  extern __shared__ __align__(128) char smem[];
  bf16* sx = reinterpret_cast<bf16*>(smem);
  bf16* sw = sx + kTileM * T::kLd;
  float* sy = reinterpret_cast<float*>(smem);

  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x / 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kTileM / 16];
#pragma unroll
  for (auto& a : acc) wmma::fill_fragment(a, 0.f);

  for (int k0 = 0; k0 < in_features; k0 += kTileK) {
    constexpr int kVec = kTileK / 8;
    for (int i = threadIdx.x; i < kTileM * kVec; i += T::kThreads) {
      const int r = i / kVec, c = i % kVec * 8;
      uint4 v{};
      if (kEvenM || m0 + r < rows) v = *reinterpret_cast<const uint4*>(x + int64_t(m0 + r) * in_features + k0 + c);
      *reinterpret_cast<uint4*>(sx + r * T::kLd + c) = v;
    }
    for (int i = threadIdx.x; i < kTileN * kVec; i += T::kThreads) {
      const int r = i / kVec, c = i % kVec * 8;
      *reinterpret_cast<uint4*>(sw + r * T::kLd + c) =
          *reinterpret_cast<const uint4*>(weight + int64_t(n0 + r) * in_features + k0 + c);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTileK; k += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b;
      wmma::load_matrix_sync(b, sw + warp * 16 * T::kLd + k, T::kLd);
#pragma unroll
      for (int i = 0; i < kTileM / 16; ++i) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
        wmma::load_matrix_sync(a, sx + i * 16 * T::kLd + k, T::kLd);
        wmma::mma_sync(acc[i], a, b, acc[i]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kTileM / 16; ++i)
    wmma::store_matrix_sync(sy + i * 16 * kTileN + warp * 16, acc[i], kTileN, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTileM * kTileN; i += T::kThreads) {
    const int r = i / kTileN, c = i % kTileN;
    if (kEvenM || m0 + r < rows) y[int64_t(m0 + r) * out_features + n0 + c] = __float2bfloat16(sy[i]);
  }
}

at::Tensor linear_bf16(const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.scalar_type() == at::kBFloat16 && weight.scalar_type() == at::kBFloat16, "bf16 only");
  const int in_features = x.size(-1);
  const int out_features = weight.size(0);
  const int rows = x.numel() / in_features;
  TORCH_CHECK(in_features % 32 == 0);
  TORCH_CHECK(out_features % 64 == 0);
  auto y = at::empty({rows, out_features}, x.options());
  auto stream = c10::cuda::getCurrentCUDAStream();

  TILE_SWITCH(rows, kTileM, [&] {
    BOOL_SWITCH(rows % kTileM == 0, kEvenM, [&] {
      using T = Traits<kTileM, 64, 32, kEvenM>;
      const dim3 grid((rows + kTileM - 1) / kTileM, out_features / 64);
      auto kernel = linear_bf16_kernel<kTileM, 64, 32, kEvenM>;
      if (T::kSmem >= 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSmem);
      kernel<<<grid, T::kThreads, T::kSmem, stream>>>(
          reinterpret_cast<const bf16*>(x.data_ptr()), reinterpret_cast<const bf16*>(weight.data_ptr()),
          reinterpret_cast<bf16*>(y.data_ptr()), rows, out_features, in_features);
    });
  });
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_bf16", &linear_bf16, "x @ weight.T"); }
