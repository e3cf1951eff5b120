// y = x W^T + b for half and bfloat16, any leading dimensions of x.
#include <ATen/Dispatch.h>
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

template <typename T> struct cuda_type;
template <> struct cuda_type<at::Half> { using type = __half; };
template <> struct cuda_type<at::BFloat16> { using type = __nv_bfloat16; };

template <typename T> __device__ inline float to_float(T v);
template <> __device__ inline float to_float<__half>(__half v) { return __half2float(v); }
template <> __device__ inline float to_float<__nv_bfloat16>(__nv_bfloat16 v) { return __bfloat162float(v); }
template <typename T> __device__ inline T from_float(float v);
template <> __device__ inline __half from_float<__half>(float v) { return __float2half(v); }
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) { return __float2bfloat16(v); }

template <typename T>
__global__ void linear_forward_kernel(const T* __restrict__ input, const T* __restrict__ weight, const T* __restrict__ bias,
                                      T* __restrict__ output, int64_t num_tokens, int64_t in_features,
                                      int64_t out_features) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) T xs[32][40];
  __shared__ __align__(32) T ws[32][40];
  __shared__ __align__(32) float ys[32][36];

  const int warp = threadIdx.y;
  const int tid = threadIdx.y * 32 + threadIdx.x;
  const int64_t token0 = int64_t(blockIdx.x) * 32;
  const int64_t feature0 = int64_t(blockIdx.y) * 32;

  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.f);
  for (int64_t k0 = 0; k0 < in_features; k0 += 32) {
    for (int i = tid; i < 32 * 32; i += 128) {
      const int r = i >> 5, c = i & 31;
      const bool k_ok = k0 + c < in_features;
      xs[r][c] = k_ok && token0 + r < num_tokens ? input[(token0 + r) * in_features + k0 + c] : from_float<T>(0.f);
      ws[r][c] = k_ok && feature0 + r < out_features ? weight[(feature0 + r) * in_features + k0 + c] : from_float<T>(0.f);
    }
    __syncthreads();
    for (int k = 0; k < 32; k += 16) {
      fragment<matrix_a, 16, 16, 16, T, row_major> a;
      fragment<matrix_b, 16, 16, 16, T, col_major> b;
      load_matrix_sync(a, &xs[(warp >> 1) * 16][k], 40);
      load_matrix_sync(b, &ws[(warp & 1) * 16][k], 40);
      mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }
  store_matrix_sync(&ys[(warp >> 1) * 16][(warp & 1) * 16], acc, 36, mem_row_major);
  __syncthreads();
  for (int i = tid; i < 32 * 32; i += 128) {
    const int r = i >> 5, c = i & 31;
    if (token0 + r < num_tokens && feature0 + c < out_features) {
      const float b = bias ? to_float<T>(bias[feature0 + c]) : 0.f;
      output[(token0 + r) * out_features + feature0 + c] = from_float<T>(ys[r][c] + b);
    }
  }
}

at::Tensor linear_forward(const at::Tensor& input, const at::Tensor& weight, const c10::optional<at::Tensor>& bias) {
  const auto x = input.contiguous().view({-1, input.size(-1)});
  auto output = at::empty({x.size(0), weight.size(0)}, x.options());
  const dim3 threads(32, 4);
  const dim3 blocks((x.size(0) + 31) / 32, (weight.size(0) + 31) / 32);
  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "linear_forward", [&] {
    using T = typename cuda_type<scalar_t>::type;
    linear_forward_kernel<T><<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const T*>(x.data_ptr<scalar_t>()), reinterpret_cast<const T*>(weight.data_ptr<scalar_t>()),
        bias.has_value() ? reinterpret_cast<const T*>(bias->data_ptr<scalar_t>()) : nullptr,
        reinterpret_cast<T*>(output.data_ptr<scalar_t>()), x.size(0), x.size(1), weight.size(0));
  });
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("linear_forward", &linear_forward); }
