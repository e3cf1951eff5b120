#include <cuda_fp16.h>
#include <mma.h>

/*
 * Forward convolution as an implicit GEMM on tensor cores.
 *
 *   input  N x H x W x C        (half, C is a multiple of 8)
 *   filter K x R x S x C        (half)
 *   output N x P x Q x K        (half), relu(conv + bias)
 *
 * GEMM rows are output pixels (n, p, q), GEMM columns are filters, and the depth runs over (r, s, c).
 */

using namespace nvcuda::wmma;

struct conv_shape_t {
  int n, h, w, c;
  int k, r, s;
  int p, q;
  int stride_h, stride_w;
  int pad_h, pad_w;
};

#define PIXELS_PER_BLOCK 64
#define FILTERS_PER_BLOCK 32
#define DEPTH 16
#define PITCH 24      /* of a row of DEPTH elements in shared memory */
#define OUT_PITCH 36  /* of a row of FILTERS_PER_BLOCK results */
#define BLOCK_THREADS 128

/* where the window of an output pixel begins in the image */
struct window_t {
  int image;
  int top;
  int left;
};

static __device__ window_t window_of(const conv_shape_t& shape, int pixel)
{
  window_t window;
  int in_image = pixel % (shape.p * shape.q);
  window.image = pixel / (shape.p * shape.q);
  window.top = in_image / shape.q * shape.stride_h - shape.pad_h;
  window.left = in_image % shape.q * shape.stride_w - shape.pad_w;
  return window;
}

/* eight channels of the image under tap (r, s), or zeros outside */
static __device__ uint4 gather(const half* input, const conv_shape_t& shape, const window_t& window, int depth)
{
  int channel = depth % shape.c;
  int tap = depth / shape.c;
  int y = window.top + tap / shape.s;
  int x = window.left + tap % shape.s;
  if (window.image >= shape.n || tap >= shape.r * shape.s) return make_uint4(0, 0, 0, 0);
  if (y < 0 || y >= shape.h || x < 0 || x >= shape.w) return make_uint4(0, 0, 0, 0);
  size_t offset = (((size_t)window.image * shape.h + y) * shape.w + x) * shape.c + channel;
  return *(const uint4*)(input + offset);
}

extern "C" __global__ void conv2d_fprop_relu(const half* input, const half* filter, const float* bias, half* output,
                                             conv_shape_t shape)
{
  __shared__ __align__(32) half pixels[PIXELS_PER_BLOCK][PITCH];
  __shared__ __align__(32) half filters[FILTERS_PER_BLOCK][PITCH];
  __shared__ __align__(32) float results[PIXELS_PER_BLOCK][OUT_PITCH];

  int thread = threadIdx.x;
  int warp = thread / warpSize;
  int first_pixel = blockIdx.x * PIXELS_PER_BLOCK;
  int first_filter = blockIdx.y * FILTERS_PER_BLOCK;
  int depth_total = shape.r * shape.s * shape.c;

  /* this thread brings eight channels of one pixel, and half of the threads eight of one filter */
  int my_row = thread / 2;
  int my_part = thread % 2 * 8;
  window_t window = window_of(shape, first_pixel + my_row);
  int my_filter = first_filter + my_row;

  fragment<accumulator, 16, 16, 16, float> sums[2];
  fill_fragment(sums[0], 0.0f);
  fill_fragment(sums[1], 0.0f);

  for (int depth0 = 0; depth0 < depth_total; depth0 += DEPTH) {
    int depth = depth0 + my_part;
    *(uint4*)&pixels[my_row][my_part] = gather(input, shape, window, depth);
    if (my_row < FILTERS_PER_BLOCK) {
      uint4 taps = make_uint4(0, 0, 0, 0);
      if (my_filter < shape.k && depth < depth_total)
        taps = *(const uint4*)(filter + (size_t)my_filter * depth_total + depth);
      *(uint4*)&filters[my_row][my_part] = taps;
    }
    __syncthreads();

    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    load_matrix_sync(a, &pixels[warp * 16][0], PITCH);
    for (int j = 0; j < 2; j++) {
      fragment<matrix_b, 16, 16, 16, half, col_major> b;
      load_matrix_sync(b, &filters[j * 16][0], PITCH);
      mma_sync(sums[j], a, b, sums[j]);
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; j++)
    store_matrix_sync(&results[warp * 16][j * 16], sums[j], OUT_PITCH, mem_row_major);
  __syncthreads();

  int pixel_count = shape.n * shape.p * shape.q;
  for (int i = thread; i < PIXELS_PER_BLOCK * FILTERS_PER_BLOCK; i += BLOCK_THREADS) {
    int row = i / FILTERS_PER_BLOCK;
    int column = i % FILTERS_PER_BLOCK;
    int pixel = first_pixel + row;
    int k = first_filter + column;
    if (pixel < pixel_count && k < shape.k) {
      float value = results[row][column] + bias[k];
      output[(size_t)pixel * shape.k + k] = __float2half(fmaxf(value, 0.0f));
    }
  }
}
