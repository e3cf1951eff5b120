// BertSelfOutput in one kernel:  y = LayerNorm(x @ W.T + b + residual)
//
// A block owns complete rows of the output (hidden = 256, 16 rows), so mean and
// variance never leave the SM.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

#define HIDDEN      256
#define ROWS        16
#define CHUNK       32
#define BLOCK_SIZE  256          // 8 warps, each 32 columns of the output

static_assert(HIDDEN == BLOCK_SIZE / 32 * 32, "one warp per 32 output columns");

struct LayerNormParams {
    const half *gamma;
    const half *beta;
    float eps;
};

struct Problem {
    const half *x;          // [tokens, K]
    const half *weight;     // [HIDDEN, K]
    const half *bias;       // [HIDDEN]
    const half *residual;   // [tokens, HIDDEN]
    half *y;                // [tokens, HIDDEN]
    int tokens;
    int K;
    LayerNormParams ln;
};

__device__ float2 warp_sum2(float2 v)
{
    for (int d = 16; d > 0; d >>= 1) {
        v.x += __shfl_down_sync(0xffffffffu, v.x, d);
        v.y += __shfl_down_sync(0xffffffffu, v.y, d);
    }
    v.x = __shfl_sync(0xffffffffu, v.x, 0);
    v.y = __shfl_sync(0xffffffffu, v.y, 0);
    return v;
}

__global__ void __launch_bounds__(BLOCK_SIZE) linear_residual_layernorm(Problem prob)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(128) half sx[ROWS][CHUNK + 8];
    __shared__ __align__(128) half sw[HIDDEN][CHUNK + 8];
    __shared__ __align__(128) float sy[ROWS][HIDDEN + 4];

    const int first = blockIdx.x * ROWS;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;

    fragment<accumulator, 16, 16, 16, float> c0, c1;
    fill_fragment(c0, 0.0f);
    fill_fragment(c1, 0.0f);

    for (int k = 0; k < prob.K; k += CHUNK) {
        if (threadIdx.x < ROWS * CHUNK / 8) {
            int r = threadIdx.x / (CHUNK / 8), c = threadIdx.x % (CHUNK / 8) * 8;
            uint4 v = {0, 0, 0, 0};
            if (first + r < prob.tokens)
                v = *(const uint4 *)(prob.x + (size_t)(first + r) * prob.K + k + c);
            *(uint4 *)&sx[r][c] = v;
        }
        // thread t stages row t of W
        const uint4 *src = (const uint4 *)(prob.weight + (size_t)threadIdx.x * prob.K + k);
        uint4 *dst = (uint4 *)sw[threadIdx.x];
        for (int i = 0; i < CHUNK / 8; i++)
            dst[i] = src[i];
        __syncthreads();

        for (int kk = 0; kk < CHUNK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, half, row_major> a;
            fragment<matrix_b, 16, 16, 16, half, col_major> b0, b1;
            load_matrix_sync(a, &sx[0][kk], CHUNK + 8);
            load_matrix_sync(b0, &sw[warp * 32][kk], CHUNK + 8);
            load_matrix_sync(b1, &sw[warp * 32 + 16][kk], CHUNK + 8);
            mma_sync(c0, a, b0, c0);
            mma_sync(c1, a, b1, c1);
        }
        __syncthreads();
    }
    store_matrix_sync(&sy[0][warp * 32], c0, HIDDEN + 4, mem_row_major);
    store_matrix_sync(&sy[0][warp * 32 + 16], c1, HIDDEN + 4, mem_row_major);
    __syncthreads();

    // two rows per warp, eight elements per lane
    for (int r = warp * 2; r < warp * 2 + 2; r++) {
        const int token = first + r;
        if (token >= prob.tokens)
            break;
        float v[HIDDEN / 32];
        float2 stat = make_float2(0.f, 0.f);
        for (int i = 0; i < HIDDEN / 32; i++) {
            const int col = lane + i * 32;
            v[i] = sy[r][col] + __half2float(prob.bias[col]) +
                   __half2float(prob.residual[(size_t)token * HIDDEN + col]);
            stat.x += v[i];
        }
        const float mean = warp_sum2(stat).x / HIDDEN;
        stat = make_float2(0.f, 0.f);
        for (int i = 0; i < HIDDEN / 32; i++)
            stat.y += (v[i] - mean) * (v[i] - mean);
        const float rstd = rsqrtf(warp_sum2(stat).y / HIDDEN + prob.ln.eps);
        for (int i = 0; i < HIDDEN / 32; i++) {
            const int col = lane + i * 32;
            const float n = (v[i] - mean) * rstd;
            prob.y[(size_t)token * HIDDEN + col] =
                __float2half(n * __half2float(prob.ln.gamma[col]) + __half2float(prob.ln.beta[col]));
        }
    }
}

int bert_self_output(half *y, const half *x, const half *residual, const half *weight, const half *bias,
                     const half *gamma, const half *beta, float eps, int tokens, int K, cudaStream_t stream)
{
    if (K % CHUNK)
        return -1;
    Problem prob = {x, weight, bias, residual, y, tokens, K, {gamma, beta, eps}};
    linear_residual_layernorm<<<(tokens + ROWS - 1) / ROWS, BLOCK_SIZE, 0, stream>>>(prob);
    return cudaGetLastError() == cudaSuccess ? 0 : -2;
}
