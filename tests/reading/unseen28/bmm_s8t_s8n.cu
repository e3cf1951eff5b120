#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cstdint>
#include <mma.h>

// Batched INT8 matmuls for the attention of a W8A8 model.
//   bmm_s8t_s8n_f32t : float  alpha * A B^T
//   bmm_s8t_s8n_s8t  : int8   clamp(round(alpha * A B^T), -128, 127)

namespace wmma = nvcuda::wmma;

static constexpr int BLOCK_MN = 64;
static constexpr int BLOCK_K = 64;
static constexpr int SLICES = BLOCK_K / 16;

__device__ __forceinline__ void finish(float v, float *out) { *out = v; }

__device__ __forceinline__ void finish(float v, int8_t *out) {
  *out = static_cast<int8_t>(fminf(fmaxf(rintf(v), -128.f), 127.f));
}

template <typename out_t>
__global__ void bmm_s8_kernel(const int8_t *A, const int8_t *B, out_t *D, int M, int N, int K, float alpha) {
  // operand tiles in slices of 16 k values, so that a wmma tile is 256 bytes in a row
  __shared__ __align__(128) int8_t tile_a[SLICES][BLOCK_MN][16];
  __shared__ __align__(128) int8_t tile_b[SLICES][BLOCK_MN][16];
  __shared__ __align__(128) int tile_d[4][16][16];

  A += static_cast<int64_t>(blockIdx.z) * M * K;
  B += static_cast<int64_t>(blockIdx.z) * N * K;
  D += static_cast<int64_t>(blockIdx.z) * M * N;
  const int m_block = blockIdx.x * BLOCK_MN;
  const int n_block = blockIdx.y * BLOCK_MN;
  const int warp_id = threadIdx.x / 32;
  const int lane_id = threadIdx.x % 32;
  const int warp_m = warp_id % 2 * 32;
  const int warp_n = warp_id / 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[2][2];
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0);

  for (int k_block = 0; k_block < K; k_block += BLOCK_K) {
    for (int i = threadIdx.x; i < BLOCK_MN * SLICES; i += blockDim.x) {
      const int row = i / SLICES, slice = i % SLICES;
      const int k = k_block + slice * 16;
      int4 a = make_int4(0, 0, 0, 0), b = make_int4(0, 0, 0, 0);
      if (m_block + row < M && k < K) a = *reinterpret_cast<const int4 *>(A + (int64_t)(m_block + row) * K + k);
      if (n_block + row < N && k < K) b = *reinterpret_cast<const int4 *>(B + (int64_t)(n_block + row) * K + k);
      *reinterpret_cast<int4 *>(tile_a[slice][row]) = a;
      *reinterpret_cast<int4 *>(tile_b[slice][row]) = b;
    }
    __syncthreads();

#pragma unroll
    for (int s = 0; s < SLICES; s++) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb[2];
      for (int i = 0; i < 2; i++) {
        wmma::load_matrix_sync(fa[i], reinterpret_cast<const signed char *>(tile_a[s][warp_m + i * 16]), 16);
        wmma::load_matrix_sync(fb[i], reinterpret_cast<const signed char *>(tile_b[s][warp_n + i * 16]), 16);
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    __syncthreads();
  }

  // one 16 x 16 tile after the other through the warp's own buffer
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 2; j++) {
      wmma::store_matrix_sync(&tile_d[warp_id][0][0], acc[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane_id; e < 256; e += 32) {
        const int m = m_block + warp_m + i * 16 + e / 16;
        const int n = n_block + warp_n + j * 16 + e % 16;
        if (m < M && n < N) finish(alpha * static_cast<float>(tile_d[warp_id][e / 16][e % 16]), D + (int64_t)m * N + n);
      }
      __syncwarp();
    }
  }
}

template <typename out_t>
static torch::Tensor bmm_s8(torch::Tensor A, torch::Tensor B, float alpha, torch::ScalarType out_type) {
  TORCH_CHECK(A.is_cuda() && B.is_cuda(), "A and B must be on the GPU");
  TORCH_CHECK(A.scalar_type() == torch::kInt8 && B.scalar_type() == torch::kInt8, "A and B must be int8");
  TORCH_CHECK(A.is_contiguous() && B.is_contiguous(), "A and B must be contiguous");
  TORCH_CHECK(A.dim() == 3 && B.dim() == 3 && A.size(0) == B.size(0), "batch sizes differ");
  TORCH_CHECK(A.size(2) == B.size(2) && A.size(2) % 16 == 0, "K must agree and be a multiple of 16");

  int batch_size = A.size(0);
  int M = A.size(1);
  int N = B.size(1);
  int K = A.size(2);
  auto D = torch::empty({batch_size, M, N}, torch::dtype(out_type).device(A.device()));

  dim3 grid((M + BLOCK_MN - 1) / BLOCK_MN, (N + BLOCK_MN - 1) / BLOCK_MN, batch_size);
  bmm_s8_kernel<out_t><<<grid, 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
      A.data_ptr<int8_t>(), B.data_ptr<int8_t>(), D.data_ptr<out_t>(), M, N, K, alpha);
  return D;
}

torch::Tensor bmm_s8t_s8n_f32t(torch::Tensor A, torch::Tensor B, float alpha) {
  return bmm_s8<float>(A, B, alpha, torch::kFloat32);
}

torch::Tensor bmm_s8t_s8n_s8t(torch::Tensor A, torch::Tensor B, float alpha) {
  return bmm_s8<int8_t>(A, B, alpha, torch::kInt8);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("bmm_s8t_s8n_f32t", &bmm_s8t_s8n_f32t, "int8 batched matmul, fp32 result");
  m.def("bmm_s8t_s8n_s8t", &bmm_s8t_s8n_s8t, "int8 batched matmul, int8 result");
}
