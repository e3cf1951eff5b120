// Modulated deformable convolution (DCNv2), forward, channels last, half precision.
//
// Instead of writing the sampled columns to global memory (modulated_deformable_im2col + GEMM), a block samples the
// columns of its output pixels into shared memory, 32 channels of one kernel tap at a time, and multiplies them there.
//
//   input   [N, H, W, C]          offset [N, Ho, Wo, 2 * taps]   (dy, dx pairs)
//   mask    [N, Ho, Wo, taps]     weight [taps * C, Co]          output [N, Ho, Wo, Co]
#include <cuda_fp16.h>
#include <mma.h>

struct DcnParam {
  const half *input;
  const float *offset;
  const float *mask;
  const half *weight;
  const float *bias;
  half *output;
  int batch, height, width, channels;
  int height_out, width_out, channels_out;
  int kernel_h, kernel_w, stride, pad, dilation;
};

template <int kPixels, int kCout>
struct DcnTile {
  static constexpr int kThreads = (kPixels / 16) * (kCout / 32) * 32;
  static constexpr int kChan = 32;
  static constexpr int kLdCol = kChan + 8;
  static constexpr int kLdW = kCout + 8;
  static constexpr int kLdOut = kCout + 4;
};

// 8 neighbouring channels of one corner, times its weight
__device__ __forceinline__ void add_corner(float *sum, const half *p, float w) {
  const uint4 raw = *reinterpret_cast<const uint4 *>(p);
  const half2 *h = reinterpret_cast<const half2 *>(&raw);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = __half22float2(h[i]);
    sum[2 * i] += w * f.x;
    sum[2 * i + 1] += w * f.y;
  }
}

template <int kPixels, int kCout>
__global__ void dcn_v2_forward(DcnParam p) {
  using T = DcnTile<kPixels, kCout>;
  using namespace nvcuda;
  __shared__ __align__(128) half s_col[kPixels][T::kLdCol];
  __shared__ __align__(128) half s_w[T::kChan][T::kLdW];
  __shared__ __align__(128) float s_out[kPixels][T::kLdOut];
  __shared__ float s_y[kPixels], s_x[kPixels], s_m[kPixels];
  __shared__ int s_img[kPixels];

  const int tid = threadIdx.x;
  const int warp = tid / 32;
  const int warp_m = warp % (kPixels / 16), warp_n = warp / (kPixels / 16);
  const int pixel0 = blockIdx.x * kPixels;
  const int n0 = blockIdx.y * kCout;
  const int pixels = p.batch * p.height_out * p.width_out;
  const int taps = p.kernel_h * p.kernel_w;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.f);
  wmma::fill_fragment(acc[1], 0.f);

  for (int tap = 0; tap < taps; ++tap) {
    __syncthreads();
    // where this tap lies for each of our pixels
    if (tid < kPixels) {
      const int pixel = pixel0 + tid;
      float y = -2.f, x = -2.f, m = 0.f;
      int img = 0;
      if (pixel < pixels) {
        const int ox = pixel % p.width_out;
        const int oy = pixel / p.width_out % p.height_out;
        img = pixel / (p.width_out * p.height_out);
        const float *off = p.offset + (size_t)pixel * 2 * taps + 2 * tap;
        y = oy * p.stride - p.pad + (tap / p.kernel_w) * p.dilation + off[0];
        x = ox * p.stride - p.pad + (tap % p.kernel_w) * p.dilation + off[1];
        m = p.mask[(size_t)pixel * taps + tap];
      }
      s_y[tid] = y;
      s_x[tid] = x;
      s_m[tid] = m;
      s_img[tid] = img;
    }
    __syncthreads();

    for (int c0 = 0; c0 < p.channels; c0 += T::kChan) {
      // sample: one thread has 8 channels of a pixel
      for (int i = tid; i < kPixels * (T::kChan / 8); i += T::kThreads) {
        const int r = i / (T::kChan / 8), c = i % (T::kChan / 8) * 8;
        const float y = s_y[r], x = s_x[r];
        float sum[8] = {};
        if (y > -1.f && x > -1.f && y < p.height && x < p.width && c0 + c < p.channels) {
          const int y_low = (int)floorf(y), x_low = (int)floorf(x);
          const int y_high = y_low + 1, x_high = x_low + 1;
          const float ly = y - y_low, lx = x - x_low;
          const float hy = 1.f - ly, hx = 1.f - lx;
          const half *img = p.input + (size_t)s_img[r] * p.height * p.width * p.channels + c0 + c;
          if (y_low >= 0 && x_low >= 0) add_corner(sum, img + (y_low * p.width + x_low) * p.channels, hy * hx);
          if (y_low >= 0 && x_high < p.width) add_corner(sum, img + (y_low * p.width + x_high) * p.channels, hy * lx);
          if (y_high < p.height && x_low >= 0) add_corner(sum, img + (y_high * p.width + x_low) * p.channels, ly * hx);
          if (y_high < p.height && x_high < p.width)
            add_corner(sum, img + (y_high * p.width + x_high) * p.channels, ly * lx);
        }
        half2 *dst = reinterpret_cast<half2 *>(&s_col[r][c]);
        for (int j = 0; j < 4; ++j) dst[j] = __floats2half2_rn(sum[2 * j] * s_m[r], sum[2 * j + 1] * s_m[r]);
      }
      // the weights of this tap and these channels
      for (int i = tid; i < T::kChan * (kCout / 8); i += T::kThreads) {
        const int r = i / (kCout / 8), c = i % (kCout / 8) * 8;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (c0 + r < p.channels && n0 + c < p.channels_out)
          v = *reinterpret_cast<const uint4 *>(p.weight + (size_t)(tap * p.channels + c0 + r) * p.channels_out + n0 + c);
        *reinterpret_cast<uint4 *>(&s_w[r][c]) = v;
      }
      __syncthreads();

      for (int k = 0; k < T::kChan; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, &s_col[warp_m * 16][k], T::kLdCol);
        for (int j = 0; j < 2; ++j) {
          wmma::load_matrix_sync(b, &s_w[k][warp_n * 32 + j * 16], T::kLdW);
          wmma::mma_sync(acc[j], a, b, acc[j]);
        }
      }
      __syncthreads();
    }
  }

  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(&s_out[warp_m * 16][warp_n * 32 + j * 16], acc[j], T::kLdOut, wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < kPixels * kCout; i += T::kThreads) {
    const int r = i / kCout, c = i % kCout;
    if (pixel0 + r < pixels && n0 + c < p.channels_out)
      p.output[(size_t)(pixel0 + r) * p.channels_out + n0 + c] = __float2half(s_out[r][c] + p.bias[n0 + c]);
  }
}

void modulated_deform_conv_forward(const DcnParam &p, cudaStream_t stream) {
  const int pixels = p.batch * p.height_out * p.width_out;
  dim3 grid((pixels + 31) / 32, (p.channels_out + 63) / 64);
  dcn_v2_forward<32, 64><<<grid, DcnTile<32, 64>::kThreads, 0, stream>>>(p);
}
