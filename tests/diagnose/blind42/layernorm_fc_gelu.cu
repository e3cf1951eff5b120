/*
LayerNorm, the matmul that follows it, bias and GELU in one kernel: the first half of a transformer's MLP block.
out = gelu(layernorm(inp) @ weight^T + bias)
inp is (BT, C), weight is (OC, C) as nn.Linear has it, out is (BT, OC). C has to be a multiple of 8.
*/
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 floatX;
using namespace nvcuda;

#define GELU_SCALING_FACTOR 0.7978845608028654f // sqrt(2 / pi)

#define TILE_T 32
#define TILE_OC 64
#define TILE_C 64
#define LDX (TILE_C + 8)
#define LDOUT (TILE_OC + 4)
#define NUM_WARPS 4

__device__ inline float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

__device__ inline float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(GELU_SCALING_FACTOR * (x + cube)));
}

__global__ void layernorm_fc_gelu_kernel(floatX* out, const floatX* inp, const floatX* ln_weight, const floatX* ln_bias,
                                         const floatX* weight, const floatX* bias, int BT, int C, int OC) {
    __shared__ __align__(128) floatX s_x[TILE_T * LDX];
    __shared__ __align__(128) floatX s_w[TILE_OC * LDX];
    __shared__ __align__(128) float s_out[TILE_T * LDOUT];
    __shared__ float s_mean[TILE_T];
    __shared__ float s_rstd[TILE_T];

    int t0 = blockIdx.y * TILE_T;
    int oc0 = blockIdx.x * TILE_OC;
    int warp_id = threadIdx.x / 32;
    int lane_id = threadIdx.x % 32;

    // 1) mean and rstd, one row per warp and iteration
    for (int row = warp_id; row < TILE_T; row += NUM_WARPS) {
        float mean = 0.0f;
        float rstd = 0.0f;
        if (t0 + row < BT) {
            const floatX* x = inp + (size_t)(t0 + row) * C;
            float sum = 0.0f;
            for (int c = lane_id; c < C; c += 32) {
                sum += __bfloat162float(x[c]);
            }
            mean = warpReduceSum(sum) / C;
            float sq = 0.0f;
            for (int c = lane_id; c < C; c += 32) {
                float diff = __bfloat162float(x[c]) - mean;
                sq += diff * diff;
            }
            float var = warpReduceSum(sq) / C;
            rstd = rsqrtf(var + 1e-5f);
        }
        if (lane_id == 0) {
            s_mean[row] = mean;
            s_rstd[row] = rstd;
        }
    }
    __syncthreads();

    // 2) the product; a warp has 16 rows and 32 columns
    int warp_t = warp_id / 2 * 16;
    int warp_oc = warp_id % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int c0 = 0; c0 < C; c0 += TILE_C) {
        // normalize while loading
        for (int i = threadIdx.x; i < TILE_T * TILE_C; i += blockDim.x) {
            int row = i / TILE_C;
            int col = i % TILE_C;
            int c = c0 + col;
            float n = 0.0f;
            if (t0 + row < BT && c < C) {
                float x = __bfloat162float(inp[(size_t)(t0 + row) * C + c]);
                n = s_rstd[row] * (x - s_mean[row]);
                n = n * __bfloat162float(ln_weight[c]) + __bfloat162float(ln_bias[c]);
            }
            s_x[row * LDX + col] = __float2bfloat16(n);
        }
        for (int i = threadIdx.x; i < TILE_OC * TILE_C / 8; i += blockDim.x) {
            int row = i / (TILE_C / 8);
            int col = i % (TILE_C / 8) * 8;
            uint4 packed = make_uint4(0, 0, 0, 0);
            if (oc0 + row < OC && c0 + col < C) {
                packed = *reinterpret_cast<const uint4*>(weight + (size_t)(oc0 + row) * C + c0 + col);
            }
            *reinterpret_cast<uint4*>(s_w + row * LDX + col) = packed;
        }
        __syncthreads();

        for (int k = 0; k < TILE_C; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> a;
            wmma::load_matrix_sync(a, s_x + warp_t * LDX + k, LDX);
            for (int j = 0; j < 2; j++) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::col_major> b;
                wmma::load_matrix_sync(b, s_w + (warp_oc + j * 16) * LDX + k, LDX);
                wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    // 3) bias and GELU, through shared memory
    for (int j = 0; j < 2; j++) {
        wmma::store_matrix_sync(s_out + warp_t * LDOUT + warp_oc + j * 16, acc[j], LDOUT, wmma::mem_row_major);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < TILE_T * TILE_OC; i += blockDim.x) {
        int t = i / TILE_OC;
        int o = i % TILE_OC;
        if (t0 + t < BT && oc0 + o < OC) {
            float val = s_out[t * LDOUT + o] + __bfloat162float(bias[oc0 + o]);
            out[(size_t)(t0 + t) * OC + oc0 + o] = __float2bfloat16(gelu(val));
        }
    }
}
