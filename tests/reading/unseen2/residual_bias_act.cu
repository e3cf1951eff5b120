#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
// out = silu(x @ w^T + bias) ; x [tokens, in], w [out, in]
extern "C" __global__ void fused_linear_silu(const __nv_bfloat16* input, const __nv_bfloat16* weight, const __nv_bfloat16* bias,
                                            __nv_bfloat16* output, int num_tokens, int out_features, int in_features) {
  __shared__ __align__(32) float tile[4][256];
  int w = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row = blockIdx.x * 32 + w / 2 * 16, col = blockIdx.y * 32 + w % 2 * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int k = 0; k < in_features; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
    wmma::load_matrix_sync(a, input + row * in_features + k, in_features);
    wmma::load_matrix_sync(b, weight + col * in_features + k, in_features);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(tile[w], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    float v = tile[w][i] + __bfloat162float(bias[col + i % 16]);
    output[(row + i / 16) * out_features + col + i % 16] = __float2bfloat16(v / (1.f + expf(-v)));
  }
}
