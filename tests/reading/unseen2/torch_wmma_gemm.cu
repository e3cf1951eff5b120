#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <ATen/cuda/CUDAContext.h>
#include <mma.h>
#include <cuda_fp16.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

namespace {
constexpr int kWarpsPerBlock = 4;
constexpr int kTile = 16;

__global__ void matmul_wmma_kernel(const __half* __restrict__ a, const __half* __restrict__ b,
                                   float* __restrict__ out, int64_t m, int64_t n, int64_t k) {
  using namespace nvcuda;
  const int warp = threadIdx.x / warpSize;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t col = (static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + warp) * kTile;
  if (row >= m || col >= n) return;
  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int64_t kk = 0; kk < k; kk += kTile) {
    wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, __half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, a + row * k + kk, k);
    wmma::load_matrix_sync(fb, b + kk * n + col, n);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(out + row * n + col, acc, n, wmma::mem_row_major);
}
}  // namespace

torch::Tensor matmul_forward(torch::Tensor a, torch::Tensor b) {
  CHECK_INPUT(a);
  CHECK_INPUT(b);
  TORCH_CHECK(a.size(1) == b.size(0), "inner dimensions differ");
  const auto m = a.size(0), k = a.size(1), n = b.size(1);
  TORCH_CHECK(m % kTile == 0 && n % (kTile * kWarpsPerBlock) == 0 && k % kTile == 0);
  auto out = torch::empty({m, n}, a.options().dtype(torch::kFloat32));
  const dim3 threads(32 * kWarpsPerBlock);
  const dim3 blocks((n + kTile * kWarpsPerBlock - 1) / (kTile * kWarpsPerBlock), (m + kTile - 1) / kTile);
  matmul_wmma_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(a.data_ptr<at::Half>()),
      reinterpret_cast<const __half*>(b.data_ptr<at::Half>()), out.data_ptr<float>(), m, n, k);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &matmul_forward, "WMMA matmul (CUDA)");
}
