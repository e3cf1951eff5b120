// GroupNorm (+ optional SiLU) for diffusion U-Nets, NCHW, forward and backward.
#include <torch/extension.h>
#include <ATen/AccumulateType.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>

constexpr int kBlock = 512;

// (mean, M2, n) of Chan et al.
template <typename T>
struct Welford {
  T mean;
  T m2;
  T n;
};

template <typename T>
__device__ __forceinline__ Welford<T> combine(const Welford<T>& a, const Welford<T>& b) {
  const T n = a.n + b.n;
  if (n == T(0)) return a;
  const T delta = b.mean - a.mean;
  const T f = b.n / n;
  return {a.mean + delta * f, a.m2 + b.m2 + delta * delta * a.n * f, n};
}

template <typename T>
__device__ __forceinline__ Welford<T> warp_combine(Welford<T> w) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    Welford<T> other;
    other.mean = __shfl_down_sync(0xffffffffu, w.mean, o);
    other.m2 = __shfl_down_sync(0xffffffffu, w.m2, o);
    other.n = __shfl_down_sync(0xffffffffu, w.n, o);
    w = combine(w, other);
  }
  return w;
}

// One block per (n, group). In NCHW the D * HxW values of a group are contiguous.
template <typename scalar_t, typename acc_t, bool kSilu>
__global__ void group_norm_forward_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                                          const scalar_t* __restrict__ beta, scalar_t* __restrict__ y,
                                          acc_t* __restrict__ mean, acc_t* __restrict__ rstd, int C, int G,
                                          int64_t HxW, acc_t eps) {
  const int ng = blockIdx.x;
  const int g = ng % G;
  const int D = C / G;
  const int64_t count = D * HxW;
  const scalar_t* xg = x + ng * count;
  scalar_t* yg = y + ng * count;

  Welford<acc_t> w{0, 0, 0};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const acc_t v = static_cast<acc_t>(xg[i]);
    w.n += 1;
    const acc_t d = v - w.mean;
    w.mean += d / w.n;
    w.m2 += d * (v - w.mean);
  }
  w = warp_combine(w);

  __shared__ Welford<acc_t> partial[kBlock / 32];
  __shared__ acc_t stat[2];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (lane == 0) partial[warp] = w;
  __syncthreads();
  if (warp == 0) {
    w = lane < kBlock / 32 ? partial[lane] : Welford<acc_t>{0, 0, 0};
    w = warp_combine(w);
    if (lane == 0) {
      stat[0] = w.mean;
      stat[1] = acc_t(1) / sqrt(w.m2 / w.n + eps);
      mean[ng] = stat[0];
      rstd[ng] = stat[1];
    }
  }
  __syncthreads();
  const acc_t mu = stat[0];
  const acc_t rs = stat[1];

  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int c = g * D + static_cast<int>(i / HxW);
    acc_t v = (static_cast<acc_t>(xg[i]) - mu) * rs * static_cast<acc_t>(gamma[c]) + static_cast<acc_t>(beta[c]);
    if (kSilu) v = v / (acc_t(1) + exp(-v));
    yg[i] = static_cast<scalar_t>(v);
  }
}

template <typename acc_t>
__device__ acc_t block_sum(acc_t v, acc_t* smem) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) smem[threadIdx.x / 32] = v;
  __syncthreads();
  acc_t s = 0;
  for (int i = 0; i < kBlock / 32; ++i) s += smem[i];
  return s;
}

// dx of one group, and the parts of dgamma / dbeta of this sample in dgb[N][2][C] (summed outside)
template <typename scalar_t, typename acc_t, bool kSilu>
__global__ void group_norm_backward_kernel(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                           const scalar_t* __restrict__ gamma, const scalar_t* __restrict__ beta,
                                           const acc_t* __restrict__ mean, const acc_t* __restrict__ rstd,
                                           scalar_t* __restrict__ dx, acc_t* __restrict__ dgb, int C, int G,
                                           int64_t HxW) {
  __shared__ acc_t smem[kBlock / 32];
  const int ng = blockIdx.x;
  const int n = ng / G;
  const int g = ng % G;
  const int D = C / G;
  const int64_t count = D * HxW;
  const scalar_t* xg = x + ng * count;
  const scalar_t* dyg = dy + ng * count;
  scalar_t* dxg = dx + ng * count;
  const acc_t mu = mean[ng];
  const acc_t rs = rstd[ng];

  // gradient with respect to the value before SiLU
  auto grad = [&](int64_t i, acc_t ga, acc_t be, acc_t xhat) {
    acc_t d = static_cast<acc_t>(dyg[i]);
    if (kSilu) {
      const acc_t v = xhat * ga + be;
      const acc_t s = acc_t(1) / (acc_t(1) + exp(-v));
      d *= s * (acc_t(1) + v * (acc_t(1) - s));
    }
    return d;
  };

  acc_t sum_g = 0, sum_gx = 0;
  for (int ch = 0; ch < D; ++ch) {
    const int c = g * D + ch;
    const acc_t ga = static_cast<acc_t>(gamma[c]);
    const acc_t be = static_cast<acc_t>(beta[c]);
    acc_t db = 0, dg = 0;
    for (int64_t p = threadIdx.x; p < HxW; p += blockDim.x) {
      const int64_t i = ch * HxW + p;
      const acc_t xhat = (static_cast<acc_t>(xg[i]) - mu) * rs;
      const acc_t d = grad(i, ga, be, xhat);
      db += d;
      dg += d * xhat;
    }
    db = block_sum(db, smem);
    dg = block_sum(dg, smem);
    if (threadIdx.x == 0) {
      dgb[(static_cast<int64_t>(n) * 2 + 0) * C + c] = dg;
      dgb[(static_cast<int64_t>(n) * 2 + 1) * C + c] = db;
    }
    sum_g += db * ga;
    sum_gx += dg * ga;
  }
  const acc_t mg = sum_g / static_cast<acc_t>(count);
  const acc_t mgx = sum_gx / static_cast<acc_t>(count);

  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int c = g * D + static_cast<int>(i / HxW);
    const acc_t ga = static_cast<acc_t>(gamma[c]);
    const acc_t xhat = (static_cast<acc_t>(xg[i]) - mu) * rs;
    const acc_t d = grad(i, ga, static_cast<acc_t>(beta[c]), xhat) * ga;
    dxg[i] = static_cast<scalar_t>(rs * (d - mg - xhat * mgx));
  }
}

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

std::vector<torch::Tensor> gn_forward(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, int64_t groups,
                                      double eps, bool silu) {
  CHECK_INPUT(x);
  CHECK_INPUT(gamma);
  CHECK_INPUT(beta);
  const int64_t N = x.size(0), C = x.size(1);
  TORCH_CHECK(C % groups == 0, "channels not divisible by groups");
  const int64_t HxW = x.numel() / (N * C);
  const c10::cuda::CUDAGuard guard(x.device());
  auto y = torch::empty_like(x);
  const auto acc_type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto mean = torch::empty({N, groups}, x.options().dtype(acc_type));
  auto rstd = torch::empty({N, groups}, x.options().dtype(acc_type));
  auto stream = at::cuda::getCurrentCUDAStream();

  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gn_forward", [&] {
    using acc_t = at::acc_type<scalar_t, true>;
    auto kernel = silu ? group_norm_forward_kernel<scalar_t, acc_t, true>
                       : group_norm_forward_kernel<scalar_t, acc_t, false>;
    kernel<<<N * groups, kBlock, 0, stream>>>(x.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(),
                                              beta.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                              mean.data_ptr<acc_t>(), rstd.data_ptr<acc_t>(), C, groups, HxW,
                                              static_cast<acc_t>(eps));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {y, mean, rstd};
}

std::vector<torch::Tensor> gn_backward(torch::Tensor dy, torch::Tensor x, torch::Tensor gamma, torch::Tensor beta,
                                       torch::Tensor mean, torch::Tensor rstd, int64_t groups, bool silu) {
  CHECK_INPUT(dy);
  CHECK_INPUT(x);
  const int64_t N = x.size(0), C = x.size(1);
  const int64_t HxW = x.numel() / (N * C);
  const c10::cuda::CUDAGuard guard(x.device());
  auto dx = torch::empty_like(x);
  auto dgb = torch::empty({N, 2, C}, mean.options());
  auto stream = at::cuda::getCurrentCUDAStream();

  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "gn_backward", [&] {
    using acc_t = at::acc_type<scalar_t, true>;
    auto kernel = silu ? group_norm_backward_kernel<scalar_t, acc_t, true>
                       : group_norm_backward_kernel<scalar_t, acc_t, false>;
    kernel<<<N * groups, kBlock, 0, stream>>>(dy.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(),
                                              gamma.data_ptr<scalar_t>(), beta.data_ptr<scalar_t>(),
                                              mean.data_ptr<acc_t>(), rstd.data_ptr<acc_t>(),
                                              dx.data_ptr<scalar_t>(), dgb.data_ptr<acc_t>(), C, groups, HxW);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  auto sums = dgb.sum(0).to(gamma.scalar_type());
  return {dx, sums[0], sums[1]};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &gn_forward, "GroupNorm(+SiLU) forward (CUDA)");
  m.def("backward", &gn_backward, "GroupNorm(+SiLU) backward (CUDA)");
}
