// All-pairs cosine similarity of embeddings: sim[i][j] = <x_i, y_j> / (|x_i| |y_j|), TF32 tensor cores.
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>

namespace {

constexpr float kEps = 1e-8f;

__global__ void inv_norm_kernel(const float* __restrict__ x, float* __restrict__ inv_norm, int rows, int dim) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0.f;
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    const float v = x[static_cast<size_t>(row) * dim + i];
    sum = fmaf(v, v, sum);
  }
#pragma unroll
  for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(~0u, sum, mask);
  if (threadIdx.x % 32 == 0) inv_norm[row] = 1.f / fmaxf(sqrtf(sum), kEps);
}

__global__ void cosine_kernel(const float* __restrict__ x, const float* __restrict__ y, const float* __restrict__ inv_x,
                              const float* __restrict__ inv_y, float* __restrict__ sim, int n, int m, int dim) {
  using namespace nvcuda;
  const int i0 = blockIdx.y * 16, j0 = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int k = 0; k < dim; k += 8) {
    wmma::load_matrix_sync(a, x + static_cast<size_t>(i0) * dim + k, dim);
    wmma::load_matrix_sync(b, y + static_cast<size_t>(j0) * dim + k, dim);
    for (auto& v : a.x) v = wmma::__float_to_tf32(v);
    for (auto& v : b.x) v = wmma::__float_to_tf32(v);
    wmma::mma_sync(acc, a, b, acc);
  }
  __shared__ float tile[256];
  wmma::store_matrix_sync(tile, acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int e = threadIdx.x; e < 256; e += 32) {
    const int i = i0 + e / 16, j = j0 + e % 16;
    if (i < n && j < m) sim[static_cast<size_t>(i) * m + j] = tile[e] * inv_x[i] * inv_y[j];
  }
}

}  // namespace

void cosine_similarity(const float* x, const float* y, float* sim, float* workspace, int n, int m, int dim, cudaStream_t stream) {
  if (n % 16 || m % 16 || dim % 8) throw std::invalid_argument("sizes must be padded");
  float* inv_x = workspace;
  float* inv_y = workspace + n;
  inv_norm_kernel<<<(n + 3) / 4, 128, 0, stream>>>(x, inv_x, n, dim);
  inv_norm_kernel<<<(m + 3) / 4, 128, 0, stream>>>(y, inv_y, m, dim);
  cosine_kernel<<<dim3(m / 16, n / 16), 32, 0, stream>>>(x, y, inv_x, inv_y, sim, n, m, dim);
}
