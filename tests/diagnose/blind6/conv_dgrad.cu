/*
 * Gradient of a 2-D convolution with respect to its input ("dgrad", or the forward pass of a transposed convolution).
 *
 *   dx[n][h][w][c] = sum over taps (r, s) and filters k of  dy[n][p][q][k] * wgt[k][r][s][c]
 *       where p * stride - pad + r == h and q * stride - pad + s == w, if there are such p and q
 *
 * dy NPQK, wgt KRSC, dx NHWC, all fp16; sums in fp32.
 * One block makes 64 pixels of dx (GEMM rows) by 32 channels (GEMM columns), one warp 16 pixels.
 * K % 8 == 0 and C % 8 == 0, so that everything is read 8 halves at a time.
 */
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define PIXELS 64
#define CHANNELS 32
#define FILTERS 32 /* per step */
#define THREADS 128
#define A_LD (FILTERS + 8)
#define B_LD (CHANNELS + 8)
#define C_LD (CHANNELS + 4)

struct conv_shape {
    int n, h, w, c;    /* of dx */
    int k, r, s;       /* filters and their extent */
    int p, q;          /* of dy */
    int stride, pad;
};

/* which output row saw input row `pos` through tap `tap`; -1: none */
__device__ static int source_of(int pos, int tap, int stride, int pad, int extent)
{
    int at = pos + pad - tap;
    if (at < 0 || at % stride != 0)
        return -1;
    at /= stride;
    return at < extent ? at : -1;
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d_dgrad(const half *dy, const half *wgt, half *dx, conv_shape cs)
{
    __shared__ __align__(16) half a_tile[PIXELS * A_LD];
    __shared__ __align__(16) half b_tile[FILTERS * B_LD];
    __shared__ __align__(16) float c_tile[PIXELS * C_LD];
    __shared__ int px_n[PIXELS], px_h[PIXELS], px_w[PIXELS];

    const int total = cs.n * cs.h * cs.w;
    const int first = blockIdx.x * PIXELS;
    const int c0 = blockIdx.y * CHANNELS;
    const int tid = threadIdx.x;
    const int warp = tid / warpSize;
    const uint4 zero = make_uint4(0, 0, 0, 0);

    /* coordinates of the block's pixels, once */
    if (tid < PIXELS) {
        int pixel = first + tid;
        px_n[tid] = pixel < total ? pixel / (cs.h * cs.w) : -1;
        px_h[tid] = pixel / cs.w % cs.h;
        px_w[tid] = pixel % cs.w;
    }
    __syncthreads();

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2];
    wmma::fill_fragment(sum[0], 0.0f);
    wmma::fill_fragment(sum[1], 0.0f);

    for (int r = 0; r < cs.r; r++) {
        for (int s = 0; s < cs.s; s++) {
            for (int k0 = 0; k0 < cs.k; k0 += FILTERS) {
                /* A: the gradients that pixel gets through this tap */
                for (int i = tid; i < PIXELS * FILTERS / 8; i += THREADS) {
                    int row = i / (FILTERS / 8);
                    int kk = i % (FILTERS / 8) * 8;
                    int p = source_of(px_h[row], r, cs.stride, cs.pad, cs.p);
                    int q = source_of(px_w[row], s, cs.stride, cs.pad, cs.q);
                    uint4 v = zero;
                    if (px_n[row] >= 0 && p >= 0 && q >= 0 && k0 + kk < cs.k) {
                        size_t at = (((size_t)px_n[row] * cs.p + p) * cs.q + q) * cs.k + k0 + kk;
                        v = *(const uint4 *)(dy + at);
                    }
                    *(uint4 *)(a_tile + row * A_LD + kk) = v;
                }
                /* B: this tap's weights, one row for each filter */
                for (int i = tid; i < FILTERS * CHANNELS / 8; i += THREADS) {
                    int row = i / (CHANNELS / 8);
                    int cc = i % (CHANNELS / 8) * 8;
                    uint4 v = zero;
                    if (k0 + row < cs.k && c0 + cc < cs.c) {
                        size_t at = (((size_t)(k0 + row) * cs.r + r) * cs.s + s) * cs.c + c0 + cc;
                        v = *(const uint4 *)(wgt + at);
                    }
                    *(uint4 *)(b_tile + row * B_LD + cc) = v;
                }
                __syncthreads();

                for (int kk = 0; kk < FILTERS; kk += 16) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
                    wmma::load_matrix_sync(fa, a_tile + warp * 16 * A_LD + kk, A_LD);
                    for (int j = 0; j < 2; j++) {
                        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
                        wmma::load_matrix_sync(fb, b_tile + kk * B_LD + j * 16, B_LD);
                        wmma::mma_sync(sum[j], fa, fb, sum[j]);
                    }
                }
                __syncthreads();
            }
        }
    }

    for (int j = 0; j < 2; j++)
        wmma::store_matrix_sync(c_tile + warp * 16 * C_LD + j * 16, sum[j], C_LD, wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < PIXELS * CHANNELS / 2; i += THREADS) {
        int row = i / (CHANNELS / 2);
        int cc = i % (CHANNELS / 2) * 2;
        if (first + row >= total || c0 + cc >= cs.c)
            continue;
        half2 pair = __floats2half2_rn(c_tile[row * C_LD + cc], c_tile[row * C_LD + cc + 1]);
        *(half2 *)(dx + (size_t)(first + row) * cs.c + c0 + cc) = pair;
    }
}
