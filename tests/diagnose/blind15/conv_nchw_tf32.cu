// Implicit im2col convolution for NCHW float tensors on TF32 tensor cores.
// For each image:  out[oc][p] = bias[oc] + sum_k weight[oc][k] * col[k][p],  k = (c * kh + i) * kw + j,  p = oh * ow_n + ow
#include <mma.h>

#define CUDA_KERNEL_LOOP(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)

namespace wmma = nvcuda::wmma;

const int TILE_OC = 32;  // output channels of a block
const int TILE_P = 32;   // output pixels of a block
const int TILE_K = 16;   // rows of the column matrix in shared memory
const int PAD = 4;

struct ConvShape {
  int channels, height, width;
  int out_channels, out_height, out_width;
  int kernel_h, kernel_w;
  int stride, pad, dilation;
};

__device__ float im2col_value(const float* image, const ConvShape& s, int k, int p) {
  const int kw = k % s.kernel_w;
  const int kh = k / s.kernel_w % s.kernel_h;
  const int c = k / (s.kernel_w * s.kernel_h);
  const int ow = p % s.out_width;
  const int oh = p / s.out_width;
  const int h = oh * s.stride - s.pad + kh * s.dilation;
  const int w = ow * s.stride - s.pad + kw * s.dilation;
  if (h < 0 || h >= s.height || w < 0 || w >= s.width) {
    return 0.f;
  }
  return image[(c * s.height + h) * s.width + w];
}

__global__ void conv2d_tf32(const float* input, const float* weight, const float* bias, float* output, ConvShape s) {
  __shared__ __align__(32) float w_tile[TILE_OC][TILE_K + PAD];
  __shared__ __align__(32) float col_tile[TILE_K][TILE_P + PAD];
  __shared__ __align__(32) float out_tile[TILE_OC][TILE_P + PAD];

  const int n = blockIdx.z;
  const int oc0 = blockIdx.y * TILE_OC;
  const int p0 = blockIdx.x * TILE_P;
  const int depth = s.channels * s.kernel_h * s.kernel_w;
  const int pixels = s.out_height * s.out_width;
  const int warp = threadIdx.x / warpSize;
  const int warp_oc = warp / 2 * 16;
  const int warp_p = warp % 2 * 16;

  input += n * s.channels * s.height * s.width;
  output += n * s.out_channels * pixels;

  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> w_frag;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> col_frag;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.f);

  for (int k0 = 0; k0 < depth; k0 += TILE_K) {
    CUDA_KERNEL_LOOP(i, TILE_OC * TILE_K) {
      const int oc = i / TILE_K;
      const int k = i % TILE_K;
      float value = 0.f;
      if (oc0 + oc < s.out_channels && k0 + k < depth) {
        value = weight[(oc0 + oc) * depth + k0 + k];
      }
      w_tile[oc][k] = wmma::__float_to_tf32(value);
    }
    CUDA_KERNEL_LOOP(i, TILE_K * TILE_P) {
      const int k = i / TILE_P;
      const int p = i % TILE_P;
      float value = 0.f;
      if (k0 + k < depth && p0 + p < pixels) {
        value = im2col_value(input, s, k0 + k, p0 + p);
      }
      col_tile[k][p] = wmma::__float_to_tf32(value);
    }
    __syncthreads();

    for (int k = 0; k < TILE_K; k += 8) {
      wmma::load_matrix_sync(w_frag, &w_tile[warp_oc][k], TILE_K + PAD);
      wmma::load_matrix_sync(col_frag, &col_tile[k][warp_p], TILE_P + PAD);
      wmma::mma_sync(sum, w_frag, col_frag, sum);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(&out_tile[warp_oc][warp_p], sum, TILE_P + PAD, wmma::mem_row_major);
  __syncthreads();

  CUDA_KERNEL_LOOP(i, TILE_OC * TILE_P) {
    const int oc = i / TILE_P;
    const int p = i % TILE_P;
    if (oc0 + oc < s.out_channels && p0 + p < pixels) {
      const float value = out_tile[oc][p] + bias[oc0 + oc];
      output[(oc0 + oc) * pixels + p0 + p] = value > 0.f ? value : 0.f;
    }
  }
}
