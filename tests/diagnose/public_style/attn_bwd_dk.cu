// One piece of the attention backward pass: dK = scale * dS^T * Q for every head.
// dS [batch*heads][seqlen_q][seqlen_k] comes from the softmax backward kernel, Q and dK are [batch*heads][seqlen][dim].
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")

namespace {

constexpr int KEYS = 64;       // keys of a block
constexpr int QUERIES = 32;    // queries per step
constexpr int DIM = 64;
constexpr int WARPS = 4;
constexpr int LDS = KEYS + 8;
constexpr int LDQ = DIM + 8;
constexpr int LDK = DIM + 4;

namespace wmma = nvcuda::wmma;

template <typename T>
__device__ __forceinline__ T* head_ptr(T* base, int bh, int rows, int cols) {
  return base + static_cast<int64_t>(bh) * rows * cols;
}

__global__ void __launch_bounds__(WARPS * 32)
attn_bwd_dk_kernel(const __half* __restrict__ ds, const __half* __restrict__ q, __half* __restrict__ dk,
                   const int seqlen_q, const int seqlen_k, const float softmax_scale) {
  __shared__ __align__(32) __half ds_smem[QUERIES][LDS];
  __shared__ __align__(32) __half q_smem[QUERIES][LDQ];
  __shared__ __align__(32) float dk_smem[KEYS][LDK];

  const int bh = blockIdx.y;
  const int k_start = blockIdx.x * KEYS;
  const int warp_id = threadIdx.x >> 5;

  const __half* ds_ptr = head_ptr(ds, bh, seqlen_q, seqlen_k) + k_start;
  const __half* q_ptr = head_ptr(q, bh, seqlen_q, DIM);
  __half* dk_ptr = head_ptr(dk, bh, seqlen_k, DIM) + static_cast<int64_t>(k_start) * DIM;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> dk_acc[DIM / 16];
#pragma unroll
  for (int n = 0; n < DIM / 16; ++n) wmma::fill_fragment(dk_acc[n], 0.f);

  for (int q_start = 0; q_start < seqlen_q; q_start += QUERIES) {
    for (int idx = threadIdx.x; idx < QUERIES * KEYS; idx += blockDim.x) {
      const int r = idx / KEYS, c = idx % KEYS;
      const bool inside = q_start + r < seqlen_q && k_start + c < seqlen_k;
      ds_smem[r][c] = inside ? ds_ptr[static_cast<int64_t>(q_start + r) * seqlen_k + c] : __half(0.f);
    }
    for (int idx = threadIdx.x; idx < QUERIES * DIM; idx += blockDim.x) {
      const int r = idx / DIM, c = idx % DIM;
      q_smem[r][c] = q_start + r < seqlen_q ? q_ptr[(q_start + r) * DIM + c] : __half(0.f);
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < QUERIES; kk += 16) {
      // dS^T: keys along m, queries along k
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> ds_frag;
      wmma::load_matrix_sync(ds_frag, &ds_smem[kk][warp_id * 16], LDS);
#pragma unroll
      for (int n = 0; n < DIM / 16; ++n) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> q_frag;
        wmma::load_matrix_sync(q_frag, &q_smem[kk][n * 16], LDQ);
        wmma::mma_sync(dk_acc[n], ds_frag, q_frag, dk_acc[n]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int n = 0; n < DIM / 16; ++n)
    wmma::store_matrix_sync(&dk_smem[warp_id * 16][n * 16], dk_acc[n], LDK, wmma::mem_row_major);
  __syncthreads();

  const int keys = min(KEYS, seqlen_k - k_start);
  for (int idx = threadIdx.x; idx < keys * DIM; idx += blockDim.x) {
    const int r = idx / DIM, c = idx % DIM;
    dk_ptr[r * DIM + c] = __float2half(dk_smem[r][c] * softmax_scale);
  }
}

}  // namespace

at::Tensor attn_bwd_dk(at::Tensor ds, at::Tensor q, double softmax_scale) {
  CHECK_INPUT(ds);
  CHECK_INPUT(q);
  const auto bh = ds.size(0), seqlen_q = ds.size(1), seqlen_k = ds.size(2);
  TORCH_CHECK(q.size(2) == DIM, "head dimension must be 64");
  auto dk = at::empty({bh, seqlen_k, q.size(2)}, q.options());
  const dim3 grid((seqlen_k + KEYS - 1) / KEYS, bh);
  attn_bwd_dk_kernel<<<grid, WARPS * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(ds.data_ptr<at::Half>()), reinterpret_cast<const __half*>(q.data_ptr<at::Half>()),
      reinterpret_cast<__half*>(dk.data_ptr<at::Half>()), seqlen_q, seqlen_k, static_cast<float>(softmax_scale));
  return dk;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("attn_bwd_dk", &attn_bwd_dk); }
