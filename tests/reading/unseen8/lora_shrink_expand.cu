// y += scaling * (x A^T) B^T, as two kernels: "shrink" to the rank, "expand" to the features.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CEIL_DIV(x, y) (((x) + (y)-1) / (y))

namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;
typedef __nv_bfloat16 bf16_t;

// t[tokens, rank] = x[tokens, in] * A[rank, in]^T ; rank is a multiple of 16, one warp per 16x16 tile
__global__ void lora_shrink_kernel(const bf16_t* x, const bf16_t* lora_a, bf16_t* t, int tokens, int rank,
                                   int in_features) {
  __shared__ float buf[16 * 16];
  fragment<accumulator, 16, 16, 16, float> acc;
  nvcuda::wmma::fill_fragment(acc, 0.f);
  const bf16_t* xp = x + (size_t)blockIdx.y * 16 * in_features;
  const bf16_t* ap = lora_a + (size_t)blockIdx.x * 16 * in_features;
  for (int k = 0; k < in_features; k += 16) {
    fragment<matrix_a, 16, 16, 16, bf16_t, row_major> fx;
    fragment<matrix_b, 16, 16, 16, bf16_t, col_major> fa;
    nvcuda::wmma::load_matrix_sync(fx, xp + k, in_features);
    nvcuda::wmma::load_matrix_sync(fa, ap + k, in_features);
    nvcuda::wmma::mma_sync(acc, fx, fa, acc);
  }
  nvcuda::wmma::store_matrix_sync(buf, acc, 16, nvcuda::wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32)
    t[(size_t)(blockIdx.y * 16 + i / 16) * rank + blockIdx.x * 16 + i % 16] = __float2bfloat16(buf[i]);
}

// y[tokens, out] += scaling * t[tokens, rank] * B[out, rank]^T
__global__ void lora_expand_kernel(const bf16_t* t, const bf16_t* lora_b, bf16_t* y, int tokens, int rank,
                                   int out_features, float scaling) {
  __shared__ float buf[16 * 16];
  fragment<accumulator, 16, 16, 16, float> acc;
  nvcuda::wmma::fill_fragment(acc, 0.f);
  for (int k = 0; k < rank; k += 16) {
    fragment<matrix_a, 16, 16, 16, bf16_t, row_major> ft;
    fragment<matrix_b, 16, 16, 16, bf16_t, col_major> fb;
    nvcuda::wmma::load_matrix_sync(ft, t + (size_t)blockIdx.y * 16 * rank + k, rank);
    nvcuda::wmma::load_matrix_sync(fb, lora_b + (size_t)blockIdx.x * 16 * rank + k, rank);
    nvcuda::wmma::mma_sync(acc, ft, fb, acc);
  }
  nvcuda::wmma::store_matrix_sync(buf, acc, 16, nvcuda::wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    const size_t at = (size_t)(blockIdx.y * 16 + i / 16) * out_features + blockIdx.x * 16 + i % 16;
    y[at] = __float2bfloat16(__bfloat162float(y[at]) + scaling * buf[i]);
  }
}

}  // namespace

// x [tokens, in_features], lora_a [rank, in_features], lora_b [out_features, rank], y [tokens, out_features]
void add_lora(const bf16_t* x, const bf16_t* lora_a, const bf16_t* lora_b, bf16_t* scratch, bf16_t* y, int tokens,
              int in_features, int out_features, int rank, float scaling, cudaStream_t stream) {
  dim3 shrink_grid(CEIL_DIV(rank, 16), CEIL_DIV(tokens, 16));
  lora_shrink_kernel<<<shrink_grid, 32, 0, stream>>>(x, lora_a, scratch, tokens, rank, in_features);
  dim3 expand_grid(CEIL_DIV(out_features, 16), CEIL_DIV(tokens, 16));
  lora_expand_kernel<<<expand_grid, 32, 0, stream>>>(scratch, lora_b, y, tokens, rank, out_features, scaling);
}
