/* 2D convolution, NHWC activations, KRSC filters, as an implicit GEMM on tensor cores.
 *   rows of the GEMM    = N * P * Q output pixels
 *   columns             = K output channels
 *   reduction           = R * S * C
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <mma.h>

typedef struct {
    int n, h, w, c;          /* input   */
    int k, r, s;             /* filter  */
    int p, q;                /* output  */
    int u, v;                /* stride  */
    int pad_h, pad_w;
} conv_param_t;

#define TILE_PIX 64
#define TILE_OC  32
#define TILE_RED 32
#define SKEW 8

__device__ static int4 load_pixel_chunk(const half *in, conv_param_t p, int pixel, int red)
{
    const int rows = p.n * p.p * p.q;
    int4 zero = make_int4(0, 0, 0, 0);
    if (pixel >= rows || red >= p.r * p.s * p.c) return zero;
    const int n = pixel / (p.p * p.q);
    const int oh = pixel % (p.p * p.q) / p.q;
    const int ow = pixel % p.q;
    const int fr = red / (p.s * p.c);
    const int fs = red / p.c % p.s;
    const int ch = red % p.c;
    const int ih = oh * p.u - p.pad_h + fr;
    const int iw = ow * p.v - p.pad_w + fs;
    if (ih < 0 || ih >= p.h || iw < 0 || iw >= p.w) return zero;
    return *(const int4 *)(in + ((n * p.h + ih) * p.w + iw) * p.c + ch);
}

__global__ void conv2d_implicit_gemm(const half *__restrict__ input, const half *__restrict__ filter,
                                     const float *__restrict__ bias, half *__restrict__ output, conv_param_t param)
{
    using namespace nvcuda;
    __shared__ __align__(16) half s_in[TILE_PIX * (TILE_RED + SKEW)];
    __shared__ __align__(16) half s_fl[TILE_OC * (TILE_RED + SKEW)];
    __shared__ __align__(16) float s_out[TILE_PIX * (TILE_OC + SKEW)];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int tid = ty * 32 + tx;
    const int pix0 = blockIdx.x * TILE_PIX;
    const int oc0 = blockIdx.y * TILE_OC;
    const int red_total = param.r * param.s * param.c;

    wmma::fragment<wmma::accumulator, 32, 8, 16, float> sum[2];
    wmma::fill_fragment(sum[0], 0.0f);
    wmma::fill_fragment(sum[1], 0.0f);
    const int wp = (ty & 1) * 32;
    const int wc = (ty >> 1) * 16;

    for (int red = 0; red < red_total; red += TILE_RED) {
        /* 64 x 32 halfs of the input: two chunks of 8 per thread */
        for (int i = 0; i < 2; i++) {
            int chunk = tid + i * 128;
            int row = chunk / 4, col = chunk % 4 * 8;
            *(int4 *)&s_in[row * (TILE_RED + SKEW) + col] = load_pixel_chunk(input, param, pix0 + row, red + col);
        }
        {
            int row = tid / 4, col = tid % 4 * 8;
            int4 val = make_int4(0, 0, 0, 0);
            if (oc0 + row < param.k && red + col < red_total)
                val = *(const int4 *)(filter + (oc0 + row) * red_total + red + col);
            *(int4 *)&s_fl[row * (TILE_RED + SKEW) + col] = val;
        }
        __syncthreads();

        for (int k = 0; k < TILE_RED; k += 16) {
            wmma::fragment<wmma::matrix_a, 32, 8, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 32, 8, 16, half, wmma::col_major> fb;
            wmma::load_matrix_sync(fa, s_in + wp * (TILE_RED + SKEW) + k, TILE_RED + SKEW);
            for (int j = 0; j < 2; j++) {
                wmma::load_matrix_sync(fb, s_fl + (wc + j * 8) * (TILE_RED + SKEW) + k, TILE_RED + SKEW);
                wmma::mma_sync(sum[j], fa, fb, sum[j]);
            }
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(s_out + wp * (TILE_OC + SKEW) + wc, sum[0], TILE_OC + SKEW, wmma::mem_row_major);
    wmma::store_matrix_sync(s_out + wp * (TILE_OC + SKEW) + wc + 8, sum[1], TILE_OC + SKEW, wmma::mem_row_major);
    __syncthreads();

    /* bias and ReLU */
    for (int i = tid; i < TILE_PIX * TILE_OC; i += blockDim.x * blockDim.y) {
        const int pix = pix0 + i / TILE_OC;
        const int oc = oc0 + i % TILE_OC;
        if (pix < param.n * param.p * param.q && oc < param.k) {
            float val = s_out[i / TILE_OC * (TILE_OC + SKEW) + i % TILE_OC] + bias[oc];
            output[(size_t)pix * param.k + oc] = __float2half(val > 0.0f ? val : 0.0f);
        }
    }
}

static void launch_implgemm(const half *in, const half *fl, const float *bias, half *out, conv_param_t *param)
{
    const int rows = param->n * param->p * param->q;
    const dim3 grid((rows + TILE_PIX - 1) / TILE_PIX, (param->k + TILE_OC - 1) / TILE_OC, 1);
    const dim3 block(32, 4, 1);
    conv2d_implicit_gemm<<<grid, block>>>(in, fl, bias, out, *param);
}

int main(int argc, char **argv)
{
    if (argc < 12) {
        printf("usage: %s n c h w k r s u v pad_h pad_w\n", argv[0]);
        return EXIT_FAILURE;
    }
    conv_param_t param;
    param.n = atoi(argv[1]);
    param.c = atoi(argv[2]);
    param.h = atoi(argv[3]);
    param.w = atoi(argv[4]);
    param.k = atoi(argv[5]);
    param.r = atoi(argv[6]);
    param.s = atoi(argv[7]);
    param.u = atoi(argv[8]);
    param.v = atoi(argv[9]);
    param.pad_h = atoi(argv[10]);
    param.pad_w = atoi(argv[11]);
    param.p = (param.h - param.r + 2 * param.pad_h) / param.u + 1;
    param.q = (param.w - param.s + 2 * param.pad_w) / param.v + 1;

    half *input = (half *)malloc(sizeof(half) * param.n * param.c * param.h * param.w);
    half *input_device, *filter_device, *output_device;
    float *bias_device;
    cudaMalloc((void **)&input_device, sizeof(half) * param.n * param.c * param.h * param.w);
    cudaMalloc((void **)&filter_device, sizeof(half) * param.k * param.c * param.r * param.s);
    cudaMalloc((void **)&bias_device, sizeof(float) * param.k);
    cudaMalloc((void **)&output_device, sizeof(half) * param.n * param.k * param.p * param.q);
    for (int i = 0; i < param.n * param.c * param.h * param.w; i++) input[i] = (rand() % 255) / 255.0;
    cudaMemcpy(input_device, input, sizeof(half) * param.n * param.c * param.h * param.w, cudaMemcpyHostToDevice);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start, 0);
    launch_implgemm(input_device, filter_device, bias_device, output_device, &param);
    cudaEventRecord(stop, 0);
    cudaEventSynchronize(stop);
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    printf("===================start verfiy===================\n");
    printf("time: %f us\n", ms * 1000);
    cudaFree(input_device);
    free(input);
    return 0;
}
