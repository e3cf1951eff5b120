// y = gelu(LayerNorm(x + residual) @ W^T + b), one kernel.  W is [N, K] as nn.Linear keeps it.
// A block normalises 16 rows into shared memory, then its four warps multiply them by 64 rows of W.
// TODO: K > MAX_K needs a second pass over x
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define MAX_K       160
#define ROWS        16
#define COLS        64
#define K_STEP      32
#define XS_STRIDE   (MAX_K + 8)
#define WS_STRIDE   (K_STEP + 8)
#define FULL_MASK   0xffffffffu

static __device__ float warp_all_sum(float v)
{
    #pragma unroll
    for (int o = 16; o >= 1; o /= 2)
        v += __shfl_xor_sync(FULL_MASK, v, o);
    return v;
}

static __device__ float gelu_erf(float v)
{
    return 0.5f * v * (1.0f + erff(v * 0.70710678f));
}

extern "C" __global__ void fused_add_ln_linear_gelu(
    __half*       __restrict__ y,         // M x N
    const __half* __restrict__ x,         // M x K
    const __half* __restrict__ residual,  // M x K
    const float*  __restrict__ ln_weight, // K
    const float*  __restrict__ ln_bias,   // K
    const __half* __restrict__ w,         // N x K
    const __half* __restrict__ b,         // N
    int M, int N, int K, float eps)
{
    __shared__ __align__(32) __half xs[ROWS * XS_STRIDE];
    __shared__ __align__(32) __half ws[COLS * WS_STRIDE];
    __shared__ __align__(32) float  ys[ROWS * COLS];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int m0   = blockIdx.x * ROWS;
    const int n0   = blockIdx.y * COLS;
    const int Kpad = (K + K_STEP - 1) / K_STEP * K_STEP;

    // ---- LayerNorm, a warp per row ------------------------------------------------------------
    for (int r = warp; r < ROWS; r += 4) {
        const int row = m0 + r;
        float v[MAX_K / 32];
        float sum = 0.0f;
        #pragma unroll
        for (int i = 0; i < MAX_K / 32; i++) {
            const int k = i * 32 + lane;
            v[i] = 0.0f;
            if (row < M && k < K) {
                v[i] = __half2float(x[(size_t)row * K + k]) + __half2float(residual[(size_t)row * K + k]);
                sum += v[i];
            }
        }
        const float mean = warp_all_sum(sum) / K;

        float sq = 0.0f;
        #pragma unroll
        for (int i = 0; i < MAX_K / 32; i++) {
            const int k = i * 32 + lane;
            if (k < K) {
                const float diff = v[i] - mean;
                sq += diff * diff;
            }
        }
        const float rstd = rsqrtf(warp_all_sum(sq) / K + eps);

        #pragma unroll
        for (int i = 0; i < MAX_K / 32; i++) {
            const int k = i * 32 + lane;
            if (k < Kpad) {
                float n = 0.0f;
                if (row < M && k < K)
                    n = (v[i] - mean) * rstd * ln_weight[k] + ln_bias[k];
                xs[r * XS_STRIDE + k] = __float2half(n);
            }
        }
    }

    // ---- GEMM -----------------------------------------------------------------------------------
    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < Kpad; k0 += K_STEP) {
        for (int i = threadIdx.x; i < COLS * (K_STEP / 8); i += blockDim.x) {
            const int c  = i / (K_STEP / 8);
            const int kk = i % (K_STEP / 8) * 8;
            uint4 chunk = {0, 0, 0, 0};
            if (n0 + c < N && k0 + kk < K)
                chunk = *(const uint4*)&w[(size_t)(n0 + c) * K + k0 + kk];
            *(uint4*)&ws[c * WS_STRIDE + kk] = chunk;
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < K_STEP; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __half, row_major> fx;
            fragment<matrix_b, 16, 16, 16, __half, col_major> fw;
            load_matrix_sync(fx, xs + k0 + kk, XS_STRIDE);
            load_matrix_sync(fw, ws + warp * 16 * WS_STRIDE + kk, WS_STRIDE);
            mma_sync(acc, fx, fw, acc);
        }
        __syncthreads();
    }

    // ---- bias, GELU -------------------------------------------------------------------------------
    store_matrix_sync(ys + warp * 16, acc, COLS, mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) {
        const int r = i / COLS;
        const int c = i % COLS;
        if (m0 + r < M && n0 + c < N)
            y[(size_t)(m0 + r) * N + n0 + c] = __float2half(gelu_erf(ys[i] + __half2float(b[n0 + c])));
    }
}
