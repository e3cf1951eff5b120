#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <vector>

using namespace nvcuda;

template <typename scalar_t> struct wmma_type;
template <> struct wmma_type<at::Half> { using type = half; };
template <> struct wmma_type<at::BFloat16> { using type = __nv_bfloat16; };

template <typename scalar_t>
__global__ void bmm_wmma_kernel(const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> a,
                                const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> b,
                                torch::PackedTensorAccessor32<float, 3, torch::RestrictPtrTraits> c) {
  using T = typename wmma_type<scalar_t>::type;
  const int batch = blockIdx.z;
  const int row = blockIdx.y * 16, col = blockIdx.x * 16;
  const int K = a.size(2), N = b.size(2);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, reinterpret_cast<const T*>(&a[batch][row][k]), K);
    wmma::load_matrix_sync(fb, reinterpret_cast<const T*>(&b[batch][k][col]), N);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(&c[batch][row][col], acc, N, wmma::mem_row_major);
}

torch::Tensor bmm_wmma(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "expected 3-D tensors");
  const auto B = a.size(0), M = a.size(1), K = a.size(2), N = b.size(2);
  auto c = torch::empty({B, M, N}, a.options().dtype(torch::kFloat));
  const dim3 blocks(N / 16, M / 16, B);
  AT_DISPATCH_REDUCED_FLOATING_TYPES(a.scalar_type(), "bmm_wmma", ([&] {
    bmm_wmma_kernel<scalar_t><<<blocks, 32>>>(
        a.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        b.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
        c.packed_accessor32<float, 3, torch::RestrictPtrTraits>());
  }));
  return c;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("bmm", &bmm_wmma, "batched matmul (CUDA)"); }
