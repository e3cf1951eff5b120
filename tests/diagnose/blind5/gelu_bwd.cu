// Backward pass of  y = gelu(h),  h = x @ W^T + b   with respect to x and b:
//
//     dh = dy * gelu'(h)        dx = dh @ W        db = sum of dh over tokens
//
// dy, h: [tokens, ffn], W: [ffn, hidden] (as nn.Linear has it), dx: [tokens, hidden]. gelu is the one with tanh.
// 32 tokens x 32 columns per block, wmma m8n32k16: each of the four warps has 8 tokens. The next slice of dy, h and W
// is loaded into registers while the current one is multiplied. db is accumulated by the blocks of column 0 and has
// to be zero before the launch.
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

constexpr int TOKENS = 32, COLS = 32, SLICE = 16;
constexpr int LD_DH = 24, LD_W = 40, LD_DX = 36;

struct Registers {
    __half dy[4], h[4], w[4];
};

__device__ float gelu_grad(float v)
{
    const float k0 = 0.7978845608f, k1 = 0.044715f;
    const float t = tanhf(k0 * (v + k1 * v * v * v));
    return 0.5f * (1.f + t) + 0.5f * v * (1.f - t * t) * k0 * (1.f + 3.f * k1 * v * v);
}

__device__ void load_slice(Registers &regs, const __half *dy, const __half *h, const __half *W, int token0, int col0,
                           int f0, int tokens, int ffn, int hidden)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int e = threadIdx.x + i * 128;
        // a 32 x 16 piece of dy and h
        const int token = token0 + e / SLICE;
        const int f = f0 + e % SLICE;
        const bool ok = token < tokens && f < ffn;
        regs.dy[i] = ok ? dy[(size_t)token * ffn + f] : __half(0.f);
        regs.h[i] = ok ? h[(size_t)token * ffn + f] : __half(0.f);
        // a 16 x 32 piece of W
        const int wf = f0 + e / COLS;
        const int col = col0 + e % COLS;
        regs.w[i] = wf < ffn && col < hidden ? W[(size_t)wf * hidden + col] : __half(0.f);
    }
}

__global__ void gelu_linear_bwd(const __half *__restrict__ dy, const __half *__restrict__ h,
                                const __half *__restrict__ W, __half *__restrict__ dx, float *__restrict__ db,
                                int tokens, int ffn, int hidden)
{
    __shared__ __align__(32) __half dh_s[TOKENS * LD_DH];
    __shared__ __align__(32) __half w_s[SLICE * LD_W];
    __shared__ __align__(32) float dx_s[TOKENS * LD_DX];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int token0 = blockIdx.y * TOKENS, col0 = blockIdx.x * COLS;

    wmma::fragment<wmma::accumulator, 8, 32, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);

    Registers regs;
    load_slice(regs, dy, h, W, token0, col0, 0, tokens, ffn, hidden);

    for (int f0 = 0; f0 < ffn; f0 += SLICE) {
        float column = 0.f;  // all four elements of a thread are of one column of dh
        for (int i = 0; i < 4; i++) {
            const int e = threadIdx.x + i * 128;
            const float g = __half2float(regs.dy[i]) * gelu_grad(__half2float(regs.h[i]));
            column += g;
            dh_s[e / SLICE * LD_DH + e % SLICE] = __float2half(g);
            w_s[e / COLS * LD_W + e % COLS] = regs.w[i];
        }
        __syncthreads();

        if (f0 + SLICE < ffn)
            load_slice(regs, dy, h, W, token0, col0, f0 + SLICE, tokens, ffn, hidden);

        wmma::fragment<wmma::matrix_a, 8, 32, 16, __half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 8, 32, 16, __half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, dh_s + warp * 8 * LD_DH, LD_DH);
        wmma::load_matrix_sync(fb, w_s, LD_W);
        wmma::mma_sync(acc, fa, fb, acc);

        if (blockIdx.x == 0) {
            column += __shfl_down_sync(0xffffffffu, column, SLICE);
            if (lane < SLICE && f0 + lane < ffn)
                atomicAdd(db + f0 + lane, column);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(dx_s + warp * 8 * LD_DX, acc, LD_DX, wmma::mem_row_major);
    __syncthreads();
    for (int e = threadIdx.x; e < TOKENS * COLS; e += 128) {
        const int r = e / COLS, c = e % COLS;
        if (token0 + r < tokens && col0 + c < hidden)
            dx[(size_t)(token0 + r) * hidden + col0 + c] = __float2half(dx_s[r * LD_DX + c]);
    }
}

void gelu_linear_backward(const __half *dy, const __half *h, const __half *W, __half *dx, float *db, int tokens,
                          int ffn, int hidden, cudaStream_t stream)
{
    cudaMemsetAsync(db, 0, ffn * sizeof(float), stream);
    dim3 grid((hidden + COLS - 1) / COLS, (tokens + TOKENS - 1) / TOKENS);
    gelu_linear_bwd<<<grid, 128, 0, stream>>>(dy, h, W, dx, db, tokens, ffn, hidden);
}
