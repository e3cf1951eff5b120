#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

using namespace nvcuda;

// q: [total_q, num_heads, head_dim], k, v: [total_k, num_heads, head_dim]; sequences lie one behind the other,
// cu_seqlens_q, cu_seqlens_k: [batch + 1]. Causal masks are aligned to the lower right corner.
template <int kHeadDim, int kTileQ, int kTileK, bool kCausal>
__global__ void varlen_attention_kernel(const half* __restrict__ q, const half* __restrict__ k,
                                        const half* __restrict__ v, half* __restrict__ o,
                                        const int* __restrict__ cu_seqlens_q, const int* __restrict__ cu_seqlens_k,
                                        const int num_heads, const float softmax_scale) {
  const int seq = blockIdx.z;
  const int head = blockIdx.y;
  const int q_begin = cu_seqlens_q[seq];
  const int k_begin = cu_seqlens_k[seq];
  const int len_q = cu_seqlens_q[seq + 1] - q_begin;
  const int len_k = cu_seqlens_k[seq + 1] - k_begin;
  const int row0 = blockIdx.x * kTileQ;
  if (row0 >= len_q) return;

  extern __shared__ __align__(16) unsigned char smem_raw[];
  half* s_q = reinterpret_cast<half*>(smem_raw);        // [kTileQ][kHeadDim]
  half* s_k = s_q + kTileQ * kHeadDim;                  // [kTileK][kHeadDim]
  half* s_v = s_k + kTileK * kHeadDim;                  // [kTileK][kHeadDim]
  half* s_p = s_v + kTileK * kHeadDim;                  // [kTileQ][kTileK]
  float* s_s = reinterpret_cast<float*>(s_p + kTileQ * kTileK);  // [kTileQ][kTileK]
  float* s_o = s_s + kTileQ * kTileK;                   // [kTileQ][kHeadDim]
  float* s_m = s_o + kTileQ * kHeadDim;
  float* s_l = s_m + kTileQ;

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int stride = num_heads * kHeadDim;

  for (int i = tid; i < kTileQ * kHeadDim; i += blockDim.x) {
    const int r = i / kHeadDim, d = i % kHeadDim;
    s_q[i] = row0 + r < len_q ? q[int64_t(q_begin + row0 + r) * stride + head * kHeadDim + d] : __float2half(0.f);
    s_o[i] = 0.f;
  }
  for (int i = tid; i < kTileQ; i += blockDim.x) {
    s_m[i] = -INFINITY;
    s_l[i] = 0.f;
  }

  const int shift = len_k - len_q;
  const int limit = kCausal ? min(len_k, row0 + kTileQ + shift) : len_k;
  for (int col0 = 0; col0 < limit; col0 += kTileK) {
    __syncthreads();
    for (int i = tid; i < kTileK * kHeadDim; i += blockDim.x) {
      const int r = i / kHeadDim, d = i % kHeadDim;
      const bool in = col0 + r < len_k;
      const int64_t at = int64_t(k_begin + col0 + r) * stride + head * kHeadDim + d;
      s_k[i] = in ? k[at] : __float2half(0.f);
      s_v[i] = in ? v[at] : __float2half(0.f);
    }
    __syncthreads();

    // each warp: 16 queries by all keys of the tile
    for (int n = 0; n < kTileK; n += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
      for (int d = 0; d < kHeadDim; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, s_q + warp * 16 * kHeadDim + d, kHeadDim);
        wmma::load_matrix_sync(fb, s_k + n * kHeadDim + d, kHeadDim);
        wmma::mma_sync(s, fa, fb, s);
      }
      wmma::store_matrix_sync(s_s + warp * 16 * kTileK + n, s, kTileK, wmma::mem_row_major);
    }
    __syncthreads();

    if (tid < kTileQ) {
      const int row = row0 + tid;
      float* scores = s_s + tid * kTileK;
      float m = s_m[tid];
      for (int c = 0; c < kTileK; ++c) {
        const bool seen = col0 + c < len_k && (!kCausal || col0 + c <= row + shift);
        scores[c] = seen ? scores[c] * softmax_scale : -INFINITY;
        m = fmaxf(m, scores[c]);
      }
      const float correction = m == -INFINITY ? 1.f : __expf(s_m[tid] - m);
      float sum = 0.f;
      for (int c = 0; c < kTileK; ++c) {
        const float p = m == -INFINITY ? 0.f : __expf(scores[c] - m);
        s_p[tid * kTileK + c] = __float2half(p);
        sum += p;
      }
      s_m[tid] = m;
      s_l[tid] = s_l[tid] * correction + sum;
      for (int d = 0; d < kHeadDim; ++d) s_o[tid * kHeadDim + d] *= correction;
    }
    __syncthreads();

    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
      wmma::load_matrix_sync(acc, s_o + warp * 16 * kHeadDim + d, kHeadDim, wmma::mem_row_major);
      for (int n = 0; n < kTileK; n += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fp;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fv;
        wmma::load_matrix_sync(fp, s_p + warp * 16 * kTileK + n, kTileK);
        wmma::load_matrix_sync(fv, s_v + n * kHeadDim + d, kHeadDim);
        wmma::mma_sync(acc, fp, fv, acc);
      }
      wmma::store_matrix_sync(s_o + warp * 16 * kHeadDim + d, acc, kHeadDim, wmma::mem_row_major);
    }
  }
  __syncthreads();
  for (int i = tid; i < kTileQ * kHeadDim; i += blockDim.x) {
    const int r = i / kHeadDim, d = i % kHeadDim;
    if (row0 + r < len_q) {
      const float l = s_l[r];
      o[int64_t(q_begin + row0 + r) * stride + head * kHeadDim + d] = __float2half(l > 0.f ? s_o[i] / l : 0.f);
    }
  }
}

torch::Tensor varlen_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor cu_seqlens_q,
                               torch::Tensor cu_seqlens_k, int64_t max_seqlen_q, bool causal) {
  TORCH_CHECK(q.is_cuda() && q.scalar_type() == at::kHalf, "q must be a half tensor on the GPU");
  TORCH_CHECK(q.size(2) == 64, "head_dim must be 64");
  constexpr int kHeadDim = 64, kTileQ = 64, kTileK = 32;
  const int num_heads = q.size(1);
  const int batch = cu_seqlens_q.size(0) - 1;
  auto out = torch::empty_like(q);
  const float scale = 1.f / std::sqrt(float(kHeadDim));
  const size_t smem = sizeof(half) * (kTileQ * kHeadDim + 2 * kTileK * kHeadDim + kTileQ * kTileK) +
                      sizeof(float) * (kTileQ * kTileK + kTileQ * kHeadDim + 2 * kTileQ);
  dim3 grid((max_seqlen_q + kTileQ - 1) / kTileQ, num_heads, batch);
  auto kernel = causal ? &varlen_attention_kernel<kHeadDim, kTileQ, kTileK, true>
                       : &varlen_attention_kernel<kHeadDim, kTileQ, kTileK, false>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
  kernel<<<grid, kTileQ / 16 * 32, smem, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half*>(q.data_ptr<at::Half>()), reinterpret_cast<const half*>(k.data_ptr<at::Half>()),
      reinterpret_cast<const half*>(v.data_ptr<at::Half>()), reinterpret_cast<half*>(out.data_ptr<at::Half>()),
      cu_seqlens_q.data_ptr<int>(), cu_seqlens_k.data_ptr<int>(), num_heads, scale);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("varlen_attention", &varlen_attention); }
