#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// MobileNet block, NHWC: depthwise 3x3 (stride 1, padding 1) + ReLU6, then a 1x1 convolution on tensor cores.
using namespace nvcuda;

namespace mobilenet {

template <int KS>
__global__ void dwconv_relu6_nhwc(const half* __restrict__ in, const half* __restrict__ filter, const half* __restrict__ bias,
                                  half* __restrict__ out, int N, int H, int W, int C) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int pix = blockIdx.y;
  if (c >= C) return;
  const int n = pix / (H * W), y = pix / W % H, x = pix % W;
  float acc = __half2float(bias[c]);
#pragma unroll
  for (int i = 0; i < KS; ++i)
#pragma unroll
    for (int j = 0; j < KS; ++j) {
      const int yy = y + i - KS / 2, xx = x + j - KS / 2;
      if (yy >= 0 && yy < H && xx >= 0 && xx < W)
        acc += __half2float(in[((size_t)(n * H + yy) * W + xx) * C + c]) * __half2float(filter[(i * KS + j) * C + c]);
    }
  out[(size_t)pix * C + c] = __float2half(fminf(fmaxf(acc, 0.f), 6.f));
}

__global__ void pwconv_wmma(const half* __restrict__ act, const half* __restrict__ weight, half* __restrict__ out, int pixels, int Cin,
                            int Cout) {
  const int warp = threadIdx.y;
  const int row = blockIdx.x * 16, col = (blockIdx.y * blockDim.y + warp) * 16;
  if (row >= pixels || col >= Cout) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc;
  wmma::fill_fragment(acc, __float2half(0.f));
  for (int k = 0; k < Cin; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, act + (size_t)row * Cin + k, Cin);
    wmma::load_matrix_sync(b, weight + (size_t)col * Cin + k, Cin);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(out + (size_t)row * Cout + col, acc, Cout, wmma::mem_row_major);
}

}  // namespace mobilenet

void launch_depthwise(const half* in, const half* filter, const half* bias, half* out, int N, int H, int W, int C, cudaStream_t s) {
  dim3 grid((C + 127) / 128, N * H * W);
  mobilenet::dwconv_relu6_nhwc<3><<<grid, 128, 0, s>>>(in, filter, bias, out, N, H, W, C);
}

void launch_pointwise(const half* act, const half* weight, half* out, int pixels, int Cin, int Cout, cudaStream_t s) {
  dim3 block(32, 4), grid((pixels + 15) / 16, (Cout + 63) / 64);
  mobilenet::pwconv_wmma<<<grid, block, 0, s>>>(act, weight, out, pixels, Cin, Cout);
}
