// w4a16_kernel.cu - 4 bit weight, fp16 activation linear layer for PyTorch
//
//   y[M, N] = x[M, K] @ dequant(qweight)[N, K]^T
//
//   qweight : int32 [N, K / 8]   eight 4 bit values along K, lowest nibble first
//   scales  : half  [N, K / G]
//   zeros   : uint8 [N, K / G]   integer zero points 0..15
//   w = (q - zero) * scale
//
// Two paths:
//   * M <= 4    gemv style kernel, one warp per output channel (decode)
//   * otherwise tensor core kernel, weights are dequantised into shared memory (prefill)
//
// Build with torch.utils.cpp_extension.load(name="w4a16", sources=["w4a16_kernel.cu"])

#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

namespace {

constexpr int kGemvMaxM = 4;
constexpr int kGemvWarps = 4;

// ------------------------------------------------------------------ gemv path

template <int M>
__global__ void w4a16_gemv_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qw,
                                  const half* __restrict__ scales,
                                  const uint8_t* __restrict__ zeros, half* __restrict__ y, int N,
                                  int K, int group) {
  const int n = blockIdx.x * kGemvWarps + threadIdx.y;
  if (n >= N) return;
  const int lane = threadIdx.x;
  const int words = K / 8;
  const int groups = K / group;

  float acc[M];
#pragma unroll
  for (int m = 0; m < M; ++m) acc[m] = 0.f;

  for (int w = lane; w < words; w += 32) {
    const uint32_t packed = qw[(size_t)n * words + w];
    const int g = w * 8 / group;
    const float s = __half2float(scales[(size_t)n * groups + g]);
    const float z = static_cast<float>(zeros[(size_t)n * groups + g]);
    float wv[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      wv[i] = (static_cast<float>((packed >> (4 * i)) & 0xF) - z) * s;
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const uint4 xv = *reinterpret_cast<const uint4*>(x + (size_t)m * K + w * 8);
      const half2* xh = reinterpret_cast<const half2*>(&xv);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 f = __half22float2(xh[i]);
        acc[m] += f.x * wv[2 * i] + f.y * wv[2 * i + 1];
      }
    }
  }

#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      acc[m] += __shfl_down_sync(0xffffffffu, acc[m], offset);
    if (lane == 0) y[(size_t)m * N + n] = __float2half(acc[m]);
  }
}

// ------------------------------------------------------------------ gemm path

constexpr int BM = 64, BN = 64, BK = 64;
constexpr int LDS = BK + 8;    // halves
constexpr int LDC = BN + 4;    // floats
constexpr int kThreads = 128;  // 4 warps, 32 x 32 each

__global__ void __launch_bounds__(kThreads)
w4a16_gemm_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qw,
                  const half* __restrict__ scales, const uint8_t* __restrict__ zeros,
                  half* __restrict__ y, int M, int N, int K, int group) {
  // the staging buffer for the output reuses the operand tiles
  constexpr int kOperandBytes = (BM + BN) * LDS * sizeof(half);
  constexpr int kOutBytes = BM * LDC * sizeof(float);
  constexpr int kBytes = kOperandBytes > kOutBytes ? kOperandBytes : kOutBytes;
  __shared__ __align__(128) unsigned char smem[kBytes];
  half* sx = reinterpret_cast<half*>(smem);
  half* sw = sx + BM * LDS;
  float* sc = reinterpret_cast<float*>(smem);

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int wm = (warp / 2) * 32;
  const int wn = (warp % 2) * 32;
  const int m0 = blockIdx.y * BM;
  const int n0 = blockIdx.x * BN;
  const int words = K / 8;
  const int groups = K / group;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  for (int k0 = 0; k0 < K; k0 += BK) {
    // activations, 64 x 64 halves, 16 bytes at a time
    for (int i = tid; i < BM * BK / 8; i += kThreads) {
      const int r = i / (BK / 8);
      const int c = (i % (BK / 8)) * 8;
      uint4 v = make_uint4(0u, 0u, 0u, 0u);
      if (m0 + r < M) v = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(sx + r * LDS + c) = v;
    }
    // weights, 64 x 8 words. group is a multiple of 64, so a k tile has one scale per row
    const int g = k0 / group;
    for (int i = tid; i < BN * BK / 8; i += kThreads) {
      const int r = i / (BK / 8);
      const int c = i % (BK / 8);
      const size_t n = n0 + r;
      const uint32_t packed = qw[n * words + k0 / 8 + c];
      const half s = scales[n * groups + g];
      const int z = zeros[n * groups + g];
      half* dst = sw + r * LDS + c * 8;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int q = (packed >> (4 * e)) & 0xF;
        dst[e] = __hmul(__int2half_rn(q - z), s);
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
      // sw is [n][k], i.e. the k x n operand in column major order
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], sx + (wm + i * 16) * LDS + kk, LDS);
        wmma::load_matrix_sync(b[i], sw + (wn + i * 16) * LDS + kk, LDS);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(sc + (wm + i * 16) * LDC + wn + j * 16, acc[i][j], LDC,
                              wmma::mem_row_major);
  __syncthreads();

  for (int i = tid; i < BM * BN / 2; i += kThreads) {
    const int r = i / (BN / 2);
    const int c = (i % (BN / 2)) * 2;
    if (m0 + r < M) {
      *reinterpret_cast<half2*>(y + (size_t)(m0 + r) * N + n0 + c) =
          __floats2half2_rn(sc[r * LDC + c], sc[r * LDC + c + 1]);
    }
  }
}

template <int M>
void launch_gemv(const half* x, const uint32_t* qw, const half* s, const uint8_t* z, half* y, int N,
                 int K, int group, cudaStream_t stream) {
  dim3 block(32, kGemvWarps);
  dim3 grid((N + kGemvWarps - 1) / kGemvWarps);
  w4a16_gemv_kernel<M><<<grid, block, 0, stream>>>(x, qw, s, z, y, N, K, group);
}

}  // namespace

#define CHECK_INPUT(t)                                        \
  TORCH_CHECK((t).is_cuda(), #t " must be a CUDA tensor");    \
  TORCH_CHECK((t).is_contiguous(), #t " must be contiguous")

torch::Tensor w4a16_linear(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales,
                           torch::Tensor zeros, int64_t group_size) {
  CHECK_INPUT(x);
  CHECK_INPUT(qweight);
  CHECK_INPUT(scales);
  CHECK_INPUT(zeros);
  TORCH_CHECK(x.scalar_type() == torch::kHalf, "x must be half");
  TORCH_CHECK(qweight.scalar_type() == torch::kInt, "qweight must be int32");
  TORCH_CHECK(scales.scalar_type() == torch::kHalf, "scales must be half");
  TORCH_CHECK(zeros.scalar_type() == torch::kByte, "zeros must be uint8");
  TORCH_CHECK(x.dim() == 2 && qweight.dim() == 2, "x and qweight must be 2d");

  const int M = x.size(0);
  const int K = x.size(1);
  const int N = qweight.size(0);
  const int group = static_cast<int>(group_size);
  TORCH_CHECK(group > 0 && group % 64 == 0, "group_size must be a multiple of 64");
  TORCH_CHECK(K % group == 0, "K must be a multiple of group_size");
  TORCH_CHECK(N % 64 == 0, "N must be a multiple of 64");
  TORCH_CHECK(qweight.size(1) * 8 == K, "qweight must be [N, K / 8]");
  TORCH_CHECK(scales.size(0) == N && scales.size(1) == K / group, "scales must be [N, K / G]");
  TORCH_CHECK(zeros.sizes() == scales.sizes(), "zeros must have the shape of scales");

  const at::cuda::OptionalCUDAGuard guard(x.device());
  auto y = torch::empty({M, N}, x.options());
  if (M == 0) return y;

  auto xp = reinterpret_cast<const half*>(x.data_ptr<at::Half>());
  auto qp = reinterpret_cast<const uint32_t*>(qweight.data_ptr<int>());
  auto sp = reinterpret_cast<const half*>(scales.data_ptr<at::Half>());
  auto zp = zeros.data_ptr<uint8_t>();
  auto yp = reinterpret_cast<half*>(y.data_ptr<at::Half>());
  auto stream = at::cuda::getCurrentCUDAStream();

  if (M <= kGemvMaxM) {
    switch (M) {
      case 1: launch_gemv<1>(xp, qp, sp, zp, yp, N, K, group, stream); break;
      case 2: launch_gemv<2>(xp, qp, sp, zp, yp, N, K, group, stream); break;
      case 3: launch_gemv<3>(xp, qp, sp, zp, yp, N, K, group, stream); break;
      default: launch_gemv<4>(xp, qp, sp, zp, yp, N, K, group, stream); break;
    }
  } else {
    dim3 grid(N / BN, (M + BM - 1) / BM);
    w4a16_gemm_kernel<<<grid, kThreads, 0, stream>>>(xp, qp, sp, zp, yp, M, N, K, group);
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("linear", &w4a16_linear, "W4A16 linear (CUDA)", py::arg("x"), py::arg("qweight"),
        py::arg("scales"), py::arg("zeros"), py::arg("group_size") = 128);
}
