// Grouped, dilated 2D convolution (NCHW, half) as an implicit GEMM, with bias and ReLU.
//   per image and group:  Y[K/g, P*Q] = W[K/g, C/g*R*S] * im2col(X)[C/g*R*S, P*Q]
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

struct ConvDesc {
    int C, H, W;        // input
    int K, P, Q;        // output
    int groups;
    int pad, stride, dilation;
};

#define TILE_K 32    // filters per block
#define TILE_PX 64   // output pixels per block
#define TILE_RED 16  // part of C/g*R*S per step

template <int R, int S>
__global__ __launch_bounds__(256) void conv2d_grouped_wmma(const __half *X, const __half *Wt, const float *bias,
                                                          __half *Y, ConvDesc d)
{
    __shared__ __align__(32) __half w_tile[TILE_K][TILE_RED + 8];
    __shared__ __align__(32) __half col_tile[TILE_RED][TILE_PX + 8];
    __shared__ __align__(32) float y_tile[TILE_K][TILE_PX + 4];

    int n = blockIdx.z / d.groups, g = blockIdx.z % d.groups;
    int Cg = d.C / d.groups, Kg = d.K / d.groups;
    int reduction = Cg * R * S, pixels = d.P * d.Q;
    int k_base = blockIdx.y * TILE_K;
    int px_base = blockIdx.x * TILE_PX;

    const __half *x = X + ((size_t)n * d.C + g * Cg) * d.H * d.W;
    const __half *w = Wt + (size_t)g * Kg * reduction;

    int warp = threadIdx.x / 32;
    int warp_k = warp / 4, warp_px = warp % 4;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int r0 = 0; r0 < reduction; r0 += TILE_RED) {
        // filters
        for (int i = threadIdx.x; i < TILE_K * TILE_RED; i += blockDim.x) {
            int k = i / TILE_RED, r = i % TILE_RED;
            __half v = __float2half(0.0f);
            if (k_base + k < Kg && r0 + r < reduction)
                v = w[(size_t)(k_base + k) * reduction + r0 + r];
            w_tile[k][r] = v;
        }
        // im2col
        for (int i = threadIdx.x; i < TILE_RED * TILE_PX; i += blockDim.x) {
            int r = i / TILE_PX, px = i % TILE_PX;
            int red = r0 + r, pixel = px_base + px;
            __half v = __float2half(0.0f);
            if (red < reduction && pixel < pixels) {
                int c = red / (R * S);
                int fr = red % (R * S) / S, fs = red % S;
                int p = pixel / d.Q, q = pixel % d.Q;
                int h = p * d.stride - d.pad + fr * d.dilation;
                int ww = q * d.stride - d.pad + fs * d.dilation;
                if (h >= 0 && h < d.H && ww >= 0 && ww < d.W)
                    v = x[((size_t)c * d.H + h) * d.W + ww];
            }
            col_tile[r][px] = v;
        }
        __syncthreads();

        wmma::load_matrix_sync(a, &w_tile[warp_k * 16][0], TILE_RED + 8);
        wmma::load_matrix_sync(b, &col_tile[0][warp_px * 16], TILE_PX + 8);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }

    wmma::store_matrix_sync(&y_tile[warp_k * 16][warp_px * 16], acc, TILE_PX + 4, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < TILE_K * TILE_PX; i += blockDim.x) {
        int k = k_base + i / TILE_PX, pixel = px_base + i % TILE_PX;
        if (k < Kg && pixel < pixels) {
            int filter = g * Kg + k;
            float v = y_tile[i / TILE_PX][i % TILE_PX] + bias[filter];
            Y[((size_t)n * d.K + filter) * pixels + pixel] = __float2half(fmaxf(v, 0.0f));
        }
    }
}

template __global__ void conv2d_grouped_wmma<3, 3>(const __half *, const __half *, const float *, __half *, ConvDesc);
template __global__ void conv2d_grouped_wmma<3, 2>(const __half *, const __half *, const float *, __half *, ConvDesc);
