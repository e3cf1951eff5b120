// Convolution of NHWC images with KRSC filters as an implicit GEMM: D[pixel, filter] = sum over (r, s, c) of
// X[n, p·stride - pad + r, q·stride - pad + s, c] · W[filter, r, s, c], then bias and ReLU.
//
// A block computes 32 pixels by 32 filters with four warps, one 16×16 tile each. Each step stages 16 channels of one tap,
// zeros where a tap lies outside the image. The channels are a multiple of 16; pixels and filters need not be.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 32, DEPTH = 16, PITCH = DEPTH + 8, PITCH_OUT = TILE + 4;

struct Shape {
    int n, h, w, c, k, r, s, p, q, stride, pad;
};

__global__ void conv2d_nhwc(const half* __restrict__ x, const half* __restrict__ filters,
                            const float* __restrict__ bias, half* __restrict__ y, Shape shape) {
    __shared__ __align__(32) half taps[TILE][PITCH];
    __shared__ __align__(32) half weights[TILE][PITCH];
    __shared__ __align__(32) float sums[TILE][PITCH_OUT];
    const int pixels = shape.n * shape.p * shape.q;
    const int first_pixel = blockIdx.x * TILE, first_filter = blockIdx.y * TILE;
    const int warp = threadIdx.x / 32, row = warp / 2 * 16, col = warp % 2 * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int r = 0; r < shape.r; ++r)
        for (int s = 0; s < shape.s; ++s)
            for (int c = 0; c < shape.c; c += DEPTH) {
                for (int i = threadIdx.x; i < TILE * DEPTH; i += blockDim.x) {
                    const int at = i / DEPTH, channel = c + i % DEPTH;
                    const int pixel = first_pixel + at, filter = first_filter + at;
                    half tap = __float2half(0.0f), weight = __float2half(0.0f);
                    if (pixel < pixels) {
                        const int image = pixel / (shape.p * shape.q), place = pixel % (shape.p * shape.q);
                        const int h = place / shape.q * shape.stride - shape.pad + r;
                        const int w = place % shape.q * shape.stride - shape.pad + s;
                        if (h >= 0 && h < shape.h && w >= 0 && w < shape.w)
                            tap = x[((image * shape.h + h) * shape.w + w) * shape.c + channel];
                    }
                    if (filter < shape.k)
                        weight = filters[((filter * shape.r + r) * shape.s + s) * shape.c + channel];
                    taps[at][i % DEPTH] = tap;
                    weights[at][i % DEPTH] = weight;
                }
                __syncthreads();
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, &taps[row][0], PITCH);
                wmma::load_matrix_sync(b, &weights[col][0], PITCH);
                wmma::mma_sync(acc, a, b, acc);
                __syncthreads();
            }

    wmma::store_matrix_sync(&sums[row][col], acc, PITCH_OUT, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * TILE; i += blockDim.x) {
        const int pixel = first_pixel + i / TILE, filter = first_filter + i % TILE;
        if (pixel < pixels && filter < shape.k)
            y[pixel * shape.k + filter] = __float2half(fmaxf(sums[i / TILE][i % TILE] + bias[filter], 0.0f));
    }
}
