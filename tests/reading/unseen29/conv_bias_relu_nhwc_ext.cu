#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

// y = relu(conv2d(x, w) + b)     fp16, channels_last, implicit GEMM
//
//   GEMM M = N * P * Q       GEMM N = K (out channels)       GEMM K = R * S * C
//
// x: [N, C, H, W] channels_last  -> memory N H W C
// w: [K, C, R, S] channels_last  -> memory K R S C
// y: [N, K, P, Q] channels_last  -> memory N P Q K

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CL(x) TORCH_CHECK(x.is_contiguous(at::MemoryFormat::ChannelsLast), #x " must be channels_last")
#define CHECK_HALF(x) TORCH_CHECK(x.scalar_type() == at::kHalf, #x " must be half")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CL(x); CHECK_HALF(x)

struct ConvParams {
  int N, H, W, C;
  int K, R, S;
  int P, Q;
  int stride, pad, dilation;
};

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int LDS = BK + 8;
constexpr int LDC = BN + 4;

template <bool RELU>
__global__ __launch_bounds__(128) void conv_fprop_kernel(const __half* __restrict__ x, const __half* __restrict__ w,
                                                         const float* __restrict__ bias, __half* __restrict__ y,
                                                         ConvParams p) {
  using namespace nvcuda;
  __shared__ __align__(128) __half sA[BM * LDS];
  __shared__ __align__(128) __half sB[BN * LDS];
  __shared__ __align__(128) float sC[BM * LDC];

  const int gemm_m = p.N * p.P * p.Q;
  const int gemm_k = p.R * p.S * p.C;
  const int m0 = blockIdx.x * BM;
  const int n0 = blockIdx.y * BN;
  const int tid = threadIdx.x;
  const int warp_m = (tid / 64) * 32;
  const int warp_n = (tid / 32 % 2) * 32;

  // every thread fills two rows of each tile, always the same 8 k values of them
  const int ld_row = tid / 4;
  const int ld_k = tid % 4 * 8;
  int base_n[2], base_h[2], base_w[2];
  for (int i = 0; i < 2; ++i) {
    const int m = m0 + ld_row + i * 32;
    const int q = m % p.Q;
    const int pq = m / p.Q;
    base_w[i] = q * p.stride - p.pad;
    base_h[i] = pq % p.P * p.stride - p.pad;
    base_n[i] = m < gemm_m ? pq / p.P : -1;
  }

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  for (int k0 = 0; k0 < gemm_k; k0 += BK) {
    const int k = k0 + ld_k;
    // C % 8 == 0, so the 8 values belong to one filter tap
    const int c = k % p.C;
    const int tap = k / p.C;
    const int r = tap / p.S;
    const int s = tap % p.S;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = ld_row + i * 32;
      uint4 va = make_uint4(0, 0, 0, 0);
      uint4 vb = make_uint4(0, 0, 0, 0);
      const int h = base_h[i] + r * p.dilation;
      const int wi = base_w[i] + s * p.dilation;
      if (k < gemm_k && base_n[i] >= 0 && h >= 0 && h < p.H && wi >= 0 && wi < p.W)
        va = *reinterpret_cast<const uint4*>(x + (((int64_t)base_n[i] * p.H + h) * p.W + wi) * p.C + c);
      if (k < gemm_k && n0 + row < p.K)
        vb = *reinterpret_cast<const uint4*>(w + (int64_t)(n0 + row) * gemm_k + k);
      *reinterpret_cast<uint4*>(sA + row * LDS + ld_k) = va;
      *reinterpret_cast<uint4*>(sB + row * LDS + ld_k) = vb;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], sA + (warp_m + i * 16) * LDS + kk, LDS);
        wmma::load_matrix_sync(b[i], sB + (warp_n + i * 16) * LDS + kk, LDS);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(sC + (warp_m + i * 16) * LDC + warp_n + j * 16, acc[i][j], LDC, wmma::mem_row_major);
  __syncthreads();

  for (int i = tid; i < BM * BN / 2; i += 128) {
    const int row = i / (BN / 2), col = i % (BN / 2) * 2;
    const int m = m0 + row, n = n0 + col;
    if (m >= gemm_m || n >= p.K) continue;  // K is even
    float v0 = sC[row * LDC + col] + bias[n];
    float v1 = sC[row * LDC + col + 1] + bias[n + 1];
    if (RELU) {
      v0 = fmaxf(v0, 0.f);
      v1 = fmaxf(v1, 0.f);
    }
    *reinterpret_cast<__half2*>(y + (int64_t)m * p.K + n) = __floats2half2_rn(v0, v1);
  }
}

at::Tensor conv_bias_relu(at::Tensor x, at::Tensor weight, at::Tensor bias, int64_t stride, int64_t padding,
                          int64_t dilation, bool relu) {
  CHECK_INPUT(x);
  CHECK_INPUT(weight);
  TORCH_CHECK(bias.is_cuda() && bias.is_contiguous() && bias.scalar_type() == at::kFloat, "bias must be float");
  TORCH_CHECK(x.size(1) == weight.size(1), "channels do not match (groups are not supported)");
  TORCH_CHECK(x.size(1) % 8 == 0, "input channels must be a multiple of 8");
  TORCH_CHECK(weight.size(0) % 2 == 0 && bias.numel() == weight.size(0));
  const at::cuda::OptionalCUDAGuard guard(device_of(x));

  ConvParams p;
  p.N = x.size(0);
  p.C = x.size(1);
  p.H = x.size(2);
  p.W = x.size(3);
  p.K = weight.size(0);
  p.R = weight.size(2);
  p.S = weight.size(3);
  p.stride = stride;
  p.pad = padding;
  p.dilation = dilation;
  p.P = (p.H + 2 * p.pad - p.dilation * (p.R - 1) - 1) / p.stride + 1;
  p.Q = (p.W + 2 * p.pad - p.dilation * (p.S - 1) - 1) / p.stride + 1;

  auto y = at::empty({p.N, p.K, p.P, p.Q}, x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const int gemm_m = p.N * p.P * p.Q;
  const dim3 grid((gemm_m + BM - 1) / BM, (p.K + BN - 1) / BN);
  auto stream = at::cuda::getCurrentCUDAStream();
  auto xp = reinterpret_cast<const __half*>(x.data_ptr<at::Half>());
  auto wp = reinterpret_cast<const __half*>(weight.data_ptr<at::Half>());
  auto yp = reinterpret_cast<__half*>(y.data_ptr<at::Half>());
  if (relu)
    conv_fprop_kernel<true><<<grid, 128, 0, stream>>>(xp, wp, bias.data_ptr<float>(), yp, p);
  else
    conv_fprop_kernel<false><<<grid, 128, 0, stream>>>(xp, wp, bias.data_ptr<float>(), yp, p);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("conv_bias_relu", &conv_bias_relu, "conv2d + bias + relu (channels_last fp16)", py::arg("x"),
        py::arg("weight"), py::arg("bias"), py::arg("stride") = 1, py::arg("padding") = 0, py::arg("dilation") = 1,
        py::arg("relu") = true);
}
