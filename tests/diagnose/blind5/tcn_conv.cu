/*
 * Causal dilated 1-D convolution (a layer of a TCN / WaveNet) as an implicit GEMM.
 *
 *   y[n][t][co] = relu(bias[co] + sum_tap sum_ci w[tap][co][ci] * x[n][t - (taps - 1 - tap) * dilation][ci])
 *
 * x before the start of the sequence is zero. The last tap sees the present.
 * A block has 64 time steps and 32 output channels; the window of x with its history is loaded once per chunk of
 * input channels and read by all taps, shifted by rows.
 */
#include <cuda_fp16.h>
#include <mma.h>

#define TILE_T 64
#define TILE_CO 32
#define CHUNK 32
#define MAX_HISTORY 32
#define LDX 48 /* rows are read at any offset: 96 bytes keep them 32-byte aligned */
#define LDW 40
#define LDO 36
#define THREADS 128

using namespace nvcuda;

extern "C" __global__ void tcn_conv_relu(const half *x, const half *w, const float *bias, half *y, int steps, int cin,
                                         int cout, int taps, int dilation)
{
    __shared__ __align__(32) half win[(TILE_T + MAX_HISTORY) * LDX];
    __shared__ __align__(32) half wt[TILE_CO * LDW];
    __shared__ __align__(32) float outs[TILE_T * LDO];

    int tid = threadIdx.x;
    int warp = tid / 32;
    int t0 = blockIdx.x * TILE_T;
    int co0 = blockIdx.y * TILE_CO;
    int n = blockIdx.z;
    int history = (taps - 1) * dilation;

    const half *xn = x + (size_t)n * steps * cin;
    half *yn = y + (size_t)n * steps * cout;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc0, acc1;
    wmma::fill_fragment(acc0, 0.0f);
    wmma::fill_fragment(acc1, 0.0f);

    for (int c0 = 0; c0 < cin; c0 += CHUNK) {
        /* the window: row 0 is time t0 - history */
        for (int i = tid; i < (TILE_T + history) * CHUNK; i += THREADS) {
            int r = i / CHUNK;
            int c = i % CHUNK;
            int t = t0 - history + r;
            half v = __float2half(0.0f);
            if (t >= 0 && t < steps && c0 + c < cin)
                v = xn[(size_t)t * cin + c0 + c];
            win[r * LDX + c] = v;
        }

        for (int tap = 0; tap < taps; tap++) {
            for (int i = tid; i < TILE_CO * CHUNK; i += THREADS) {
                int r = i / CHUNK;
                int c = i % CHUNK;
                half v = __float2half(0.0f);
                if (co0 + r < cout && c0 + c < cin)
                    v = w[((size_t)tap * cout + co0 + r) * cin + c0 + c];
                wt[r * LDW + c] = v;
            }
            __syncthreads();

            for (int kk = 0; kk < CHUNK; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fx;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fw0, fw1;
                wmma::load_matrix_sync(fx, win + (warp * 16 + tap * dilation) * LDX + kk, LDX);
                wmma::load_matrix_sync(fw0, wt + kk, LDW);
                wmma::load_matrix_sync(fw1, wt + 16 * LDW + kk, LDW);
                wmma::mma_sync(acc0, fx, fw0, acc0);
                wmma::mma_sync(acc1, fx, fw1, acc1);
            }
            __syncthreads(); /* before the next tap, or the next chunk, goes over them */
        }
    }

    wmma::store_matrix_sync(outs + warp * 16 * LDO, acc0, LDO, wmma::mem_row_major);
    wmma::store_matrix_sync(outs + warp * 16 * LDO + 16, acc1, LDO, wmma::mem_row_major);
    __syncthreads();

    for (int i = tid; i < TILE_T * TILE_CO; i += THREADS) {
        int r = i / TILE_CO;
        int c = i % TILE_CO;
        if (t0 + r < steps && co0 + c < cout) {
            float v = outs[r * LDO + c] + bias[co0 + c];
            yn[(size_t)(t0 + r) * cout + co0 + c] = __float2half(v > 0.0f ? v : 0.0f);
        }
    }
}
