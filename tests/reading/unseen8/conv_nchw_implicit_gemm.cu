#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// 2-D convolution as an implicit GEMM: rows are output channels, columns output pixels, the sum runs over C * R * S.
// input [N, C, H, W], filter [K, C, R, S], output [N, K, P, Q]

typedef struct {
    unsigned int n, c, h, w;      // input
    unsigned int k, r, s;         // filter
    unsigned int u, v;            // stride
    unsigned int p, q;            // padding
} conv_param_t;

#define TILE_K 32
#define TILE_PIX 32
#define TILE_CRS 16

extern "C" __global__ void implicit_gemm_fprop(const half *__restrict__ input, const half *__restrict__ filter,
                                               half *__restrict__ output, conv_param_t param) {
    const int Oh = (param.h + 2 * param.p - param.r) / param.u + 1;
    const int Ow = (param.w + 2 * param.q - param.s) / param.v + 1;
    const int pixels = Oh * Ow;
    const int crs = param.c * param.r * param.s;
    const int k0 = blockIdx.y * TILE_K, pix0 = blockIdx.x * TILE_PIX, img = blockIdx.z;

    __shared__ half s_w[TILE_K][TILE_CRS];
    __shared__ half s_x[TILE_CRS][TILE_PIX];
    __shared__ float s_y[TILE_K][TILE_PIX];

    const int warp = threadIdx.x / 32;
    const int wk = warp / 2 * 16, wp = warp % 2 * 16;

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> acc;
    nvcuda::wmma::fill_fragment(acc, 0.f);

    for (int e0 = 0; e0 < crs; e0 += TILE_CRS) {
        for (int i = threadIdx.x; i < TILE_K * TILE_CRS; i += blockDim.x) {
            const int kk = i / TILE_CRS, e = i % TILE_CRS;
            s_w[kk][e] = (k0 + kk < (int)param.k && e0 + e < crs) ? filter[(k0 + kk) * crs + e0 + e] : (half)0.f;
        }
        for (int i = threadIdx.x; i < TILE_CRS * TILE_PIX; i += blockDim.x) {
            const int e = e0 + i / TILE_PIX, pix = pix0 + i % TILE_PIX;
            half value = (half)0.f;
            if (e < crs && pix < pixels) {
                const int c = e / (param.r * param.s);
                const int r = e % (param.r * param.s) / param.s;
                const int s = e % param.s;
                const int y = pix / Ow * (int)param.u - (int)param.p + r;
                const int x = pix % Ow * (int)param.v - (int)param.q + s;
                if (y >= 0 && y < (int)param.h && x >= 0 && x < (int)param.w)
                    value = input[((img * param.c + c) * param.h + y) * param.w + x];
            }
            s_x[i / TILE_PIX][i % TILE_PIX] = value;
        }
        __syncthreads();
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> fw;
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> fx;
        nvcuda::wmma::load_matrix_sync(fw, &s_w[wk][0], TILE_CRS);
        nvcuda::wmma::load_matrix_sync(fx, &s_x[0][wp], TILE_PIX);
        nvcuda::wmma::mma_sync(acc, fw, fx, acc);
        __syncthreads();
    }
    nvcuda::wmma::store_matrix_sync(&s_y[wk][wp], acc, TILE_PIX, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_K * TILE_PIX; i += blockDim.x) {
        const int kk = k0 + i / TILE_PIX, pix = pix0 + i % TILE_PIX;
        if (kk < (int)param.k && pix < pixels)
            output[((size_t)img * param.k + kk) * pixels + pix] = __float2half(s_y[i / TILE_PIX][i % TILE_PIX]);
    }
}

void launch_implicit_gemm(const half *input, const half *filter, half *output, conv_param_t param) {
    const unsigned int outh = (param.h - param.r + 2 * param.p) / param.u + 1;
    const unsigned int outw = (param.w - param.s + 2 * param.q) / param.v + 1;
    dim3 grid((outh * outw + TILE_PIX - 1) / TILE_PIX, (param.k + TILE_K - 1) / TILE_K, param.n);
    implicit_gemm_fprop<<<grid, 128>>>(input, filter, output, param);
}
