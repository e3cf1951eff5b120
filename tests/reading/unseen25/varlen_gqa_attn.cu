// Varlen grouped-query attention (prefill), packed sequences.
//
// q          [total_q, num_heads,    head_dim]  fp16
// k, v       [total_k, num_kv_heads, head_dim]  fp16
// cu_seqlens [batch + 1]                        int32, same for q and k
// out        like q
//
// Causal inside every sequence. head_dim 64 or 128. WMMA for both products, the
// softmax is done on shared memory.
#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int BLOCK_Q = 32;
constexpr int BLOCK_KV = 32;
constexpr int NUM_WARPS = 4;
constexpr int WARP_SIZE = 32;
constexpr int PAD_H = 8;
constexpr int PAD_F = 4;

template <int HEAD_DIM>
struct SharedStorage {
  half q[BLOCK_Q][HEAD_DIM + PAD_H];
  half k[BLOCK_KV][HEAD_DIM + PAD_H];
  half v[BLOCK_KV][HEAD_DIM + PAD_H];
  float s[BLOCK_Q][BLOCK_KV + PAD_F];
  half p[BLOCK_Q][BLOCK_KV + PAD_H];
  float o[BLOCK_Q][HEAD_DIM + PAD_F];
  float row_max[BLOCK_Q];
  float row_sum[BLOCK_Q];
};

template <int HEAD_DIM>
__device__ void load_rows(half (*dst)[HEAD_DIM + PAD_H], const half* src, int row_stride, int first, int end, int rows) {
  for (int idx = threadIdx.x; idx < rows * HEAD_DIM / 8; idx += blockDim.x) {
    int r = idx / (HEAD_DIM / 8);
    int c = (idx % (HEAD_DIM / 8)) * 8;
    uint4 data = make_uint4(0u, 0u, 0u, 0u);
    if (first + r < end) data = *reinterpret_cast<const uint4*>(src + (int64_t)(first + r) * row_stride + c);
    *reinterpret_cast<uint4*>(&dst[r][c]) = data;
  }
}

template <int HEAD_DIM>
__global__ void varlen_gqa_attn_kernel(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                                       half* __restrict__ out, const int* __restrict__ cu_seqlens, int num_heads,
                                       int num_kv_heads, float softmax_scale) {
  extern __shared__ __align__(32) unsigned char smem_raw[];
  auto& smem = *reinterpret_cast<SharedStorage<HEAD_DIM>*>(smem_raw);

  const int head = blockIdx.y;
  const int batch = blockIdx.z;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int seq_begin = cu_seqlens[batch];
  const int seq_end = cu_seqlens[batch + 1];
  const int q_begin = seq_begin + blockIdx.x * BLOCK_Q;
  if (q_begin >= seq_end) return;  // grid is sized by the longest sequence

  const int warp = threadIdx.x / WARP_SIZE;
  const int lane = threadIdx.x % WARP_SIZE;
  const int q_stride = num_heads * HEAD_DIM;
  const int kv_stride = num_kv_heads * HEAD_DIM;
  const half* q_head = q + head * HEAD_DIM;
  const half* k_head = k + kv_head * HEAD_DIM;
  const half* v_head = v + kv_head * HEAD_DIM;

  load_rows<HEAD_DIM>(smem.q, q_head, q_stride, q_begin, seq_end, BLOCK_Q);
  for (int i = threadIdx.x; i < BLOCK_Q * HEAD_DIM; i += blockDim.x) smem.o[i / HEAD_DIM][i % HEAD_DIM] = 0.f;
  if (threadIdx.x < BLOCK_Q) {
    smem.row_max[threadIdx.x] = -INFINITY;
    smem.row_sum[threadIdx.x] = 0.f;
  }

  const int kv_end = min(seq_end, q_begin + BLOCK_Q);  // nothing behind the last query is visible
  for (int kv = seq_begin; kv < kv_end; kv += BLOCK_KV) {
    load_rows<HEAD_DIM>(smem.k, k_head, kv_stride, kv, seq_end, BLOCK_KV);
    load_rows<HEAD_DIM>(smem.v, v_head, kv_stride, kv, seq_end, BLOCK_KV);
    __syncthreads();

    // S = Q K^T, one 16x16 tile per warp
    {
      int sr = (warp / 2) * 16, sc = (warp % 2) * 16;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
      wmma::fill_fragment(s_frag, 0.f);
      for (int d = 0; d < HEAD_DIM; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
        wmma::load_matrix_sync(q_frag, &smem.q[sr][d], HEAD_DIM + PAD_H);
        wmma::load_matrix_sync(k_frag, &smem.k[sc][d], HEAD_DIM + PAD_H);
        wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
      }
      wmma::store_matrix_sync(&smem.s[sr][sc], s_frag, BLOCK_KV + PAD_F, wmma::mem_row_major);
    }
    __syncthreads();

    // online softmax: a warp takes eight rows, a lane is one key
    for (int r = warp; r < BLOCK_Q; r += NUM_WARPS) {
      const int q_pos = q_begin + r, k_pos = kv + lane;
      const bool visible = k_pos <= q_pos && k_pos < seq_end;
      float x = visible ? smem.s[r][lane] * softmax_scale : -INFINITY;
      float m = x;
      for (int off = 16; off > 0; off /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, off));
      const float m_old = smem.row_max[r];
      const float m_new = fmaxf(m_old, m);
      const float p = visible ? __expf(x - m_new) : 0.f;
      float sum = p;
      for (int off = 16; off > 0; off /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, off);
      const float rescale = __expf(m_old - m_new);
      __syncwarp();
      if (lane == 0) {
        smem.row_max[r] = m_new;
        smem.row_sum[r] = smem.row_sum[r] * rescale + sum;
      }
      smem.p[r][lane] = __float2half(p);
      for (int d = lane; d < HEAD_DIM; d += WARP_SIZE) smem.o[r][d] *= rescale;
    }
    __syncthreads();

    // O += P V, tiles of O dealt round robin
    for (int tile = warp; tile < (BLOCK_Q / 16) * (HEAD_DIM / 16); tile += NUM_WARPS) {
      int orow = (tile / (HEAD_DIM / 16)) * 16, ocol = (tile % (HEAD_DIM / 16)) * 16;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
      wmma::load_matrix_sync(o_frag, &smem.o[orow][ocol], HEAD_DIM + PAD_F, wmma::mem_row_major);
      for (int j = 0; j < BLOCK_KV; j += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
        wmma::load_matrix_sync(p_frag, &smem.p[orow][j], BLOCK_KV + PAD_H);
        wmma::load_matrix_sync(v_frag, &smem.v[j][ocol], HEAD_DIM + PAD_H);
        wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
      }
      wmma::store_matrix_sync(&smem.o[orow][ocol], o_frag, HEAD_DIM + PAD_F, wmma::mem_row_major);
    }
    __syncthreads();
  }

  for (int i = threadIdx.x; i < BLOCK_Q * HEAD_DIM; i += blockDim.x) {
    int r = i / HEAD_DIM, d = i % HEAD_DIM;
    if (q_begin + r < seq_end)
      out[(int64_t)(q_begin + r) * q_stride + head * HEAD_DIM + d] = __float2half(smem.o[r][d] / smem.row_sum[r]);
  }
}

template <int HEAD_DIM>
void launch_varlen(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, torch::Tensor& out,
                   const torch::Tensor& cu_seqlens, int max_seqlen, float scale) {
  constexpr int smem_bytes = sizeof(SharedStorage<HEAD_DIM>);
  auto kernel = varlen_gqa_attn_kernel<HEAD_DIM>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  dim3 grid((max_seqlen + BLOCK_Q - 1) / BLOCK_Q, q.size(1), cu_seqlens.size(0) - 1);
  kernel<<<grid, NUM_WARPS * WARP_SIZE, smem_bytes, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const half*>(q.data_ptr()), reinterpret_cast<const half*>(k.data_ptr()),
      reinterpret_cast<const half*>(v.data_ptr()), reinterpret_cast<half*>(out.data_ptr()),
      cu_seqlens.data_ptr<int>(), q.size(1), k.size(1), scale);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void varlen_gqa_attn(torch::Tensor& out, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                     const torch::Tensor& cu_seqlens, int64_t max_seqlen, double softmax_scale) {
  TORCH_CHECK(q.scalar_type() == at::ScalarType::Half, "only fp16 is supported");
  TORCH_CHECK(cu_seqlens.scalar_type() == at::ScalarType::Int, "cu_seqlens must be int32");
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && v.dim() == 3);
  TORCH_CHECK(q.is_contiguous() && k.is_contiguous() && v.is_contiguous() && out.is_contiguous());
  TORCH_CHECK(q.size(1) % k.size(1) == 0, "num_heads must be a multiple of num_kv_heads");
  switch (q.size(2)) {
    case 64: launch_varlen<64>(q, k, v, out, cu_seqlens, max_seqlen, softmax_scale); break;
    case 128: launch_varlen<128>(q, k, v, out, cu_seqlens, max_seqlen, softmax_scale); break;
    default: TORCH_CHECK(false, "unsupported head_dim ", q.size(2));
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("varlen_gqa_attn", &varlen_gqa_attn, "causal varlen attention with grouped kv heads");
}
