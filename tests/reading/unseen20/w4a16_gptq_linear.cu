#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

// y = x @ dequant(qweight), GPTQ checkpoint layout:
//   x        [M, K]        fp16
//   qweight  [K / 8, N]    int32, 8 consecutive k per word, lowest bits first
//   qzeros   [K / G, N/8]  int32, 8 consecutive n per word, stored minus one
//   scales   [K / G, N]    fp16
//   y        [M, N]        fp16
// w[k][n] = scales[k / G][n] * (q[k][n] - (z[k / G][n] + 1))

namespace gptq {

constexpr int kBlockM = 16;   // decode: few tokens
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;
constexpr int kWarps = 4;
constexpr int kPad = 8;

__device__ __forceinline__ int unpack4(uint32_t word, int i) {
  return (word >> (4 * i)) & 0xF;
}

__global__ void __launch_bounds__(kWarps * 32)
w4a16_gemm_kernel(const half* __restrict__ x,
                  const uint32_t* __restrict__ qweight,
                  const uint32_t* __restrict__ qzeros,
                  const half* __restrict__ scales,
                  half* __restrict__ y,
                  const int size_m, const int size_n, const int size_k, const int group_size) {
  using namespace nvcuda;
  __shared__ __align__(32) half x_sh[kBlockM * (kBlockK + kPad)];
  __shared__ __align__(32) half w_sh[kBlockK * (kBlockN + kPad)];
  __shared__ __align__(32) float y_sh[kBlockM * kBlockN];

  const int tid = threadIdx.x;
  const int warp_id = tid >> 5;
  const int m0 = blockIdx.y * kBlockM;
  const int n0 = blockIdx.x * kBlockN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
  wmma::fill_fragment(c_frag, 0.0f);

  for (int k0 = 0; k0 < size_k; k0 += kBlockK) {
    // activations, 8 halfs at a time
    {
      const int row = tid / (kBlockK / 8);
      const int col = (tid % (kBlockK / 8)) * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (m0 + row < size_m)
        v = *reinterpret_cast<const uint4*>(x + (int64_t)(m0 + row) * size_k + k0 + col);
      *reinterpret_cast<uint4*>(x_sh + row * (kBlockK + kPad) + col) = v;
    }

    // weights: a word holds 8 rows of one column
    for (int i = tid; i < (kBlockK / 8) * kBlockN; i += kWarps * 32) {
      const int word_row = i / kBlockN;
      const int n = i % kBlockN;
      const int k = k0 + word_row * 8;
      const int g = k / group_size;  // group_size is a multiple of 8
      const uint32_t q = qweight[(int64_t)(k / 8) * size_n + n0 + n];
      const uint32_t zq = qzeros[(int64_t)g * (size_n / 8) + (n0 + n) / 8];
      const int zero = unpack4(zq, (n0 + n) % 8) + 1;
      const half scale = scales[(int64_t)g * size_n + n0 + n];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        w_sh[(word_row * 8 + j) * (kBlockN + kPad) + n] =
            __hmul(scale, __int2half_rn(unpack4(q, j) - zero));
      }
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
      wmma::load_matrix_sync(a_frag, x_sh + kk, kBlockK + kPad);
      wmma::load_matrix_sync(b_frag, w_sh + kk * (kBlockN + kPad) + warp_id * 16, kBlockN + kPad);
      wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(y_sh + warp_id * 16, c_frag, kBlockN, wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < kBlockM * kBlockN; i += kWarps * 32) {
    const int row = m0 + i / kBlockN;
    if (row < size_m)
      y[(int64_t)row * size_n + n0 + i % kBlockN] = __float2half_rn(y_sh[i]);
  }
}

}  // namespace gptq

torch::Tensor w4a16_gemm(torch::Tensor x, torch::Tensor qweight, torch::Tensor qzeros, torch::Tensor scales,
                         int64_t group_size) {
  TORCH_CHECK(x.is_cuda() && qweight.is_cuda() && qzeros.is_cuda() && scales.is_cuda());
  TORCH_CHECK(x.scalar_type() == at::kHalf && scales.scalar_type() == at::kHalf);
  TORCH_CHECK(qweight.scalar_type() == at::kInt && qzeros.scalar_type() == at::kInt);
  TORCH_CHECK(x.is_contiguous() && qweight.is_contiguous() && qzeros.is_contiguous() && scales.is_contiguous());

  const int64_t size_k = x.size(-1);
  const int64_t size_m = x.numel() / size_k;
  const int64_t size_n = qweight.size(1);
  TORCH_CHECK(qweight.size(0) * 8 == size_k, "qweight does not match x");
  TORCH_CHECK(size_k % gptq::kBlockK == 0, "in_features must be a multiple of 64");
  TORCH_CHECK(size_n % gptq::kBlockN == 0, "out_features must be a multiple of 64");
  TORCH_CHECK(group_size % 8 == 0 && size_k % group_size == 0, "bad group size");

  const at::cuda::OptionalCUDAGuard device_guard(x.device());
  auto out_shape = x.sizes().vec();
  out_shape.back() = size_n;
  torch::Tensor y = torch::empty(out_shape, x.options());

  const dim3 grid(size_n / gptq::kBlockN, (size_m + gptq::kBlockM - 1) / gptq::kBlockM);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  gptq::w4a16_gemm_kernel<<<grid, gptq::kWarps * 32, 0, stream>>>(
      reinterpret_cast<const half*>(x.data_ptr<at::Half>()),
      reinterpret_cast<const uint32_t*>(qweight.data_ptr<int32_t>()),
      reinterpret_cast<const uint32_t*>(qzeros.data_ptr<int32_t>()),
      reinterpret_cast<const half*>(scales.data_ptr<at::Half>()),
      reinterpret_cast<half*>(y.data_ptr<at::Half>()),
      (int)size_m, (int)size_n, (int)size_k, (int)group_size);
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("w4a16_gemm", &w4a16_gemm, "GPTQ int4 weight-only GEMM", py::arg("x"), py::arg("qweight"),
        py::arg("qzeros"), py::arg("scales"), py::arg("group_size") = 128);
}
