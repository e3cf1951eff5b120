// Implicit GEMM convolution, forward pass, NHWC activations and KRSC filters.
//   GEMM_M = N * P * Q, GEMM_N = K, GEMM_K = R * S * C
// C and K have to be multiples of 16.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

typedef struct {
    int n;  // batch size
    int c;  // input channels
    int h;  // height of the input
    int w;  // width of the input
    int k;  // output channels
    int r;  // height of the filter
    int s;  // width of the filter
    int u;  // stride, vertical
    int v;  // stride, horizontal
    int p;  // padding, vertical
    int q;  // padding, horizontal
    int Oh; // height of the output
    int Ow; // width of the output
} conv_param_t;

#define CTA_M 64
#define CTA_N 64

__global__ void __launch_bounds__(128)
implgemm_conv2d_fwd(const half *__restrict__ pin, const half *__restrict__ pweight, half *__restrict__ pout,
                    conv_param_t param) {
    __shared__ __align__(32) half sh_in[CTA_M][16 + 8];
    __shared__ __align__(32) half sh_w[CTA_N][16 + 8];
    __shared__ __align__(32) float sh_out[CTA_M][CTA_N + 4];

    const int gemm_m = param.n * param.Oh * param.Ow;
    const int warp_id = threadIdx.x >> 5;
    const int warp_m = (warp_id >> 1) * 32;
    const int warp_n = (warp_id & 1) * 32;

    // what this thread loads: row threadIdx.x / 2, half threadIdx.x % 2 of the 16 channels
    const int row = threadIdx.x >> 1;
    const int chan = (threadIdx.x & 1) * 8;
    const int pixel = blockIdx.x * CTA_M + row;
    const int img = pixel / (param.Oh * param.Ow);
    const int oh = (pixel % (param.Oh * param.Ow)) / param.Ow;
    const int ow = pixel % param.Ow;
    const int base_h = oh * param.u - param.p;
    const int base_w = ow * param.v - param.q;
    const int filter = blockIdx.y * CTA_N + row;

    fragment<accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) nvcuda::wmma::fill_fragment(acc[i][j], 0.f);

    for (int fr = 0; fr < param.r; fr++) {
        for (int fs = 0; fs < param.s; fs++) {
            const int ih = base_h + fr;
            const int iw = base_w + fs;
            const bool inside = pixel < gemm_m && ih >= 0 && ih < param.h && iw >= 0 && iw < param.w;
            for (int c0 = 0; c0 < param.c; c0 += 16) {
                uint4 x = make_uint4(0, 0, 0, 0);
                uint4 f = make_uint4(0, 0, 0, 0);
                if (inside)
                    x = *(const uint4 *)&pin[((img * param.h + ih) * param.w + iw) * param.c + c0 + chan];
                if (filter < param.k)
                    f = *(const uint4 *)&pweight[((filter * param.r + fr) * param.s + fs) * param.c + c0 + chan];
                *(uint4 *)&sh_in[row][chan] = x;
                *(uint4 *)&sh_w[row][chan] = f;
                __syncthreads();

                fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
                fragment<matrix_b, 16, 16, 16, half, col_major> b[2];
                for (int i = 0; i < 2; i++) {
                    nvcuda::wmma::load_matrix_sync(a[i], &sh_in[warp_m + i * 16][0], 24);
                    nvcuda::wmma::load_matrix_sync(b[i], &sh_w[warp_n + i * 16][0], 24);
                }
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
                __syncthreads();
            }
        }
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            nvcuda::wmma::store_matrix_sync(&sh_out[warp_m + i * 16][warp_n + j * 16], acc[i][j], CTA_N + 4,
                                            nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int e = threadIdx.x; e < CTA_M * CTA_N; e += blockDim.x) {
        const int m = blockIdx.x * CTA_M + e / CTA_N;
        const int n = blockIdx.y * CTA_N + e % CTA_N;
        if (m < gemm_m && n < param.k) pout[m * param.k + n] = __float2half(sh_out[e / CTA_N][e % CTA_N]);
    }
}

extern "C" void launch_implgemm(const half *in, const half *weight, half *out, int n, int c, int h, int w, int k,
                                int r, int s, int stride, int pad) {
    conv_param_t param;
    param.n = n;
    param.c = c;
    param.h = h;
    param.w = w;
    param.k = k;
    param.r = r;
    param.s = s;
    param.u = stride;
    param.v = stride;
    param.p = pad;
    param.q = pad;
    param.Oh = (h - r + 2 * pad) / stride + 1;
    param.Ow = (w - s + 2 * pad) / stride + 1;

    const int blockx = (n * param.Oh * param.Ow + CTA_M - 1) / CTA_M;
    const int blocky = (k + CTA_N - 1) / CTA_N;
    dim3 grid(blockx, blocky, 1);
    dim3 block(128, 1, 1);
    implgemm_conv2d_fwd<<<grid, block>>>(in, weight, out, param);
}
