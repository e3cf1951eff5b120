// Fused gate/up projection of a Mixtral style MLP. w13 is re-packed offline: blocks of 16 gate rows alternate with
// blocks of 16 up rows, so that one warp owns a gate tile and its up tile.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

using namespace nvcuda;

constexpr int BLK = 16;       // rows of one kind in w13
constexpr int WARPS_N = 4;

__device__ __forceinline__ float silu(float v) { return v / (1.0f + __expf(-v)); }

__global__ void __launch_bounds__(WARPS_N * 32)
w13_swiglu_kernel(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w13,
                  __nv_bfloat16* __restrict__ out, int num_tokens, int inter_size, int hidden_size) {
  __shared__ __align__(32) float s_gate[WARPS_N][BLK * BLK];
  __shared__ __align__(32) float s_up[WARPS_N][BLK * BLK];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int block_n = blockIdx.x * WARPS_N + warp;  // which block of 16 outputs
  const int row0 = blockIdx.y * 16;
  if (block_n * BLK >= inter_size) return;

  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fx;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fg, fu;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> cg, cu;
  wmma::fill_fragment(cg, 0.0f);
  wmma::fill_fragment(cu, 0.0f);
  const __nv_bfloat16* wg = w13 + (size_t)(2 * block_n) * BLK * hidden_size;
  const __nv_bfloat16* wu = w13 + (size_t)(2 * block_n + 1) * BLK * hidden_size;
  for (int k = 0; k < hidden_size; k += 16) {
    wmma::load_matrix_sync(fx, x + (size_t)row0 * hidden_size + k, hidden_size);
    wmma::load_matrix_sync(fg, wg + k, hidden_size);
    wmma::load_matrix_sync(fu, wu + k, hidden_size);
    wmma::mma_sync(cg, fx, fg, cg);
    wmma::mma_sync(cu, fx, fu, cu);
  }
  wmma::store_matrix_sync(s_gate[warp], cg, BLK, wmma::mem_row_major);
  wmma::store_matrix_sync(s_up[warp], cu, BLK, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < BLK * BLK; i += 32) {
    const int r = i / BLK, c = i % BLK;
    const float v = silu(s_gate[warp][i]) * s_up[warp][i];
    out[(size_t)(row0 + r) * inter_size + block_n * BLK + c] = __float2bfloat16(v);
  }
}

at::Tensor w13_swiglu(at::Tensor x, at::Tensor w13) {
  CHECK_CUDA(x); CHECK_CONTIGUOUS(x); CHECK_CUDA(w13); CHECK_CONTIGUOUS(w13);
  const int tokens = x.size(0), hidden = x.size(1), inter = w13.size(0) / 2;
  TORCH_CHECK(tokens % 16 == 0 && hidden % 16 == 0 && inter % 16 == 0);
  auto out = at::empty({tokens, inter}, x.options());
  dim3 grid((inter / 16 + WARPS_N - 1) / WARPS_N, tokens / 16);
  w13_swiglu_kernel<<<grid, WARPS_N * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __nv_bfloat16*>(x.data_ptr<at::BFloat16>()),
      reinterpret_cast<const __nv_bfloat16*>(w13.data_ptr<at::BFloat16>()),
      reinterpret_cast<__nv_bfloat16*>(out.data_ptr<at::BFloat16>()), tokens, inter, hidden);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("w13_swiglu", &w13_swiglu); }
