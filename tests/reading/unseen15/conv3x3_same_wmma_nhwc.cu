#include <cassert>
#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

// 3x3 "same" convolution, stride 1, NHWC activations and RSCK filters, as an implicit GEMM:
// rows are output pixels, columns output channels, the reduction runs over (r, s, c).

namespace wm = nvcuda::wmma;

struct ConvShape {
  int batch;
  int height;
  int width;
  int in_channels;
  int out_channels;
};

constexpr int kPixels = 64;   // per block
constexpr int kFilters = 32;  // per block
constexpr int kDepth = 16;    // channels per step

__global__ __launch_bounds__(256) void conv3x3_same_kernel(const __half* __restrict__ input,
                                                           const __half* __restrict__ filter,
                                                           __half* __restrict__ output, ConvShape p) {
  __shared__ __half pixel_tile[kPixels * kDepth];
  __shared__ __half filter_tile[kDepth * kFilters];
  __shared__ float result[kPixels * kFilters];

  const int pixels = p.batch * p.height * p.width;
  const int pix0 = blockIdx.x * kPixels;
  const int k0 = blockIdx.y * kFilters;
  const int warp = threadIdx.x / 32;
  const int wrow = warp % 4, wcol = warp / 4;

  wm::fragment<wm::accumulator, 16, 16, 16, float> sum;
  wm::fill_fragment(sum, 0.f);

  for (int rs = 0; rs < 9; ++rs) {
    const int dy = rs / 3 - 1, dx = rs % 3 - 1;
    for (int c0 = 0; c0 < p.in_channels; c0 += kDepth) {
      for (int i = threadIdx.x; i < kPixels * kDepth; i += blockDim.x) {
        const int pix = pix0 + i / kDepth, c = c0 + i % kDepth;
        const int img = pix / (p.height * p.width);
        const int y = pix / p.width % p.height + dy;
        const int x = pix % p.width + dx;
        const bool inside = pix < pixels && c < p.in_channels && y >= 0 && y < p.height && x >= 0 && x < p.width;
        pixel_tile[i] =
            inside ? input[((static_cast<size_t>(img) * p.height + y) * p.width + x) * p.in_channels + c]
                   : __half(0.f);
      }
      for (int i = threadIdx.x; i < kDepth * kFilters; i += blockDim.x) {
        const int c = c0 + i / kFilters, k = k0 + i % kFilters;
        filter_tile[i] = (c < p.in_channels && k < p.out_channels)
                             ? filter[(static_cast<size_t>(rs) * p.in_channels + c) * p.out_channels + k]
                             : __half(0.f);
      }
      __syncthreads();
      wm::fragment<wm::matrix_a, 16, 16, 16, __half, wm::row_major> a;
      wm::fragment<wm::matrix_b, 16, 16, 16, __half, wm::row_major> b;
      wm::load_matrix_sync(a, pixel_tile + wrow * 16 * kDepth, kDepth);
      wm::load_matrix_sync(b, filter_tile + wcol * 16, kFilters);
      wm::mma_sync(sum, a, b, sum);
      __syncthreads();
    }
  }
  wm::store_matrix_sync(result + wrow * 16 * kFilters + wcol * 16, sum, kFilters, wm::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kPixels * kFilters; i += blockDim.x) {
    const int pix = pix0 + i / kFilters, k = k0 + i % kFilters;
    if (pix < pixels && k < p.out_channels) output[static_cast<size_t>(pix) * p.out_channels + k] = __float2half(result[i]);
  }
}

class Conv3x3 {
 public:
  Conv3x3(int in_channels, int out_channels) : cin_(in_channels), cout_(out_channels) {}

  void forward(const __half* input, const __half* filter, __half* output, int n, int h, int w, cudaStream_t s = 0) const {
    assert(input && filter && output);
    ConvShape shape{n, h, w, cin_, cout_};
    const int pixels = n * h * w;
    dim3 grid((pixels + kPixels - 1) / kPixels, (cout_ + kFilters - 1) / kFilters);
    conv3x3_same_kernel<<<grid, 256, 0, s>>>(input, filter, output, shape);
  }

 private:
  int cin_, cout_;
};
