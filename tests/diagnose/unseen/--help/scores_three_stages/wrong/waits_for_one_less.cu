// scores = scale * Q K^T for one (batch, head) per blockIdx.z; slices of 16 along D flow through a ring of three stages.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda::wmma;

template <int STAGES>
__global__ void __launch_bounds__(128) ring_scores(const half* Q, const half* K, float* scores, int rows, int cols,
                                                   int depth, float scale) {
  constexpr int T = 64, W = 16, P = 24;
  __shared__ alignas(128) half ring[STAGES][2][T][P];
  const half* src[2] = {Q + (size_t)blockIdx.z * rows * depth, K + (size_t)blockIdx.z * cols * depth};
  const int origin[2] = {(int)blockIdx.y * T, (int)blockIdx.x * T};
  const int extent[2] = {rows, cols};
  const int warp = threadIdx.x / 32;
  const int slices = depth / W;

  auto issue = [&](int slice) {
    if (slice < slices) {
      const int r = threadIdx.x >> 1, c = (threadIdx.x & 1) * 8;
      for (int which = 0; which < 2; ++which) {
        half* to = &ring[slice % STAGES][which][r][c];
        if (origin[which] + r < extent[which])
          __pipeline_memcpy_async(to, src[which] + (size_t)(origin[which] + r) * depth + slice * W + c, 16);
        else
          *reinterpret_cast<uint4*>(to) = make_uint4(0u, 0u, 0u, 0u);
      }
    }
    __pipeline_commit();
  };

  fragment<accumulator, 16, 16, 16, float> sum[4];
  for (int j = 0; j < 4; ++j) fill_fragment(sum[j], 0.0f);
  for (int s = 0; s < STAGES - 1; ++s) issue(s);
  for (int s = 0; s < slices; ++s) {
    __pipeline_wait_prior(STAGES - 1);
    __syncthreads();
    issue(s + STAGES - 1);
    fragment<matrix_a, 16, 16, 16, half, row_major> qf;
    load_matrix_sync(qf, ring[s % STAGES][0][warp * 16], P);
    for (int j = 0; j < 4; ++j) {
      fragment<matrix_b, 16, 16, 16, half, col_major> kf;
      load_matrix_sync(kf, ring[s % STAGES][1][j * 16], P);
      mma_sync(sum[j], qf, kf, sum[j]);
    }
  }
  const int row = origin[0] + warp * 16;
  float* to = scores + (size_t)blockIdx.z * rows * cols;
  for (int j = 0; j < 4; ++j) {
    const int col = origin[1] + j * 16;
    for (int e = 0; e < sum[j].num_elements; ++e) sum[j].x[e] *= scale;
    if (row < rows && col < cols) store_matrix_sync(to + (size_t)row * cols + col, sum[j], cols, mem_row_major);
  }
}
