// Convolution as an implicit GEMM on tensor cores: NHWC inputs, KRSC weights, NHWC outputs, bias and ReLU.
// GEMM M: output pixels of all images, N: filters, K: r * s * c. c has to be a multiple of 8.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

typedef struct {
    half *in;
    half *weight;
    float *bias;
    half *out;
    int n;      // batch
    int c;      // channels
    int h, w;   // size of an image
    int k;      // filters
    int r, s;   // size of a filter
    int u, v;   // stride along h and w
    int p, q;   // padding along h and w
    int Oh, Ow; // size of an output
} param_t;

#define TILE_PIXELS 64
#define TILE_FILTERS 32
#define TILE_CRS 32
#define LDS (TILE_CRS + 8)
#define LDC (TILE_FILTERS + 4)

extern "C" __global__ void __launch_bounds__(128) implgemm_wmma(param_t param)
{
    const int tx = threadIdx.x;
    const int warp_id = tx / 32;
    const int warp_m = (warp_id & 1) * 32;
    const int warp_n = (warp_id >> 1) * 16;
    const int pixel0 = blockIdx.x * TILE_PIXELS;
    const int filter0 = blockIdx.y * TILE_FILTERS;

    __shared__ __align__(128) half smeminput[2][TILE_PIXELS * LDS];
    __shared__ __align__(128) half smemweight[2][TILE_FILTERS * LDS];
    __shared__ __align__(128) float smemoutput[TILE_PIXELS * LDC];

    const int pixels = param.n * param.Oh * param.Ow;
    const int crs = param.c * param.r * param.s;
    const int tiles = (crs + TILE_CRS - 1) / TILE_CRS;

    // a thread copies 8 channels of two pixels, and 8 of one filter
    const int load_row = tx / 4;
    const int load_col = (tx % 4) * 8;

    int img[2], pos_h[2], pos_w[2];
    for (int i = 0; i < 2; ++i)
    {
        const int pixel = pixel0 + load_row + i * 32;
        img[i] = pixel / (param.Oh * param.Ow);
        const int rest = pixel % (param.Oh * param.Ow);
        pos_h[i] = rest / param.Ow * param.u - param.p;
        pos_w[i] = rest % param.Ow * param.v - param.q;
    }

    uint4 input_reg[2];
    uint4 weight_reg;

    auto ldg = [&](int tile)
    {
        const int pos = tile * TILE_CRS + load_col;
        const int cur_r = pos / (param.s * param.c);
        const int cur_s = pos % (param.s * param.c) / param.c;
        const int cur_c = pos % param.c;
        for (int i = 0; i < 2; ++i)
        {
            const int cur_h = pos_h[i] + cur_r;
            const int cur_w = pos_w[i] + cur_s;
            input_reg[i] = make_uint4(0, 0, 0, 0);
            if (pixel0 + load_row + i * 32 < pixels && pos < crs &&
                cur_h >= 0 && cur_h < param.h && cur_w >= 0 && cur_w < param.w)
            {
                const size_t offset = (size_t)((img[i] * param.h + cur_h) * param.w + cur_w) * param.c + cur_c;
                input_reg[i] = *reinterpret_cast<const uint4 *>(param.in + offset);
            }
        }
        weight_reg = make_uint4(0, 0, 0, 0);
        if (filter0 + load_row < param.k && pos < crs)
        {
            weight_reg = *reinterpret_cast<const uint4 *>(param.weight + (size_t)(filter0 + load_row) * crs + pos);
        }
    };

    auto sts = [&](int buf)
    {
        for (int i = 0; i < 2; ++i)
        {
            *reinterpret_cast<uint4 *>(&smeminput[buf][(load_row + i * 32) * LDS + load_col]) = input_reg[i];
        }
        *reinterpret_cast<uint4 *>(&smemweight[buf][load_row * LDS + load_col]) = weight_reg;
    };

    fragment<accumulator, 16, 16, 16, float> output_frag[2];
    for (int i = 0; i < 2; ++i)
    {
        fill_fragment(output_frag[i], 0.0f);
    }

    ldg(0);
    sts(0);
    __syncthreads();

    for (int tile = 0; tile < tiles; ++tile)
    {
        const int read_flag = tile & 1;
        const int write_flag = read_flag ^ 1;
        if (tile + 1 < tiles)
        {
            ldg(tile + 1);
        }

        for (int kk = 0; kk < TILE_CRS; kk += 16)
        {
            fragment<matrix_a, 16, 16, 16, half, row_major> input_frag;
            fragment<matrix_b, 16, 16, 16, half, col_major> weight_frag;
            load_matrix_sync(weight_frag, &smemweight[read_flag][warp_n * LDS + kk], LDS);
            for (int i = 0; i < 2; ++i)
            {
                load_matrix_sync(input_frag, &smeminput[read_flag][(warp_m + i * 16) * LDS + kk], LDS);
                mma_sync(output_frag[i], input_frag, weight_frag, output_frag[i]);
            }
        }

        if (tile + 1 < tiles)
        {
            sts(write_flag);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
    {
        store_matrix_sync(&smemoutput[(warp_m + i * 16) * LDC + warp_n], output_frag[i], LDC, mem_row_major);
    }
    __syncthreads();

    for (int i = tx; i < TILE_PIXELS * TILE_FILTERS; i += blockDim.x)
    {
        const int pixel = i / TILE_FILTERS;
        const int filter = i % TILE_FILTERS;
        if (pixel0 + pixel < pixels && filter0 + filter < param.k)
        {
            const float val = smemoutput[pixel * LDC + filter] + param.bias[filter0 + filter];
            param.out[(size_t)(pixel0 + pixel) * param.k + filter0 + filter] = __float2half(fmaxf(val, 0.0f));
        }
    }
}
