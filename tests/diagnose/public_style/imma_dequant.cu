// W8A8 linear layer: int8 activations with one scale per token, int8 weights with one scale per output channel.
//   out[t][o] = half( x_scale[t] * w_scale[o] * sum_k x[t][k] * w[o][k] + bias[o] )
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/all.h>

namespace {

constexpr int WARP = 32;

template <int kTileM, int kTileN, int kTileK, bool kHasBias>
__global__ void __launch_bounds__(256, 2)
w8a8_linear_kernel(const int8_t* __restrict__ x, const int8_t* __restrict__ w, const float* __restrict__ x_scale,
                   const float* __restrict__ w_scale, const half* __restrict__ bias, half* __restrict__ out,
                   int num_tokens, int out_features, int in_features) {
  static_assert(kTileM == 64 && kTileN == 128, "eight warps of 32 x 32");
  constexpr int kLds = kTileK + 16;
  constexpr int kAccLds = kTileN + 4;
  constexpr int kOperandBytes = (kTileM + kTileN) * kLds;
  constexpr int kAccBytes = kTileM * kAccLds * sizeof(int);
  __shared__ __align__(128) unsigned char pool[kOperandBytes > kAccBytes ? kOperandBytes : kAccBytes];
  int8_t* sx = reinterpret_cast<int8_t*>(pool);
  int8_t* sw = sx + kTileM * kLds;

  const int token0 = blockIdx.x * kTileM;
  const int feature0 = blockIdx.y * kTileN;
  const int warp = threadIdx.x / WARP;
  const int wrow = warp / 4 * 32;
  const int wcol = warp % 4 * 32;

  using namespace nvcuda;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0);

  for (int k0 = 0; k0 < in_features; k0 += kTileK) {
    constexpr int kVecs = kTileK / 16;
    for (int i = threadIdx.x; i < (kTileM + kTileN) * kVecs; i += blockDim.x) {
      const int row = i / kVecs;
      const int vec = i % kVecs * 16;
      const bool is_x = row < kTileM;
      const int source_row = is_x ? token0 + row : feature0 + row - kTileM;
      const int limit = is_x ? num_tokens : out_features;
      int4 value = {0, 0, 0, 0};
      if (source_row < limit && k0 + vec < in_features)
        value = __ldg(reinterpret_cast<const int4*>((is_x ? x : w) + static_cast<int64_t>(source_row) * in_features + k0 + vec));
      *reinterpret_cast<int4*>(sx + row * kLds + vec) = value;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fx[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fw[2];
      wmma::load_matrix_sync(fx[0], sx + wrow * kLds + kk, kLds);
      wmma::load_matrix_sync(fx[1], sx + (wrow + 16) * kLds + kk, kLds);
      wmma::load_matrix_sync(fw[0], sw + wcol * kLds + kk, kLds);
      wmma::load_matrix_sync(fw[1], sw + (wcol + 16) * kLds + kk, kLds);
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fx[i], fw[j], acc[i][j]);
    }
    __syncthreads();
  }

  // sums of integers through shared memory, where rows and columns are known
  int* sacc = reinterpret_cast<int*>(pool);
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 2; j++)
      wmma::store_matrix_sync(sacc + (wrow + i * 16) * kAccLds + wcol + j * 16, acc[i][j], kAccLds, wmma::mem_row_major);
  __syncthreads();

  const int pairs = kTileN / 2;
  for (int i = threadIdx.x; i < kTileM * pairs; i += blockDim.x) {
    const int row = i / pairs, col = i % pairs * 2;
    const int token = token0 + row, feature = feature0 + col;
    if (token >= num_tokens || feature >= out_features) continue;
    const float xs = x_scale[token];
    float2 v = make_float2(sacc[row * kAccLds + col] * xs * w_scale[feature],
                           sacc[row * kAccLds + col + 1] * xs * w_scale[feature + 1]);
    if constexpr (kHasBias) {
      const float2 b = __half22float2(*reinterpret_cast<const half2*>(bias + feature));
      v.x += b.x;
      v.y += b.y;
    }
    *reinterpret_cast<half2*>(out + static_cast<int64_t>(token) * out_features + feature) = __float22half2_rn(v);
  }
}

}  // namespace

torch::Tensor w8a8_linear(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& x_scale,
                          const torch::Tensor& w_scale, const std::optional<torch::Tensor>& bias) {
  TORCH_CHECK(x.dtype() == torch::kInt8 && w.dtype() == torch::kInt8);
  TORCH_CHECK(x.size(1) == w.size(1), "shapes do not match: ", x.sizes(), " and ", w.sizes());
  TORCH_CHECK(x.size(1) % 16 == 0 && w.size(0) % 2 == 0);
  const int num_tokens = x.size(0), in_features = x.size(1), out_features = w.size(0);
  auto out = torch::empty({num_tokens, out_features}, x.options().dtype(torch::kHalf));
  const dim3 grid((num_tokens + 63) / 64, (out_features + 127) / 128);
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (bias.has_value()) {
    w8a8_linear_kernel<64, 128, 64, true><<<grid, 256, 0, stream>>>(
        x.data_ptr<int8_t>(), w.data_ptr<int8_t>(), x_scale.data_ptr<float>(), w_scale.data_ptr<float>(),
        reinterpret_cast<const half*>(bias->data_ptr<at::Half>()), reinterpret_cast<half*>(out.data_ptr<at::Half>()),
        num_tokens, out_features, in_features);
  } else {
    w8a8_linear_kernel<64, 128, 64, false><<<grid, 256, 0, stream>>>(
        x.data_ptr<int8_t>(), w.data_ptr<int8_t>(), x_scale.data_ptr<float>(), w_scale.data_ptr<float>(), nullptr,
        reinterpret_cast<half*>(out.data_ptr<at::Half>()), num_tokens, out_features, in_features);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

TORCH_LIBRARY_FRAGMENT(w8a8, m) {
  m.def("linear(Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, Tensor? bias) -> Tensor");
  m.impl("linear", torch::kCUDA, &w8a8_linear);
}
