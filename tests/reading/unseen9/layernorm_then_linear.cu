#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace block {

__global__ void layernorm_kernel(const __half* __restrict__ x, const float* __restrict__ gamma,
                                 const float* __restrict__ beta, __half* __restrict__ normed, int hidden, float eps) {
  __shared__ float red[2][32];
  const __half* in = x + (size_t)blockIdx.x * hidden;
  __half* out = normed + (size_t)blockIdx.x * hidden;
  float s = 0.f, ss = 0.f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float v = __half2float(in[i]);
    s += v;
    ss += v * v;
  }
  for (int o = 16; o > 0; o /= 2) {
    s += __shfl_down_sync(0xffffffffu, s, o);
    ss += __shfl_down_sync(0xffffffffu, ss, o);
  }
  if (threadIdx.x % 32 == 0) {
    red[0][threadIdx.x / 32] = s;
    red[1][threadIdx.x / 32] = ss;
  }
  __syncthreads();
  s = ss = 0.f;
  for (int w = 0; w < blockDim.x / 32; ++w) {
    s += red[0][w];
    ss += red[1][w];
  }
  const float mean = s / hidden;
  const float rstd = rsqrtf(ss / hidden - mean * mean + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    out[i] = __float2half((__half2float(in[i]) - mean) * rstd * gamma[i] + beta[i]);
}

__global__ void linear_kernel(const __half* __restrict__ a, const __half* __restrict__ w,
                              const float* __restrict__ bias, __half* __restrict__ y, int rows, int in, int out) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) float tile[4][16][16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int r = (blockIdx.y * 2 + warp / 2) * 16, c = (blockIdx.x * 2 + warp % 2) * 16;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.f);
  for (int k = 0; k < in; k += 16) {
    fragment<matrix_a, 16, 16, 16, __half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, __half, col_major> fw;
    load_matrix_sync(fa, a + (size_t)r * in + k, in);
    load_matrix_sync(fw, w + (size_t)c * in + k, in);
    mma_sync(acc, fa, fw, acc);
  }
  store_matrix_sync(&tile[warp][0][0], acc, 16, mem_row_major);
  __syncwarp();
  for (int e = lane; e < 256; e += 32)
    y[(size_t)(r + e / 16) * out + c + e % 16] = __float2half(tile[warp][e / 16][e % 16] + bias[c + e % 16]);
}

}  // namespace block

// rows, in and out are multiples of 32
void ln_linear(const __half* x, const float* gamma, const float* beta, const __half* w, const float* bias, __half* y,
               __half* workspace, int rows, int in, int out, cudaStream_t stream) {
  block::layernorm_kernel<<<rows, 256, 0, stream>>>(x, gamma, beta, workspace, in, 1e-5f);
  block::linear_kernel<<<dim3(out / 32, rows / 32), 128, 0, stream>>>(workspace, w, bias, y, rows, in, out);
}
