// Sample covariance of the columns of a tall matrix, TF32 tensor cores.
//
// >>> import covariance_tf32
// >>> c = covariance_tf32.cov(x)          # same as torch.cov(x.T)
//
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

using namespace nvcuda;

constexpr int TILE = 64;    // features per block side
constexpr int STEP = 32;    // samples per iteration
constexpr int LD = TILE + 4;
constexpr int NTHREADS = 128;

// one block per 32 columns, 8 rows of threads
__global__ void column_mean_kernel(const float* __restrict__ x, float* __restrict__ mean, int n, int d) {
  __shared__ float part[8][32];
  const int col = blockIdx.x * 32 + threadIdx.x;
  float s = 0.f;
  if (col < d)
    for (int r = threadIdx.y; r < n; r += 8) s += x[(size_t)r * d + col];
  part[threadIdx.y][threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.y == 0 && col < d) {
    for (int i = 1; i < 8; ++i) s += part[i][threadIdx.x];
    mean[col] = s / n;
  }
}

__device__ __forceinline__ void load_centered(float (*dst)[LD], const float* __restrict__ x,
                                              const float* __restrict__ mean, int r0, int c0, int n, int d) {
  for (int i = threadIdx.x; i < STEP * TILE; i += NTHREADS) {
    const int r = i / TILE, c = i % TILE;
    float v = 0.f;
    if (r0 + r < n && c0 + c < d) v = x[(size_t)(r0 + r) * d + c0 + c] - mean[c0 + c];
    dst[r][c] = wmma::__float_to_tf32(v);
  }
}

__global__ void __launch_bounds__(NTHREADS)
covariance_kernel(const float* __restrict__ x, const float* __restrict__ mean, float* __restrict__ cov,
                  int n, int d, float inv_norm) {
  // symmetric: only blocks on and below the diagonal do work
  if (blockIdx.x > blockIdx.y) return;

  __shared__ __align__(32) float xi[STEP][LD];
  __shared__ __align__(32) float xj[STEP][LD];
  __shared__ __align__(32) float out[TILE][LD];

  const int i0 = blockIdx.y * TILE;
  const int j0 = blockIdx.x * TILE;
  const int warp = threadIdx.x / 32;
  const int wi = warp / 2 * 32;
  const int wj = warp % 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[2][2];
#pragma unroll
  for (int a = 0; a < 2; ++a)
#pragma unroll
    for (int b = 0; b < 2; ++b) wmma::fill_fragment(acc[a][b], 0.f);

  for (int r0 = 0; r0 < n; r0 += STEP) {
    load_centered(xi, x, mean, r0, i0, n, d);
    load_centered(xj, x, mean, r0, j0, n, d);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < STEP; k += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb[2];
#pragma unroll
      for (int a = 0; a < 2; ++a) {
        wmma::load_matrix_sync(fa[a], &xi[k][wi + a * 16], LD);
        wmma::load_matrix_sync(fb[a], &xj[k][wj + a * 16], LD);
      }
#pragma unroll
      for (int a = 0; a < 2; ++a)
#pragma unroll
        for (int b = 0; b < 2; ++b) wmma::mma_sync(acc[a][b], fa[a], fb[b], acc[a][b]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int a = 0; a < 2; ++a)
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      for (int t = 0; t < acc[a][b].num_elements; ++t) acc[a][b].x[t] *= inv_norm;
      wmma::store_matrix_sync(&out[wi + a * 16][wj + b * 16], acc[a][b], LD, wmma::mem_row_major);
    }
  __syncthreads();

  for (int e = threadIdx.x; e < TILE * TILE; e += NTHREADS) {
    const int r = e / TILE, c = e % TILE;
    if (i0 + r < d && j0 + c < d) cov[(size_t)(i0 + r) * d + j0 + c] = out[r][c];
  }
  if (blockIdx.x != blockIdx.y) {  // mirror
    for (int e = threadIdx.x; e < TILE * TILE; e += NTHREADS) {
      const int c = e / TILE, r = e % TILE;
      if (i0 + r < d && j0 + c < d) cov[(size_t)(j0 + c) * d + i0 + r] = out[r][c];
    }
  }
}

torch::Tensor cov_cuda(torch::Tensor x) {
  CHECK_INPUT(x);
  TORCH_CHECK(x.dim() == 2, "x must be [samples, features]");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "x must be float32");
  const int n = x.size(0);
  const int d = x.size(1);
  TORCH_CHECK(n > 1, "need at least two samples");

  const c10::cuda::CUDAGuard device_guard(x.device());
  auto stream = at::cuda::getCurrentCUDAStream();
  auto mean = torch::empty({d}, x.options());
  auto cov = torch::empty({d, d}, x.options());

  column_mean_kernel<<<(d + 31) / 32, dim3(32, 8), 0, stream>>>(x.data_ptr<float>(), mean.data_ptr<float>(), n, d);

  const int tiles = (d + TILE - 1) / TILE;
  covariance_kernel<<<dim3(tiles, tiles), NTHREADS, 0, stream>>>(
      x.data_ptr<float>(), mean.data_ptr<float>(), cov.data_ptr<float>(), n, d, 1.f / (n - 1));
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "covariance_kernel launch failed");
  return cov;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("cov", &cov_cuda, "sample covariance (CUDA, TF32)");
}
