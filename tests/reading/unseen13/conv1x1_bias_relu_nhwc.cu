#include <cuda_fp16.h>
#include <mma.h>

#include <stdexcept>

namespace conv {

using namespace nvcuda;

// Pointwise convolution, NHWC: out[n, h, w, k] = relu(sum_c in[n, h, w, c] * filter[k, c] + bias[k])
__global__ void conv1x1_bias_relu_kernel(const half* __restrict__ input, const half* __restrict__ filter,
                                         const half* __restrict__ bias, half* __restrict__ output, int pixels, int channels,
                                         int filters) {
  __shared__ __align__(32) float stage[8][16 * 16];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int p0 = (blockIdx.x * 8 + warp) * 16, f0 = blockIdx.y * 16;
  if (p0 >= pixels) return;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int c = 0; c < channels; c += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, input + (size_t)p0 * channels + c, channels);
    wmma::load_matrix_sync(b, filter + (size_t)f0 * channels + c, channels);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(stage[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) {
    float v = stage[warp][i] + __half2float(bias[f0 + i % 16]);
    output[(size_t)(p0 + i / 16) * filters + f0 + i % 16] = __float2half(v > 0.f ? v : 0.f);
  }
}

void conv1x1_bias_relu(const half* input, const half* filter, const half* bias, half* output, int n, int h, int w, int c,
                       int k, cudaStream_t stream) {
  const int pixels = n * h * w;
  if (pixels % 16 != 0 || c % 16 != 0 || k % 16 != 0) throw std::invalid_argument("sizes must be multiples of 16");
  dim3 grid((pixels / 16 + 7) / 8, k / 16);
  conv1x1_bias_relu_kernel<<<grid, 256, 0, stream>>>(input, filter, bias, output, pixels, c, k);
}

}  // namespace conv
