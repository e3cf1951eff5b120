// W4A16 linear layer for PyTorch (weight-only int4, group-wise scales and zero points).
//
//   y[m, n] = sum_k x[m, k] * (q[n, k] - z[n, k / group]) * s[n, k / group]  (+ bias[n])
//
//   x       : [..., K]           half
//   qweight : [N, K / 8]         int32, eight 4-bit values per word, lowest nibble = lowest k
//   scales  : [N, K / group]     half
//   qzeros  : [N, K / group / 8] int32, packed the same way
//   bias    : [N]                half, optional
//
// Built with torch.utils.cpp_extension:
//   ext = load("w4a16", sources=["w4a16_linear_ext.cu"], extra_cuda_cflags=["-O3"])
//   y = ext.w4a16_linear(x, qweight, scales, qzeros, bias, 128)
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace w4a16 {

constexpr int kBlockM = 32;
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;
constexpr int kThreads = 128;
constexpr int kPad = 8;
constexpr int kPackFactor = 8;  // int4 values in an int32

// One word -> eight halfs, dequantized.
__device__ __forceinline__ void dequantize_word(uint32_t word, half zero, half scale, half* __restrict__ out) {
#pragma unroll
  for (int i = 0; i < kPackFactor; ++i) {
    half q = __int2half_rn((word >> (4 * i)) & 0xF);
    out[i] = __hmul(__hsub(q, zero), scale);
  }
}

__global__ void __launch_bounds__(kThreads)
w4a16_gemm_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qweight, const half* __restrict__ scales,
                  const uint32_t* __restrict__ qzeros, const half* __restrict__ bias, half* __restrict__ y,
                  int M, int N, int K, int group_size) {
  using namespace nvcuda;
  __shared__ __align__(32) half x_smem[kBlockM][kBlockK + kPad];
  __shared__ __align__(32) half w_smem[kBlockN][kBlockK + kPad];
  __shared__ __align__(32) float y_smem[kBlockM][kBlockN + 4];

  const int block_m = blockIdx.y * kBlockM;
  const int block_n = blockIdx.x * kBlockN;
  const int warp_id = threadIdx.x / 32;
  const int warp_row = (warp_id / 2) * 16;
  const int warp_col = (warp_id % 2) * 32;
  const int num_groups = K / group_size;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[j], 0.0f);

  for (int k0 = 0; k0 < K; k0 += kBlockK) {
    // activations
    for (int i = threadIdx.x; i < kBlockM * kBlockK / 8; i += kThreads) {
      const int r = i / (kBlockK / 8);
      const int c = (i % (kBlockK / 8)) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (block_m + r < M && k0 + c < K) v = *reinterpret_cast<const uint4*>(x + (size_t)(block_m + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(&x_smem[r][c]) = v;
    }
    // weights: unpack into shared memory. A word never straddles two groups.
    for (int i = threadIdx.x; i < kBlockN * kBlockK / kPackFactor; i += kThreads) {
      const int r = i / (kBlockK / kPackFactor);
      const int c = (i % (kBlockK / kPackFactor)) * kPackFactor;
      const int n = block_n + r;
      const int k = k0 + c;
      if (n < N && k < K) {
        const int g = k / group_size;
        const uint32_t word = qweight[(size_t)n * (K / kPackFactor) + k / kPackFactor];
        const uint32_t zword = qzeros[(size_t)n * (num_groups / kPackFactor) + g / kPackFactor];
        const half zero = __int2half_rn((zword >> (4 * (g % kPackFactor))) & 0xF);
        dequantize_word(word, zero, scales[(size_t)n * num_groups + g], &w_smem[r][c]);
      } else {
        for (int e = 0; e < kPackFactor; ++e) w_smem[r][c + e] = __float2half(0.0f);
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &x_smem[warp_row][kk], kBlockK + kPad);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(b, &w_smem[warp_col + j * 16][kk], kBlockK + kPad);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(&y_smem[warp_row][warp_col + j * 16], acc[j], kBlockN + 4, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < kBlockM * kBlockN; i += kThreads) {
    const int m = block_m + i / kBlockN;
    const int n = block_n + i % kBlockN;
    if (m < M && n < N) {
      float out = y_smem[i / kBlockN][i % kBlockN];
      if (bias != nullptr) out += __half2float(bias[n]);
      y[(size_t)m * N + n] = __float2half(out);
    }
  }
}

}  // namespace w4a16

torch::Tensor w4a16_linear(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales, torch::Tensor qzeros,
                           c10::optional<torch::Tensor> bias, int64_t group_size) {
  CHECK_INPUT(x);
  CHECK_INPUT(qweight);
  CHECK_INPUT(scales);
  CHECK_INPUT(qzeros);
  TORCH_CHECK(x.scalar_type() == torch::kFloat16, "x must be half");
  TORCH_CHECK(qweight.scalar_type() == torch::kInt32, "qweight must be int32");

  const int K = x.size(-1);
  const int M = x.numel() / K;
  const int N = qweight.size(0);
  TORCH_CHECK(qweight.size(1) * 8 == K, "qweight has the wrong shape");
  TORCH_CHECK(group_size % 8 == 0 && K % group_size == 0, "group_size must divide K");
  TORCH_CHECK((K / group_size) % 8 == 0, "the number of groups must be a multiple of 8");

  auto out_sizes = x.sizes();
  std::vector<int64_t> y_sizes(out_sizes.begin(), out_sizes.end());
  y_sizes.back() = N;
  auto y = torch::empty(y_sizes, x.options());

  const half* bias_ptr = bias.has_value() ? reinterpret_cast<const half*>(bias->data_ptr<at::Half>()) : nullptr;
  dim3 grid((N + w4a16::kBlockN - 1) / w4a16::kBlockN, (M + w4a16::kBlockM - 1) / w4a16::kBlockM);
  w4a16::w4a16_gemm_kernel<<<grid, w4a16::kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half*>(x.data_ptr<at::Half>()),
      reinterpret_cast<const uint32_t*>(qweight.data_ptr<int32_t>()),
      reinterpret_cast<const half*>(scales.data_ptr<at::Half>()),
      reinterpret_cast<const uint32_t*>(qzeros.data_ptr<int32_t>()), bias_ptr,
      reinterpret_cast<half*>(y.data_ptr<at::Half>()), M, N, K, (int)group_size);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("w4a16_linear", &w4a16_linear, "int4 weight-only linear with group-wise scales (CUDA)", py::arg("x"),
        py::arg("qweight"), py::arg("scales"), py::arg("qzeros"), py::arg("bias"), py::arg("group_size") = 128);
}
