#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <torch/extension.h>

// h = silu(x Wg^T) * (x Wu^T): both products of a LLaMA feed-forward in one kernel.
// x: [T, D], gate_weight, up_weight: [F, D], out: [T, F]

using namespace nvcuda;
using bf16 = __nv_bfloat16;

constexpr int TT = 32;
constexpr int TF = 64;
constexpr int TD = 32;

__global__ void swiglu_mlp_kernel(const bf16* __restrict__ x, const bf16* __restrict__ gate_weight,
                                  const bf16* __restrict__ up_weight, bf16* __restrict__ out, int T, int D, int F) {
  __shared__ __align__(16) bf16 sx[TT][TD];
  __shared__ __align__(16) bf16 sg[TF][TD];
  __shared__ __align__(16) bf16 su[TF][TD];
  __shared__ float og[TT][TF];
  __shared__ float ou[TT][TF];

  const int warp = threadIdx.x / 32;  // 8 warps: 2 x 4 tiles of 16
  const int wt = warp / 4 * 16, wf = warp % 4 * 16;
  const int t0 = blockIdx.x * TT, f0 = blockIdx.y * TF;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> g, u;
  wmma::fill_fragment(g, 0.0f);
  wmma::fill_fragment(u, 0.0f);

  for (int d0 = 0; d0 < D; d0 += TD) {
    for (int i = threadIdx.x; i < TT * TD; i += blockDim.x) {
      int r = i / TD, c = i % TD;
      sx[r][c] = (t0 + r < T) ? x[(t0 + r) * D + d0 + c] : __float2bfloat16(0.f);
    }
    for (int i = threadIdx.x; i < TF * TD; i += blockDim.x) {
      int r = i / TD, c = i % TD;
      bool ok = f0 + r < F;
      sg[r][c] = ok ? gate_weight[(f0 + r) * D + d0 + c] : __float2bfloat16(0.f);
      su[r][c] = ok ? up_weight[(f0 + r) * D + d0 + c] : __float2bfloat16(0.f);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < TD; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fx;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fg, fu;
      wmma::load_matrix_sync(fx, &sx[wt][d], TD);
      wmma::load_matrix_sync(fg, &sg[wf][d], TD);
      wmma::load_matrix_sync(fu, &su[wf][d], TD);
      wmma::mma_sync(g, fx, fg, g);
      wmma::mma_sync(u, fx, fu, u);
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(&og[wt][wf], g, TF, wmma::mem_row_major);
  wmma::store_matrix_sync(&ou[wt][wf], u, TF, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < TT * TF; i += blockDim.x) {
    int r = i / TF, c = i % TF;
    if (t0 + r < T && f0 + c < F) {
      float gv = og[r][c];
      float silu = gv / (1.0f + expf(-gv));
      out[(t0 + r) * F + f0 + c] = __float2bfloat16(silu * ou[r][c]);
    }
  }
}

at::Tensor swiglu_mlp(const at::Tensor& x, const at::Tensor& gate_weight, const at::Tensor& up_weight) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::ScalarType::BFloat16);
  TORCH_CHECK(x.is_contiguous() && gate_weight.is_contiguous() && up_weight.is_contiguous());
  const auto T = x.size(0), D = x.size(1), F = gate_weight.size(0);
  TORCH_CHECK(D % TD == 0, "D must be a multiple of 32");
  auto out = at::empty({T, F}, x.options());
  const dim3 grid((T + TT - 1) / TT, (F + TF - 1) / TF);
  swiglu_mlp_kernel<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
      static_cast<const bf16*>(x.data_ptr()), static_cast<const bf16*>(gate_weight.data_ptr()),
      static_cast<const bf16*>(up_weight.data_ptr()), static_cast<bf16*>(out.data_ptr()), T, D, F);
  return out;
}

TORCH_LIBRARY(llama_ops, m) { m.def("swiglu_mlp", swiglu_mlp); }
