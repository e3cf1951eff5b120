// Fused LayerNorm forward / backward.
// x: [rows, cols] (all leading dimensions folded), gamma/beta: [cols]
// Statistics are always computed and kept in fp32, whatever the input type.

#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda.h>
#include <cuda_runtime.h>

#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

constexpr int kBlock = 256;
constexpr int kColTile = 32;   // columns per block in the parameter gradient kernel
constexpr int kRowLanes = 8;   // rows handled in parallel by that kernel

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}

// Sum of v over the block, the result is returned to every thread.
// May be called several times in a row with the same buffer.
__device__ float block_sum(float v, float* buf) {
  const int lane = threadIdx.x & 31;
  const int wid = threadIdx.x >> 5;
  v = warp_sum(v);
  __syncthreads();  // protect buf from the previous call
  if (lane == 0) buf[wid] = v;
  __syncthreads();
  v = lane < (blockDim.x >> 5) ? buf[lane] : 0.f;
  return warp_sum(v);
}

template <typename scalar_t>
__global__ void layernorm_forward_kernel(const scalar_t* __restrict__ x,
                                         const scalar_t* __restrict__ gamma,
                                         const scalar_t* __restrict__ beta,
                                         scalar_t* __restrict__ y, float* __restrict__ mean,
                                         float* __restrict__ rstd, int cols, float eps) {
  __shared__ float buf[32];
  const int64_t row = blockIdx.x;
  const scalar_t* xr = x + row * cols;
  scalar_t* yr = y + row * cols;

  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += static_cast<float>(xr[i]);
  const float mu = block_sum(sum, buf) / cols;

  // second pass instead of E[x^2] - E[x]^2: no cancellation
  float sq = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float d = static_cast<float>(xr[i]) - mu;
    sq += d * d;
  }
  const float rs = rsqrtf(block_sum(sq, buf) / cols + eps);

  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float n = (static_cast<float>(xr[i]) - mu) * rs;
    yr[i] = static_cast<scalar_t>(n * static_cast<float>(gamma[i]) + static_cast<float>(beta[i]));
  }
  if (threadIdx.x == 0) {
    mean[row] = mu;
    rstd[row] = rs;
  }
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),   g = dy * gamma
template <typename scalar_t>
__global__ void layernorm_backward_input_kernel(const scalar_t* __restrict__ dy,
                                                const scalar_t* __restrict__ x,
                                                const scalar_t* __restrict__ gamma,
                                                const float* __restrict__ mean,
                                                const float* __restrict__ rstd,
                                                scalar_t* __restrict__ dx, int cols) {
  __shared__ float buf[32];
  const int64_t row = blockIdx.x;
  const scalar_t* dyr = dy + row * cols;
  const scalar_t* xr = x + row * cols;
  scalar_t* dxr = dx + row * cols;
  const float mu = mean[row];
  const float rs = rstd[row];

  float s1 = 0.f;
  float s2 = 0.f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float g = static_cast<float>(dyr[i]) * static_cast<float>(gamma[i]);
    const float xhat = (static_cast<float>(xr[i]) - mu) * rs;
    s1 += g;
    s2 += g * xhat;
  }
  s1 = block_sum(s1, buf) / cols;
  s2 = block_sum(s2, buf) / cols;

  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float g = static_cast<float>(dyr[i]) * static_cast<float>(gamma[i]);
    const float xhat = (static_cast<float>(xr[i]) - mu) * rs;
    dxr[i] = static_cast<scalar_t>(rs * (g - s1 - xhat * s2));
  }
}

// dgamma = sum_rows dy * xhat, dbeta = sum_rows dy
// block (32, 8): threadIdx.x is the column, threadIdx.y strides over the rows
template <typename scalar_t>
__global__ void layernorm_backward_params_kernel(const scalar_t* __restrict__ dy,
                                                 const scalar_t* __restrict__ x,
                                                 const float* __restrict__ mean,
                                                 const float* __restrict__ rstd,
                                                 scalar_t* __restrict__ dgamma,
                                                 scalar_t* __restrict__ dbeta, int rows,
                                                 int cols) {
  __shared__ float s_gamma[kRowLanes][kColTile];
  __shared__ float s_beta[kRowLanes][kColTile];
  const int col = blockIdx.x * kColTile + threadIdx.x;

  float dg = 0.f;
  float db = 0.f;
  if (col < cols) {
    for (int r = threadIdx.y; r < rows; r += kRowLanes) {
      const int64_t idx = static_cast<int64_t>(r) * cols + col;
      const float d = static_cast<float>(dy[idx]);
      dg += d * (static_cast<float>(x[idx]) - mean[r]) * rstd[r];
      db += d;
    }
  }
  s_gamma[threadIdx.y][threadIdx.x] = dg;
  s_beta[threadIdx.y][threadIdx.x] = db;
  __syncthreads();

  if (threadIdx.y == 0 && col < cols) {
#pragma unroll
    for (int i = 1; i < kRowLanes; ++i) {
      dg += s_gamma[i][threadIdx.x];
      db += s_beta[i][threadIdx.x];
    }
    dgamma[col] = static_cast<scalar_t>(dg);
    dbeta[col] = static_cast<scalar_t>(db);
  }
}

std::vector<torch::Tensor> layernorm_forward(torch::Tensor x, torch::Tensor gamma,
                                             torch::Tensor beta, double eps) {
  CHECK_INPUT(x);
  CHECK_INPUT(gamma);
  CHECK_INPUT(beta);
  TORCH_CHECK(x.scalar_type() != torch::kDouble, "double is not supported");
  TORCH_CHECK(gamma.scalar_type() == x.scalar_type() && beta.scalar_type() == x.scalar_type(),
              "x, gamma and beta must have the same dtype");
  const int64_t cols = x.size(-1);
  TORCH_CHECK(cols > 0, "empty last dimension");
  TORCH_CHECK(gamma.numel() == cols && beta.numel() == cols, "gamma/beta have the wrong size");
  const int64_t rows = x.numel() / cols;

  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty_like(x);
  auto stats = x.options().dtype(torch::kFloat);
  auto mean = torch::empty({rows}, stats);
  auto rstd = torch::empty({rows}, stats);
  if (rows == 0) return {y, mean, rstd};

  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "layernorm_forward", [&] {
        layernorm_forward_kernel<scalar_t>
            <<<rows, kBlock, 0, at::cuda::getCurrentCUDAStream()>>>(
                x.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(), beta.data_ptr<scalar_t>(),
                y.data_ptr<scalar_t>(), mean.data_ptr<float>(), rstd.data_ptr<float>(),
                static_cast<int>(cols), static_cast<float>(eps));
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, mean, rstd};
}

std::vector<torch::Tensor> layernorm_backward(torch::Tensor dy, torch::Tensor x,
                                              torch::Tensor gamma, torch::Tensor mean,
                                              torch::Tensor rstd) {
  CHECK_INPUT(dy);
  CHECK_INPUT(x);
  CHECK_INPUT(gamma);
  CHECK_INPUT(mean);
  CHECK_INPUT(rstd);
  TORCH_CHECK(dy.sizes() == x.sizes(), "dy and x differ in shape");
  TORCH_CHECK(dy.scalar_type() == x.scalar_type(), "dy and x differ in dtype");
  const int64_t cols = x.size(-1);
  TORCH_CHECK(cols > 0, "empty last dimension");
  const int64_t rows = x.numel() / cols;

  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto stream = at::cuda::getCurrentCUDAStream();
  auto dx = torch::empty_like(x);
  auto dgamma = torch::zeros_like(gamma);
  auto dbeta = torch::zeros_like(gamma);
  if (rows == 0) return {dx, dgamma, dbeta};

  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, x.scalar_type(), "layernorm_backward", [&] {
        layernorm_backward_input_kernel<scalar_t><<<rows, kBlock, 0, stream>>>(
            dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(),
            mean.data_ptr<float>(), rstd.data_ptr<float>(), dx.data_ptr<scalar_t>(),
            static_cast<int>(cols));

        const dim3 block(kColTile, kRowLanes);
        const dim3 grid((cols + kColTile - 1) / kColTile);
        layernorm_backward_params_kernel<scalar_t><<<grid, block, 0, stream>>>(
            dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), mean.data_ptr<float>(),
            rstd.data_ptr<float>(), dgamma.data_ptr<scalar_t>(), dbeta.data_ptr<scalar_t>(),
            static_cast<int>(rows), static_cast<int>(cols));
      });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {dx, dgamma, dbeta};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &layernorm_forward, "LayerNorm forward (CUDA)");
  m.def("backward", &layernorm_backward, "LayerNorm backward (CUDA)");
}
