// conv2d forward as an implicit GEMM, NCHW, dilated, with bias and ReLU.
//   rows of the product:    filters          (32 per warp)
//   columns of the product: output pixels    ( 8 per warp)
//   inner dimension:        channel * tap    (16 at a time)
// im2col is done on the fly: a pixel's column is gathered into shared memory.
#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::fragment;

struct ConvShape {
    int batch, in_c, in_h, in_w;
    int out_c, out_h, out_w;
    int ker_h, ker_w;
    int stride, pad, dilation;
};

enum { FILTERS = 32, PIXELS = 32, DEPTH = 32, N_WARPS = 4, N_THREADS = 128 };
enum { W_PITCH = DEPTH + 8, X_PITCH = DEPTH + 8, Y_PITCH = PIXELS + 4 };

__global__ void conv2d_relu_fwd(ConvShape s, const __half *__restrict__ x, const __half *__restrict__ w,
                                const float *__restrict__ bias, __half *__restrict__ y)
{
    __shared__ __align__(32) __half w_tile[FILTERS][W_PITCH];
    __shared__ __align__(32) __half x_tile[PIXELS][X_PITCH];
    __shared__ __align__(32) float y_tile[FILTERS][Y_PITCH];

    const int taps = s.ker_h * s.ker_w;
    const int depth = s.in_c * taps;
    const int plane = s.out_h * s.out_w;
    const int pixels = s.batch * plane;
    const int pixel0 = blockIdx.x * PIXELS;
    const int filter0 = blockIdx.y * FILTERS;
    const int tid = threadIdx.x;
    const int warp = tid >> 5;

    // the pixel that this thread gathers: four threads share one
    const int my_pixel = tid >> 2;
    const int pix = pixel0 + my_pixel;
    const int img = pix / plane;
    const int oy = pix % plane / s.out_w;
    const int ox = pix % s.out_w;
    const int iy0 = oy * s.stride - s.pad;
    const int ix0 = ox * s.stride - s.pad;

    fragment<nvcuda::wmma::accumulator, 32, 8, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.0f);

    for (int d0 = 0; d0 < depth; d0 += DEPTH) {
        for (int i = tid; i < FILTERS * DEPTH; i += N_THREADS) {
            const int f = i / DEPTH, d = i % DEPTH;
            __half value = __float2half(0.0f);
            if (filter0 + f < s.out_c && d0 + d < depth)
                value = w[(size_t)(filter0 + f) * depth + d0 + d];
            w_tile[f][d] = value;
        }
        for (int d = tid & 3; d < DEPTH; d += 4) {
            const int c = (d0 + d) / taps;
            const int tap = (d0 + d) % taps;
            const int iy = iy0 + tap / s.ker_w * s.dilation;
            const int ix = ix0 + tap % s.ker_w * s.dilation;
            const bool inside = pix < pixels && c < s.in_c && iy >= 0 && iy < s.in_h && ix >= 0 && ix < s.in_w;
            __half value = __float2half(0.0f);
            if (inside)
                value = x[((size_t)(img * s.in_c + c) * s.in_h + iy) * s.in_w + ix];
            x_tile[my_pixel][d] = value;
        }
        __syncthreads();

        for (int d = 0; d < DEPTH; d += 16) {
            fragment<nvcuda::wmma::matrix_a, 32, 8, 16, __half, nvcuda::wmma::row_major> wf;
            fragment<nvcuda::wmma::matrix_b, 32, 8, 16, __half, nvcuda::wmma::col_major> xf;
            nvcuda::wmma::load_matrix_sync(wf, &w_tile[0][d], W_PITCH);
            nvcuda::wmma::load_matrix_sync(xf, &x_tile[warp * 8][d], X_PITCH);
            nvcuda::wmma::mma_sync(acc, wf, xf, acc);
        }
        __syncthreads();
    }

    nvcuda::wmma::store_matrix_sync(&y_tile[0][warp * 8], acc, Y_PITCH, nvcuda::wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < FILTERS * PIXELS; i += N_THREADS) {
        const int f = i / PIXELS;
        const int p = pixel0 + i % PIXELS;
        if (filter0 + f >= s.out_c || p >= pixels)
            continue;
        const float sum = y_tile[f][i % PIXELS] + bias[filter0 + f];
        const int image = p / plane;
        y[((size_t)image * s.out_c + filter0 + f) * plane + p % plane] = __float2half(fmaxf(sum, 0.0f));
    }
}
