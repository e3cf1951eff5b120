// scores[b,h,i,j] = scale * sum_d q[b,i,h,d] * k[b,j,h,d], bf16 in, fp32 out
// q and k come from the projection as [B, T, H, 32-multiple D]
#include <cuda_bf16.h>
#include <mma.h>
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

typedef __nv_bfloat16 bf16_t;

template <int kD, int kWarps>
__global__ __launch_bounds__(kWarps * 32) void attn_scores_bf16(
    const bf16_t* q, const bf16_t* k, float* scores, int T, int H, float scale) {
  using namespace nvcuda;
  constexpr int kRows = kWarps * 16;
  constexpr int kStride = kD + 8;
  __shared__ __align__(16) bf16_t q_tile[kRows * kStride];
  __shared__ __align__(16) bf16_t k_tile[32 * kStride];
  __shared__ __align__(16) float stage[kWarps][16 * 36];

  const int bh = blockIdx.y;
  const int b = bh / H, h = bh - b * H;
  const int row0 = blockIdx.x * kRows;
  const int warp = threadIdx.x >> 5;
  const int lane = threadIdx.x & 31;

  for (int v = threadIdx.x; v < kRows * (kD / 8); v += blockDim.x) {
    const int r = v / (kD / 8), c8 = v % (kD / 8);
    uint4 val = make_uint4(0, 0, 0, 0);
    if (row0 + r < T)
      val = *reinterpret_cast<const uint4*>(q + (((size_t)b * T + row0 + r) * H + h) * kD + c8 * 8);
    *reinterpret_cast<uint4*>(&q_tile[r * kStride + c8 * 8]) = val;
  }
  float* out = scores + (size_t)bh * T * T;

  for (int col0 = 0; col0 < T; col0 += 32) {
    __syncthreads();
    for (int v = threadIdx.x; v < 32 * (kD / 8); v += blockDim.x) {
      const int r = v / (kD / 8), c8 = v % (kD / 8);
      uint4 val = make_uint4(0, 0, 0, 0);
      if (col0 + r < T)
        val = *reinterpret_cast<const uint4*>(k + (((size_t)b * T + col0 + r) * H + h) * kD + c8 * 8);
      *reinterpret_cast<uint4*>(&k_tile[r * kStride + c8 * 8]) = val;
    }
    __syncthreads();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);
    for (int d = 0; d < kD; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> qa;
      wmma::load_matrix_sync(qa, q_tile + warp * 16 * kStride + d, kStride);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::col_major> kb;
        wmma::load_matrix_sync(kb, k_tile + n * 16 * kStride + d, kStride);
        wmma::mma_sync(acc[n], qa, kb, acc[n]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n)
      wmma::store_matrix_sync(&stage[warp][n * 16], acc[n], 36, wmma::mem_row_major);
    __syncwarp();
    for (int r = 0; r < 16; ++r) {
      const int i = row0 + warp * 16 + r;
      const int j = col0 + lane;
      if (i < T && j < T) out[(size_t)i * T + j] = stage[warp][r * 36 + lane] * scale;
    }
    __syncwarp();
  }
}

at::Tensor attention_scores(at::Tensor q, at::Tensor k, double scale) {
  const int B = q.size(0), T = q.size(1), H = q.size(2);
  auto s = at::empty({B, H, T, T}, q.options().dtype(at::kFloat));
  const dim3 grid((T + 63) / 64, B * H);
  attn_scores_bf16<64, 4><<<grid, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const bf16_t*>(q.data_ptr()), reinterpret_cast<const bf16_t*>(k.data_ptr()),
      s.data_ptr<float>(), T, H, (float)scale);
  return s;
}
