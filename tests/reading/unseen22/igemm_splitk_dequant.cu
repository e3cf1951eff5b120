// INT8 x INT8 GEMM for small M: K is split over blocks, int32 partial sums, dequantised by the reduction kernel.
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

using namespace nvcuda;

#define CHECK_INPUT(x, type) TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dtype() == type, #x " is not as expected")

// partial[split][m][n] = sum over the slice of a[m][k] * b[n][k]
__global__ void igemm_splitk_kernel(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int32_t* __restrict__ partial,
                                    int m, int n, int k, int k_slice) {
  const int warp_n = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int tile_m = blockIdx.y;
  if (warp_n * 16 >= n) return;
  const int k_begin = blockIdx.z * k_slice;
  const int k_end = min(k_begin + k_slice, k);

  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);
  for (int kk = k_begin; kk < k_end; kk += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> af;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> bf;
    wmma::load_matrix_sync(af, reinterpret_cast<const signed char*>(a) + (size_t)tile_m * 16 * k + kk, k);
    wmma::load_matrix_sync(bf, reinterpret_cast<const signed char*>(b) + (size_t)warp_n * 16 * k + kk, k);
    wmma::mma_sync(acc, af, bf, acc);
  }
  int32_t* dst = partial + (size_t)blockIdx.z * m * n + (size_t)tile_m * 16 * n + warp_n * 16;
  wmma::store_matrix_sync(dst, acc, n, wmma::mem_row_major);
}

// out[m][n] = scale_a[m] * scale_b[n] * sum over splits (+ bias[n])
template <bool HAS_BIAS>
__global__ void reduce_dequant_kernel(const int32_t* __restrict__ partial, const float* __restrict__ scale_a,
                                      const float* __restrict__ scale_b, const half* __restrict__ bias,
                                      half* __restrict__ out, int m, int n, int splits) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y;
  if (col >= n) return;
  int32_t sum = 0;
  for (int s = 0; s < splits; ++s) sum += partial[((size_t)s * m + row) * n + col];
  float v = (float)sum * scale_a[row] * scale_b[col];
  if (HAS_BIAS) v += __half2float(bias[col]);
  out[(size_t)row * n + col] = __float2half_rn(v);
}

at::Tensor int8_linear_splitk(at::Tensor a, at::Tensor b, at::Tensor scale_a, at::Tensor scale_b, c10::optional<at::Tensor> bias,
                              int64_t splits) {
  CHECK_INPUT(a, at::kChar);
  CHECK_INPUT(b, at::kChar);
  CHECK_INPUT(scale_a, at::kFloat);
  CHECK_INPUT(scale_b, at::kFloat);
  const int m = a.size(0), k = a.size(1), n = b.size(0);
  TORCH_CHECK(m % 16 == 0 && n % 16 == 0 && k % 16 == 0, "sizes must be multiples of 16");
  auto partial = at::empty({splits, m, n}, a.options().dtype(at::kInt));
  auto out = at::empty({m, n}, a.options().dtype(at::kHalf));
  const int k_slice = (k / 16 + splits - 1) / splits * 16;
  auto stream = c10::cuda::getCurrentCUDAStream();

  const dim3 grid((n / 16 + 3) / 4, m / 16, splits);
  igemm_splitk_kernel<<<grid, 128, 0, stream>>>(a.data_ptr<int8_t>(), b.data_ptr<int8_t>(), partial.data_ptr<int32_t>(), m, n, k,
                                                k_slice);
  const dim3 reduce_grid((n + 127) / 128, m);
  half* out_ptr = reinterpret_cast<half*>(out.data_ptr<at::Half>());
  if (bias.has_value()) {
    reduce_dequant_kernel<true><<<reduce_grid, 128, 0, stream>>>(
        partial.data_ptr<int32_t>(), scale_a.data_ptr<float>(), scale_b.data_ptr<float>(),
        reinterpret_cast<const half*>(bias.value().data_ptr<at::Half>()), out_ptr, m, n, (int)splits);
  } else {
    reduce_dequant_kernel<false><<<reduce_grid, 128, 0, stream>>>(partial.data_ptr<int32_t>(), scale_a.data_ptr<float>(),
                                                                  scale_b.data_ptr<float>(), nullptr, out_ptr, m, n, (int)splits);
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("int8_linear_splitk", &int8_linear_splitk); }
