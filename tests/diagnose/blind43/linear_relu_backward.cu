/*
Backward pass of out = relu(inp @ weight^T + bias) for the parameters:

  dz      = dout * (out > 0)
  dweight = grad_scale * dz^T @ inp      (OC, IC)
  dbias   = grad_scale * sum of dz       (OC)

dout and out are (BT, OC), inp is (BT, IC), all in bf16; gradients of parameters are fp32.
A block has a tile of 64 x 64 of dweight, each of its four warps a quarter of it. OC and IC are multiples of 8.
launch: <<<dim3(ceil_div(IC, 64), ceil_div(OC, 64)), 128>>>
*/
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

typedef __nv_bfloat16 floatX;

#define TILE_OC 64
#define TILE_IC 64
#define TILE_BT 32
#define PAD 8
#define LD_STAGE (TILE_IC + 4)
#define NUM_THREADS 128
#define VECS_PER_ROW (TILE_OC / 8)
#define VECS_PER_THREAD (TILE_BT * VECS_PER_ROW / NUM_THREADS)

__device__ inline uint4 load128(const floatX* address) {
    return *reinterpret_cast<const uint4*>(address);
}

// gradient through the relu: zero wherever the output was zero
__device__ inline uint4 relu_backward(uint4 grad, uint4 act) {
    floatX* g = reinterpret_cast<floatX*>(&grad);
    const floatX* a = reinterpret_cast<const floatX*>(&act);
    #pragma unroll
    for (int j = 0; j < 8; j++) {
        if (!(__bfloat162float(a[j]) > 0.0f)) { g[j] = __float2bfloat16(0.0f); }
    }
    return grad;
}

__device__ inline void fetch_tile(uint4* reg_dz, uint4* reg_inp, const floatX* dout, const floatX* out,
                                  const floatX* inp, int bt0, int oc0, int ic0, int BT, int OC, int IC) {
    #pragma unroll
    for (int i = 0; i < VECS_PER_THREAD; i++) {
        int vec = threadIdx.x + i * NUM_THREADS;
        int bt = bt0 + vec / VECS_PER_ROW;
        int oc = oc0 + (vec % VECS_PER_ROW) * 8;
        int ic = ic0 + (vec % VECS_PER_ROW) * 8;
        reg_dz[i] = make_uint4(0, 0, 0, 0);
        reg_inp[i] = make_uint4(0, 0, 0, 0);
        if (bt < BT && oc < OC) {
            uint4 grad = load128(dout + (size_t)bt * OC + oc);
            uint4 act = load128(out + (size_t)bt * OC + oc);
            reg_dz[i] = relu_backward(grad, act);
        }
        if (bt < BT && ic < IC) {
            reg_inp[i] = load128(inp + (size_t)bt * IC + ic);
        }
    }
}

__global__ void __launch_bounds__(NUM_THREADS)
linear_relu_backward_params(float* dweight, float* dbias, const floatX* dout, const floatX* out, const floatX* inp,
                            float grad_scale, int BT, int OC, int IC) {
    __shared__ __align__(128) floatX s_dz[TILE_BT][TILE_OC + PAD];
    __shared__ __align__(128) floatX s_inp[TILE_BT][TILE_IC + PAD];
    __shared__ __align__(128) float s_stage[TILE_OC * LD_STAGE];

    const int ic0 = blockIdx.x * TILE_IC;
    const int oc0 = blockIdx.y * TILE_OC;
    const int warp = threadIdx.x / 32;
    const int warp_oc = (warp / 2) * 32;
    const int warp_ic = (warp % 2) * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            wmma::fill_fragment(acc[i][j], 0.0f);
        }
    }
    float bias_sum = 0.0f;

    uint4 reg_dz[VECS_PER_THREAD];
    uint4 reg_inp[VECS_PER_THREAD];
    fetch_tile(reg_dz, reg_inp, dout, out, inp, 0, oc0, ic0, BT, OC, IC);

    for (int bt0 = 0; bt0 < BT; bt0 += TILE_BT) {
        #pragma unroll
        for (int i = 0; i < VECS_PER_THREAD; i++) {
            int vec = threadIdx.x + i * NUM_THREADS;
            int row = vec / VECS_PER_ROW;
            int col = (vec % VECS_PER_ROW) * 8;
            *reinterpret_cast<uint4*>(&s_dz[row][col]) = reg_dz[i];
            *reinterpret_cast<uint4*>(&s_inp[row][col]) = reg_inp[i];
        }
        __syncthreads();

        // the next rows are under way while these are multiplied
        if (bt0 + TILE_BT < BT) {
            fetch_tile(reg_dz, reg_inp, dout, out, inp, bt0 + TILE_BT, oc0, ic0, BT, OC, IC);
        }

        #pragma unroll
        for (int kk = 0; kk < TILE_BT; kk += 16) {
            // dz is read transposed: its rows are the depth of the product
            wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::col_major> dz_frag[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> inp_frag[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(dz_frag[i], &s_dz[kk][warp_oc + i * 16], TILE_OC + PAD);
            }
            for (int j = 0; j < 2; j++) {
                wmma::load_matrix_sync(inp_frag[j], &s_inp[kk][warp_ic + j * 16], TILE_IC + PAD);
            }
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 2; j++) {
                    wmma::mma_sync(acc[i][j], dz_frag[i], inp_frag[j], acc[i][j]);
                }
            }
        }

        // the first column of blocks adds up the bias
        if (blockIdx.x == 0 && threadIdx.x < TILE_OC) {
            for (int row = 0; row < TILE_BT; row++) {
                bias_sum += __bfloat162float(s_dz[row][threadIdx.x]);
            }
        }
        __syncthreads(); // tiles are written again
    }

    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            float* stage = s_stage + (warp_oc + i * 16) * LD_STAGE + warp_ic + j * 16;
            wmma::store_matrix_sync(stage, acc[i][j], LD_STAGE, wmma::mem_row_major);
        }
    }
    __syncthreads(); // the results of all warps are there

    for (int idx = threadIdx.x; idx < TILE_OC * TILE_IC; idx += NUM_THREADS) {
        int row = idx / TILE_IC;
        int col = idx % TILE_IC;
        int oc = oc0 + row;
        int ic = ic0 + col;
        if (oc < OC && ic < IC) {
            dweight[(size_t)oc * IC + ic] = s_stage[row * LD_STAGE + col] * grad_scale;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < TILE_OC && oc0 + threadIdx.x < OC) {
        dbias[oc0 + threadIdx.x] = bias_sum * grad_scale;
    }
}
