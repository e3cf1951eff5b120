// INT8 Q·K^T for SageAttention-like pipelines: S[b,h,i,j] = q_scale[b,h,i/64] * k_scale[b,h,j/64] * sm_scale * (Q_i8 · K_i8)
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;

constexpr int BLK = 64;
constexpr int PAD = 16;

template <int HEAD_DIM>
__global__ void __launch_bounds__(128) qk_int8_kernel(const int8_t* __restrict__ Q, const int8_t* __restrict__ K, half* __restrict__ S,
                                                      const float* __restrict__ q_scale, const float* __restrict__ k_scale,
                                                      const float sm_scale, const int qo_len, const int kv_len) {
  __shared__ __align__(32) int8_t sQ[BLK][HEAD_DIM + PAD];
  __shared__ __align__(32) int8_t sK[BLK][HEAD_DIM + PAD];
  __shared__ __align__(32) int sS[BLK][BLK + 4];
  const int bh = blockIdx.z, qb = blockIdx.y, kb = blockIdx.x;
  const int8_t* q = Q + ((size_t)bh * qo_len + qb * BLK) * HEAD_DIM;
  const int8_t* k = K + ((size_t)bh * kv_len + kb * BLK) * HEAD_DIM;
  for (int i = threadIdx.x; i < BLK * HEAD_DIM / 16; i += 128) {
    const int r = i / (HEAD_DIM / 16), c = (i % (HEAD_DIM / 16)) * 16;
    *reinterpret_cast<int4*>(&sQ[r][c]) = *reinterpret_cast<const int4*>(q + r * HEAD_DIM + c);
    *reinterpret_cast<int4*>(&sK[r][c]) = *reinterpret_cast<const int4*>(k + r * HEAD_DIM + c);
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[BLK / 16];
#pragma unroll
  for (int j = 0; j < BLK / 16; ++j) {
    wmma::fill_fragment(acc[j], 0);
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
      wmma::load_matrix_sync(a, reinterpret_cast<const signed char*>(&sQ[warp * 16][d]), HEAD_DIM + PAD);
      wmma::load_matrix_sync(b, reinterpret_cast<const signed char*>(&sK[j * 16][d]), HEAD_DIM + PAD);
      wmma::mma_sync(acc[j], a, b, acc[j]);
    }
    wmma::store_matrix_sync(&sS[warp * 16][j * 16], acc[j], BLK + 4, wmma::mem_row_major);
  }
  __syncthreads();
  const float scale = q_scale[bh * gridDim.y + qb] * k_scale[bh * gridDim.x + kb] * sm_scale;
  half* s = S + ((size_t)bh * qo_len + qb * BLK) * kv_len + kb * BLK;
  for (int i = threadIdx.x; i < BLK * BLK; i += 128) s[(size_t)(i / BLK) * kv_len + i % BLK] = __float2half(scale * sS[i / BLK][i % BLK]);
}

torch::Tensor qk_int8(torch::Tensor q, torch::Tensor k, torch::Tensor q_scale, torch::Tensor k_scale, double sm_scale) {
  const int b = q.size(0), h = q.size(1), qo_len = q.size(2), kv_len = k.size(2), d = q.size(3);
  TORCH_CHECK(qo_len % BLK == 0 && kv_len % BLK == 0);
  auto s = torch::empty({b, h, qo_len, kv_len}, q.options().dtype(torch::kHalf));
  const dim3 grid(kv_len / BLK, qo_len / BLK, b * h);
  auto stream = at::cuda::getCurrentCUDAStream();
  if (d == 64)
    qk_int8_kernel<64><<<grid, 128, 0, stream>>>(q.data_ptr<int8_t>(), k.data_ptr<int8_t>(), reinterpret_cast<half*>(s.data_ptr()), q_scale.data_ptr<float>(), k_scale.data_ptr<float>(), sm_scale, qo_len, kv_len);
  else if (d == 128)
    qk_int8_kernel<128><<<grid, 128, 0, stream>>>(q.data_ptr<int8_t>(), k.data_ptr<int8_t>(), reinterpret_cast<half*>(s.data_ptr()), q_scale.data_ptr<float>(), k_scale.data_ptr<float>(), sm_scale, qo_len, kv_len);
  return s;
}
