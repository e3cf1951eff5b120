// Implicit GEMM convolution on tensor cores, NCHW, with a CPU check. Course project.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

typedef struct {
    half *in;      // N C H W
    half *weight;  // K C R S
    half *out;     // N K Oh Ow
    int n, c, h, w;
    int k, r, s;
    int u, v;      // stride
    int p, q;      // padding
    int Oh, Ow;
} conv_param_t;

// GEMM view: M = k, N = n * Oh * Ow, K = c * r * s.  One warp per 16x16 tile.
__global__ void implicit_gemm_wmma(conv_param_t param)
{
    __shared__ half sA[16 * 16];
    __shared__ half sB[16 * 16];
    __shared__ float sC[16 * 16];

    const int gemm_n = param.n * param.Oh * param.Ow;
    const int gemm_k = param.c * param.r * param.s;
    const int x0 = blockIdx.x * 16;   // output pixels
    const int y0 = blockIdx.y * 16;   // output channels
    const int lane = threadIdx.x;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < gemm_k; k0 += 16) {
        for (int i = lane; i < 256; i += 32) {
            // weights
            int kk = k0 + i % 16, oc = y0 + i / 16;
            sA[i] = (kk < gemm_k && oc < param.k) ? param.weight[oc * gemm_k + kk] : __float2half(0.0f);
            // im2col on the fly
            int kb = k0 + i / 16, px = x0 + i % 16;
            half val = __float2half(0.0f);
            if (kb < gemm_k && px < gemm_n) {
                int cc = kb / (param.r * param.s), rr = kb % (param.r * param.s) / param.s, ss = kb % param.s;
                int nn = px / (param.Oh * param.Ow), oh = px % (param.Oh * param.Ow) / param.Ow, ow = px % param.Ow;
                int ih = oh * param.u - param.p + rr, iw = ow * param.v - param.q + ss;
                if (ih >= 0 && ih < param.h && iw >= 0 && iw < param.w)
                    val = param.in[((nn * param.c + cc) * param.h + ih) * param.w + iw];
            }
            sB[i] = val;
        }
        __syncthreads();
        wmma::load_matrix_sync(a, sA, 16);
        wmma::load_matrix_sync(b, sB, 16);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }

    wmma::store_matrix_sync(sC, acc, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = lane; i < 256; i += 32) {
        int oc = y0 + i / 16, px = x0 + i % 16;
        if (oc < param.k && px < gemm_n) {
            int nn = px / (param.Oh * param.Ow), pix = px % (param.Oh * param.Ow);
            param.out[(nn * param.k + oc) * param.Oh * param.Ow + pix] = __float2half(sC[i]);
        }
    }
}

void conv_cpu(const half *in, const half *weight, float *out, conv_param_t p)
{
    for (int n = 0; n < p.n; n++)
        for (int k = 0; k < p.k; k++)
            for (int oh = 0; oh < p.Oh; oh++)
                for (int ow = 0; ow < p.Ow; ow++) {
                    double sum = 0.0;
                    for (int c = 0; c < p.c; c++)
                        for (int r = 0; r < p.r; r++)
                            for (int s = 0; s < p.s; s++) {
                                int ih = oh * p.u - p.p + r, iw = ow * p.v - p.q + s;
                                if (ih >= 0 && ih < p.h && iw >= 0 && iw < p.w)
                                    sum += (double)__half2float(in[((n * p.c + c) * p.h + ih) * p.w + iw]) *
                                           (double)__half2float(weight[((k * p.c + c) * p.r + r) * p.s + s]);
                            }
                    out[((n * p.k + k) * p.Oh + oh) * p.Ow + ow] = (float)sum;
                }
}

int main(int argc, char **argv)
{
    conv_param_t param;
    param.n = 2; param.c = 16; param.h = 14; param.w = 14;
    param.k = 32; param.r = 3; param.s = 3;
    param.u = 1; param.v = 1; param.p = 1; param.q = 1;
    if (argc == 12) {
        int *f[] = {&param.n, &param.c, &param.h, &param.w, &param.k, &param.r, &param.s, &param.u, &param.v, &param.p, &param.q};
        for (int i = 0; i < 11; i++) *f[i] = atoi(argv[i + 1]);
    }
    param.Oh = (param.h - param.r + 2 * param.p) / param.u + 1;
    param.Ow = (param.w - param.s + 2 * param.q) / param.v + 1;

    size_t in_n = (size_t)param.n * param.c * param.h * param.w;
    size_t w_n = (size_t)param.k * param.c * param.r * param.s;
    size_t out_n = (size_t)param.n * param.k * param.Oh * param.Ow;
    half *h_in = (half *)malloc(in_n * sizeof(half)), *h_w = (half *)malloc(w_n * sizeof(half));
    half *h_out = (half *)malloc(out_n * sizeof(half));
    float *h_ref = (float *)malloc(out_n * sizeof(float));
    srand(7);
    for (size_t i = 0; i < in_n; i++) h_in[i] = __float2half((float)(rand() % 255) / 255.0f - 0.5f);
    for (size_t i = 0; i < w_n; i++) h_w[i] = __float2half((float)(rand() % 255) / 255.0f - 0.5f);

    cudaMalloc((void **)&param.in, in_n * sizeof(half));
    cudaMalloc((void **)&param.weight, w_n * sizeof(half));
    cudaMalloc((void **)&param.out, out_n * sizeof(half));
    cudaMemcpy(param.in, h_in, in_n * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(param.weight, h_w, w_n * sizeof(half), cudaMemcpyHostToDevice);

    int bx = (param.n * param.Oh * param.Ow + 15) / 16, by = (param.k + 15) / 16;
    dim3 grid(bx, by, 1);
    dim3 block(32, 1, 1);
    implicit_gemm_wmma<<<grid, block>>>(param);
    cudaDeviceSynchronize();
    cudaMemcpy(h_out, param.out, out_n * sizeof(half), cudaMemcpyDeviceToHost);

    conv_cpu(h_in, h_w, h_ref, param);
    int bad = 0;
    for (size_t i = 0; i < out_n; i++) {
        float diff = fabsf(__half2float(h_out[i]) - h_ref[i]);
        if (diff > 0.01f + 0.01f * fabsf(h_ref[i])) {
            if (bad++ < 5) printf("error at %zu: %f vs %f\n", i, __half2float(h_out[i]), h_ref[i]);
        }
    }
    printf("%s\n", bad ? "verify failed" : "verify ok");
    cudaFree(param.in); cudaFree(param.weight); cudaFree(param.out);
    free(h_in); free(h_w); free(h_out); free(h_ref);
    return bad ? 1 : 0;
}
