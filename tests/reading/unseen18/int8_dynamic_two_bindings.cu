// Dynamic int8 quantisation of activations and an int8 linear with an optional bias.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/library.h>

#define WARPS 4

template <typename scalar_t>
__global__ void dynamic_quant_kernel(const scalar_t* __restrict__ x, int8_t* __restrict__ q, float* __restrict__ scales,
                                     int hidden) {
  __shared__ float reduce[32];
  const scalar_t* row = x + (int64_t)blockIdx.x * hidden;
  float amax = 0.f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) amax = fmaxf(amax, fabsf(static_cast<float>(row[i])));
  for (int o = 16; o; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, o));
  if (threadIdx.x % 32 == 0) reduce[threadIdx.x / 32] = amax;
  __syncthreads();
  amax = 0.f;
  for (int i = 0; i < blockDim.x / 32; ++i) amax = fmaxf(amax, reduce[i]);
  const float scale = fmaxf(amax, 1e-8f) / 127.f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    q[(int64_t)blockIdx.x * hidden + i] =
        static_cast<int8_t>(max(-127, min(127, __float2int_rn(static_cast<float>(row[i]) / scale))));
}

template <bool kHasBias>
__global__ void int8_linear_kernel(const int8_t* __restrict__ xq, const float* __restrict__ x_scale,
                                   const int8_t* __restrict__ wq, const float* __restrict__ w_scale,
                                   const half* __restrict__ bias, half* __restrict__ y, int tokens, int out_dim,
                                   int in_dim) {
  using namespace nvcuda;
  __shared__ int tile[WARPS][16 * 16];
  const int warp = threadIdx.y, lane = threadIdx.x;
  const int t0 = blockIdx.x * 16, o0 = (blockIdx.y * WARPS + warp) * 16;
  if (o0 >= out_dim) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);
  for (int k = 0; k < in_dim; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::load_matrix_sync(a, xq + (int64_t)t0 * in_dim + k, in_dim);
    wmma::load_matrix_sync(b, wq + (int64_t)o0 * in_dim + k, in_dim);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(tile[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
#pragma unroll
  for (int i = lane; i < 256; i += 32) {
    const int t = t0 + i / 16, o = o0 + i % 16;
    float v = tile[warp][i] * x_scale[t] * w_scale[o];
    if (kHasBias) v += __half2float(bias[o]);
    y[(int64_t)t * out_dim + o] = __float2half(v);
  }
}

std::tuple<at::Tensor, at::Tensor> dynamic_quant(const at::Tensor& x) {
  auto q = at::empty(x.sizes(), x.options().dtype(at::kChar));
  auto scales = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "dynamic_quant", [&] {
    dynamic_quant_kernel<scalar_t><<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), q.data_ptr<int8_t>(), scales.data_ptr<float>(), x.size(1));
  });
  return {q, scales};
}

at::Tensor int8_linear(const at::Tensor& xq, const at::Tensor& x_scale, const at::Tensor& wq, const at::Tensor& w_scale,
                       const c10::optional<at::Tensor>& bias) {
  const int tokens = xq.size(0), in_dim = xq.size(1), out_dim = wq.size(0);
  TORCH_CHECK(tokens % 16 == 0 && in_dim % 16 == 0 && out_dim % 16 == 0);
  auto y = at::empty({tokens, out_dim}, xq.options().dtype(at::kHalf));
  const dim3 block(32, WARPS), grid(tokens / 16, (out_dim + 16 * WARPS - 1) / (16 * WARPS));
  auto stream = at::cuda::getCurrentCUDAStream();
  const half* b = bias.has_value() ? reinterpret_cast<const half*>(bias->data_ptr<at::Half>()) : nullptr;
  half* out = reinterpret_cast<half*>(y.data_ptr<at::Half>());
  if (b)
    int8_linear_kernel<true><<<grid, block, 0, stream>>>(xq.data_ptr<int8_t>(), x_scale.data_ptr<float>(),
                                                         wq.data_ptr<int8_t>(), w_scale.data_ptr<float>(), b, out, tokens, out_dim, in_dim);
  else
    int8_linear_kernel<false><<<grid, block, 0, stream>>>(xq.data_ptr<int8_t>(), x_scale.data_ptr<float>(),
                                                          wq.data_ptr<int8_t>(), w_scale.data_ptr<float>(), nullptr, out, tokens, out_dim, in_dim);
  return y;
}

TORCH_LIBRARY(int8_ops, m) {
  m.def("dynamic_quant(Tensor x) -> (Tensor, Tensor)");
  m.def("int8_linear(Tensor xq, Tensor x_scale, Tensor wq, Tensor w_scale, Tensor? bias) -> Tensor");
}
TORCH_LIBRARY_IMPL(int8_ops, CUDA, m) {
  m.impl("dynamic_quant", &dynamic_quant);
  m.impl("int8_linear", &int8_linear);
}
