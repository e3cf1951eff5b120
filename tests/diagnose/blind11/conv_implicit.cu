// 2-D convolution, NHWC, as an implicit GEMM: rows are output pixels, columns output channels, k runs over (r, s, c).
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

struct ConvParams {
    const half *x;  // [N][H][W][C]
    const half *w;  // [K][R][S][C]
    float *y;       // [N][P][Q][K]
    int N, H, W, C, K, R, S, P, Q, pad, stride;
};

__global__ void conv_implicit(ConvParams p) {
    __shared__ __align__(32) half tileX[32][24];
    __shared__ __align__(32) half tileW[32][24];
    __shared__ __align__(32) float tileY[32][36];

    const int lane = threadIdx.x, warp = threadIdx.y;
    const int tid = warp * 32 + lane;
    const int pixels = p.N * p.P * p.Q;
    const int depth = p.R * p.S * p.C;
    const int pixel0 = blockIdx.x * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;

    // a block makes all the channels of its pixels
    for (int k0 = 0; k0 < p.K; k0 += 32) {
        wmma::fill_fragment(acc, 0.0f);
        for (int d0 = 0; d0 < depth; d0 += 16) {
            for (int i = tid; i < 32 * 16; i += 128) {
                int row = i / 16, d = d0 + i % 16;
                int pixel = pixel0 + row;
                half v = __float2half(0.0f);
                if (pixel < pixels && d < depth) {
                    int n = pixel / (p.P * p.Q);
                    int oy = pixel / p.Q % p.P;
                    int ox = pixel % p.Q;
                    int r = d / (p.S * p.C);
                    int s = d / p.C % p.S;
                    int c = d % p.C;
                    int iy = oy * p.stride - p.pad + r;
                    int ix = ox * p.stride - p.pad + s;
                    if (iy >= 0 && iy < p.H && ix >= 0 && ix < p.W)
                        v = p.x[((n * p.H + iy) * p.W + ix) * p.C + c];
                }
                tileX[row][i % 16] = v;
            }
            for (int i = tid; i < 32 * 16; i += 128) {
                int row = i / 16, d = d0 + i % 16;
                bool inside = k0 + row < p.K && d < depth;
                tileW[row][i % 16] = inside ? p.w[(k0 + row) * depth + d] : __float2half(0.0f);
            }
            __syncthreads();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::load_matrix_sync(a, &tileX[warp / 2 * 16][0], 24);
            wmma::load_matrix_sync(b, &tileW[warp % 2 * 16][0], 24);
            wmma::mma_sync(acc, a, b, acc);
            __syncthreads();
        }
        wmma::store_matrix_sync(&tileY[warp / 2 * 16][warp % 2 * 16], acc, 36, wmma::mem_row_major);
        __syncthreads();
        for (int i = tid; i < 32 * 32; i += 128) {
            int pixel = pixel0 + i / 32, k = k0 + i % 32;
            if (pixel < pixels && k < p.K) p.y[pixel * p.K + k] = tileY[i / 32][i % 32];
        }
    }
}
