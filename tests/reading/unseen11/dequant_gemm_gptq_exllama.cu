// 4-bit GPTQ matmul (no act-order), half2 dot products, split over K with fp32 accumulation in registers.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

constexpr int THREADS_X = 32;
constexpr int BLOCK_KN = 128;

class MatrixView_half {
 public:
  const half* data;
  const int height;
  const int width;
  __device__ __forceinline__ MatrixView_half(const half* data, const int height, const int width) : data(data), height(height), width(width) {}
  __device__ __forceinline__ half item(int row, int column) const { return data[row * width + column]; }
  __device__ __forceinline__ const half* item_ptr(int row, int column) const { return &data[row * width + column]; }
};

class MatrixView_q4_row {
 public:
  const uint32_t* data;
  const int height;
  const int width;
  __device__ __forceinline__ MatrixView_q4_row(const uint32_t* data, const int height, const int width) : data(data), height(height), width(width) {}
  __device__ __forceinline__ int item(int row, int column) const {
    int shift = (column & 0x07) * 4;
    return (data[row * width / 8 + column / 8] >> shift) & 0x0f;
  }
};

__global__ void gptq_matmul_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qweight, half* __restrict__ out,
                                   const half* __restrict__ scales, const uint32_t* __restrict__ qzeros, const int size_m,
                                   const int size_n, const int size_k, const int groups) {
  MatrixView_half x_(x, size_m, size_k);
  MatrixView_half w_scales(scales, groups, size_n);
  MatrixView_q4_row w_zeros(qzeros, groups, size_n);
  const int group_size = size_k / groups;
  const int m = blockIdx.y;
  const int n = blockIdx.x * THREADS_X + threadIdx.x;

  __shared__ half block_x[BLOCK_KN];
  float acc = 0.0f;
  for (int k0 = 0; k0 < size_k; k0 += BLOCK_KN) {
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_KN; i += THREADS_X) block_x[i] = k0 + i < size_k ? x_.item(m, k0 + i) : __float2half(0.f);
    __syncthreads();
    if (n < size_n) {
      const int k_end = min(k0 + BLOCK_KN, size_k);
      for (int k = k0; k < k_end; k += 8) {
        const int group = k / group_size;
        const float scale = __half2float(w_scales.item(group, n));
        const int zero = w_zeros.item(group, n) + 1;
        const uint32_t word = qweight[(k / 8) * size_n + n];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int q = (word >> (4 * j)) & 0x0f;
          acc += __half2float(block_x[k - k0 + j]) * (scale * (q - zero));
        }
      }
    }
  }
  if (n < size_n) out[m * size_n + n] = __float2half_rn(acc);
}

torch::Tensor gptq_gemm(torch::Tensor x, torch::Tensor qweight, torch::Tensor qzeros, torch::Tensor scales) {
  const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
  TORCH_CHECK(x.dtype() == torch::kHalf && qweight.dtype() == torch::kInt);
  TORCH_CHECK(qweight.size(0) * 8 == x.size(1), "x and qweight have incompatible shapes");
  const int size_m = x.size(0), size_k = x.size(1), size_n = qweight.size(1), groups = qzeros.size(0);
  at::Tensor out = torch::empty({size_m, size_n}, x.options());
  dim3 blockDim(THREADS_X, 1, 1);
  dim3 gridDim((size_n + THREADS_X - 1) / THREADS_X, size_m, 1);
  gptq_matmul_kernel<<<gridDim, blockDim, 0, at::cuda::getCurrentCUDAStream()>>>(
      (const half*)x.data_ptr(), (const uint32_t*)qweight.data_ptr(), (half*)out.data_ptr(), (const half*)scales.data_ptr(),
      (const uint32_t*)qzeros.data_ptr(), size_m, size_n, size_k, groups);
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("gptq_gemm", &gptq_gemm, "GPTQ 4-bit matmul"); }
