/*
Attention backward, dK and dV, on tensor cores. The forward pass of this file keeps the log-sum-exp of each row.

Version 1 is the naive one of attention_backward.cu (materialises preatt and att)
Version 2 recomputes att from qkv and lse, blocks of 32 keys stay in shared memory while all later queries pass by

./attention_backward_dkdv 2
*/
#include <stdio.h>
#include <stdlib.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 floatX;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

#define HS 64        // head size
#define BT_TILE 32   // queries and keys in a tile
#define NTHREADS 128
#define LDX (HS + 8)         // row of a tile of q, k, v, dout
#define LDS (BT_TILE + 4)    // row of scores, floats
#define LDP (BT_TILE + 8)    // row of att and dpreatt, bf16
#define LDOUT (HS + 4)       // row of the results, floats

// ----------------------------------------------------------------------------
// GPU kernels

// loads BT_TILE rows of HS values; rows from T on are zero
__device__ void load_rows(floatX* tile, const floatX* src, int t0, int T, size_t stride) {
    for (int i = threadIdx.x; i < BT_TILE * HS / 8; i += NTHREADS) {
        int row = i / (HS / 8);
        int col = i % (HS / 8) * 8;
        int4 val = make_int4(0, 0, 0, 0);
        if (t0 + row < T) {
            val = *reinterpret_cast<const int4*>(src + (t0 + row) * stride + col);
        }
        *reinterpret_cast<int4*>(tile + row * LDX + col) = val;
    }
}

// one 16x16 tile of X @ Y^T, X and Y both (32, HS) in shared memory
__device__ void tile_xyt(float* out, const floatX* x, const floatX* y, int r, int c) {
    using namespace nvcuda;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < HS; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> fx;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::col_major> fy;
        wmma::load_matrix_sync(fx, x + r * LDX + k, LDX);
        wmma::load_matrix_sync(fy, y + c * LDX + k, LDX);
        wmma::mma_sync(acc, fx, fy, acc);
    }
    wmma::store_matrix_sync(out + r * LDS + c, acc, LDS, wmma::mem_row_major);
}

__global__ void attention_backward_dkdv_kernel2(floatX* dqkv, const floatX* qkv, const floatX* dout,
                                                const float* lse, const float* delta,
                                                int B, int T, int NH, float scale) {
    // qkv, dqkv are (B, T, 3, NH, HS), dout is (B, T, NH, HS), lse and delta are (B, NH, T)
    using namespace nvcuda;
    __shared__ __align__(128) floatX s_k[BT_TILE * LDX];
    __shared__ __align__(128) floatX s_v[BT_TILE * LDX];
    __shared__ __align__(128) floatX s_q[BT_TILE * LDX];
    __shared__ __align__(128) floatX s_dout[BT_TILE * LDX];
    __shared__ __align__(128) float s_f[2 * BT_TILE * LDS]; // preatt and datt; at the end the results
    __shared__ __align__(128) floatX s_att[BT_TILE * LDP];
    __shared__ __align__(128) floatX s_dpreatt[BT_TILE * LDP];
    float* s_preatt = s_f;
    float* s_datt = s_f + BT_TILE * LDS;

    int C = NH * HS;
    int b = blockIdx.z;
    int h = blockIdx.y;
    int k0 = blockIdx.x * BT_TILE; // first key of this block
    int warp = threadIdx.x / 32;

    const floatX* q = qkv + (size_t)b * T * 3 * C + h * HS;
    const floatX* k = q + C;
    const floatX* v = q + 2 * C;
    const floatX* dout_bh = dout + (size_t)b * T * C + h * HS;
    const float* lse_bh = lse + (b * NH + h) * T;
    const float* delta_bh = delta + (b * NH + h) * T;

    load_rows(s_k, k, k0, T, 3 * C);
    load_rows(s_v, v, k0, T, 3 * C);

    // a warp has 16 columns of dK and dV, for all 32 keys
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_dk[2], acc_dv[2];
    for (int i = 0; i < 2; i++) {
        wmma::fill_fragment(acc_dk[i], 0.0f);
        wmma::fill_fragment(acc_dv[i], 0.0f);
    }

    // causal: queries before the first key do not see any of this block
    for (int q0 = k0; q0 < T; q0 += BT_TILE) {
        load_rows(s_q, q, q0, T, 3 * C);
        load_rows(s_dout, dout_bh, q0, T, C);
        __syncthreads();

        // preatt = q @ k^T, datt = dout @ v^T; a warp has a quarter of both
        int r = warp / 2 * 16;
        int c = warp % 2 * 16;
        tile_xyt(s_preatt, s_q, s_k, r, c);
        tile_xyt(s_datt, s_dout, s_v, r, c);
        __syncthreads();

        // softmax backward
        for (int i = threadIdx.x; i < BT_TILE * BT_TILE; i += NTHREADS) {
            int tq = i / BT_TILE;
            int tk = i % BT_TILE;
            int t = q0 + tq;
            float att = 0.0f;
            float dpreatt = 0.0f;
            if (t < T && k0 + tk <= t) {
                att = expf(scale * s_preatt[tq * LDS + tk] - lse_bh[t]);
                dpreatt = att * (s_datt[tq * LDS + tk] - delta_bh[t]);
            }
            s_att[tq * LDP + tk] = __float2bfloat16(att);
            s_dpreatt[tq * LDP + tk] = __float2bfloat16(dpreatt);
        }
        __syncthreads();

        // dv += att^T @ dout, dk += dpreatt^T @ q
        for (int kk = 0; kk < BT_TILE; kk += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> f_dout, f_q;
            wmma::load_matrix_sync(f_dout, s_dout + kk * LDX + warp * 16, LDX);
            wmma::load_matrix_sync(f_q, s_q + kk * LDX + warp * 16, LDX);
            for (int i = 0; i < 2; i++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::col_major> f_att, f_dpreatt;
                wmma::load_matrix_sync(f_att, s_att + kk * LDP + i * 16, LDP);
                wmma::load_matrix_sync(f_dpreatt, s_dpreatt + kk * LDP + i * 16, LDP);
                wmma::mma_sync(acc_dv[i], f_att, f_dout, acc_dv[i]);
                wmma::mma_sync(acc_dk[i], f_dpreatt, f_q, acc_dk[i]);
            }
        }
        __syncthreads(); // q, dout, att, dpreatt are written again
    }

    // results through shared memory: first dK, then dV
    for (int which = 1; which <= 2; which++) {
        for (int i = 0; i < 2; i++) {
            wmma::store_matrix_sync(s_f + i * 16 * LDOUT + warp * 16, which == 1 ? acc_dk[i] : acc_dv[i], LDOUT, wmma::mem_row_major);
        }
        __syncthreads();
        float factor = which == 1 ? scale : 1.0f;
        for (int i = threadIdx.x; i < BT_TILE * HS; i += NTHREADS) {
            int row = i / HS;
            int col = i % HS;
            if (k0 + row < T) {
                size_t idx = (((size_t)b * T + k0 + row) * 3 + which) * C + h * HS + col;
                dqkv[idx] = __float2bfloat16(factor * s_f[row * LDOUT + col]);
            }
        }
        __syncthreads();
    }
}

// ----------------------------------------------------------------------------
// kernel launcher

void attention_backward_dkdv2(floatX* dqkv, const floatX* qkv, const floatX* dout, const float* lse, const float* delta,
                              int B, int T, int C, int NH) {
    assert(C / NH == HS);
    float scale = 1.0f / sqrtf(HS);
    dim3 grid(CEIL_DIV(T, BT_TILE), NH, B);
    attention_backward_dkdv_kernel2<<<grid, NTHREADS>>>(dqkv, qkv, dout, lse, delta, B, T, NH, scale);
}
