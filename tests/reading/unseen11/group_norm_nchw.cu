// GroupNorm forward, NCHW, half in / half out, one block per (n, group)
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

namespace {

constexpr int kWarpSize = 32;

__inline__ __device__ float2 warp_sum(float2 v) {
#pragma unroll
  for (int m = kWarpSize / 2; m; m >>= 1) {
    v.x += __shfl_down_sync(0xffffffff, v.x, m);
    v.y += __shfl_down_sync(0xffffffff, v.y, m);
  }
  return v;
}

__inline__ __device__ float2 block_sum(float2 v, float2* scratch) {
  const int lane = threadIdx.x % kWarpSize, wid = threadIdx.x / kWarpSize;
  v = warp_sum(v);
  if (lane == 0) scratch[wid] = v;
  __syncthreads();
  const int warps = (blockDim.x + kWarpSize - 1) / kWarpSize;
  v = lane < warps ? scratch[lane] : make_float2(0.f, 0.f);
  if (wid == 0) {
    v = warp_sum(v);
    if (lane == 0) scratch[0] = v;
  }
  __syncthreads();
  return scratch[0];
}

template <typename T>
__global__ void group_norm_forward_kernel(const T* __restrict__ X, const T* __restrict__ gamma, const T* __restrict__ beta,
                                          T* __restrict__ Y, float* __restrict__ mean, float* __restrict__ rstd, int C,
                                          int HxW, int G, float eps) {
  __shared__ float2 scratch[kWarpSize];
  const int D = C / G;
  const int ng = blockIdx.x;
  const int g = ng % G;
  const int64_t inner = static_cast<int64_t>(D) * HxW;
  const T* x = X + ng * inner;
  T* y = Y + ng * inner;
  float2 s = make_float2(0.f, 0.f);
  for (int64_t i = threadIdx.x; i < inner; i += blockDim.x) {
    const float v = static_cast<float>(x[i]);
    s.x += v;
    s.y += v * v;
  }
  s = block_sum(s, scratch);
  const float mu = s.x / inner;
  const float r = rsqrtf(fmaxf(s.y / inner - mu * mu, 0.f) + eps);
  if (threadIdx.x == 0) {
    mean[ng] = mu;
    rstd[ng] = r;
  }
  for (int64_t i = threadIdx.x; i < inner; i += blockDim.x) {
    const int c = g * D + i / HxW;
    y[i] = static_cast<T>((static_cast<float>(x[i]) - mu) * r * static_cast<float>(gamma[c]) + static_cast<float>(beta[c]));
  }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_forward(const at::Tensor& X, const at::Tensor& gamma, const at::Tensor& beta, int64_t group, double eps) {
  const int64_t N = X.size(0), C = X.size(1), HxW = X.numel() / (N * C);
  TORCH_CHECK(C % group == 0, "channels must be divisible by groups");
  at::Tensor Y = at::empty_like(X);
  at::Tensor mean = at::empty({N, group}, X.options().dtype(at::kFloat));
  at::Tensor rstd = at::empty({N, group}, X.options().dtype(at::kFloat));
  const int num_threads = C / group * HxW < 512 ? kWarpSize : 512;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, X.scalar_type(), "group_norm_forward", [&] {
    group_norm_forward_kernel<scalar_t><<<N * group, num_threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        X.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(), beta.data_ptr<scalar_t>(), Y.data_ptr<scalar_t>(),
        mean.data_ptr<float>(), rstd.data_ptr<float>(), C, HxW, group, static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {Y, mean, rstd};
}
