/*
Matmul backward pass, gradient with respect to the weight, on tensor cores.

dweight (OC, C) += dout^T (OC, B*T) @ inp (B*T, C)

Compile example:
nvcc -O3 --use_fast_math matmul_dweight.cu -o matmul_dweight -lcublas

version 1 loads everything from global memory
version 2 has two tiles in shared memory and prefetches the next one into registers
./matmul_dweight 2
*/

#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

typedef __nv_bfloat16 floatX;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

#define TILE 64         // output rows and columns per block
#define TILE_T 32       // positions (B*T) per step
#define PITCH (TILE + 8)

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

// ----------------------------------------------------------------------------
// 128-bit loads and stores

struct alignas(16) Packed128 {
    floatX payload[16 / sizeof(floatX)];
};

__device__ inline Packed128 load128(const floatX* address) {
    return *reinterpret_cast<const Packed128*>(address);
}

__device__ inline void store128(floatX* target, Packed128 value) {
    *reinterpret_cast<Packed128*>(target) = value;
}

// 8 channels of position t; zeros beyond the end
__device__ inline Packed128 fetch(const floatX* x, int t, int col, int BT, int width) {
    Packed128 out;
    for (int k = 0; k < 8; k++) { out.payload[k] = __float2bfloat16(0.0f); }
    if (t < BT && col < width) {
        out = load128(x + (size_t)t * width + col);
    }
    return out;
}

// ----------------------------------------------------------------------------
// GPU kernels

__global__ void __launch_bounds__(128) matmul_dweight_kernel2(float* dweight, const floatX* dout, const floatX* inp,
                                                              int BT, int C, int OC) {
    __shared__ alignas(128) floatX s_dout[2][TILE_T][PITCH];
    __shared__ alignas(128) floatX s_inp[2][TILE_T][PITCH];

    int warp = threadIdx.x / 32;
    int warp_oc = (warp / 2) * 32;
    int warp_c = (warp % 2) * 32;
    int oc_start = blockIdx.y * TILE;
    int c_start = blockIdx.x * TILE;

    // the gradient accumulates, so start from what is there
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            int oc = oc_start + warp_oc + i * 16;
            int c = c_start + warp_c + j * 16;
            if (oc < OC && c < C) {
                wmma::load_matrix_sync(acc[i][j], dweight + (size_t)oc * C + c, C, wmma::mem_row_major);
            }
        }
    }

    // each thread moves 2 x 8 channels of both tiles
    int row = threadIdx.x / 8;
    int col = (threadIdx.x % 8) * 8;
    Packed128 next_dout[2], next_inp[2];

    for (int i = 0; i < 2; i++) {
        int r = row + i * 16;
        store128(&s_dout[0][r][col], fetch(dout, r, oc_start + col, BT, OC));
        store128(&s_inp[0][r][col], fetch(inp, r, c_start + col, BT, C));
    }
    __syncthreads();

    int buf = 0;
    for (int t0 = 0; t0 < BT; t0 += TILE_T) {
        bool has_next = t0 + TILE_T < BT;
        if (has_next) {
            for (int i = 0; i < 2; i++) {
                int t = t0 + TILE_T + row + i * 16;
                next_dout[i] = fetch(dout, t, oc_start + col, BT, OC);
                next_inp[i] = fetch(inp, t, c_start + col, BT, C);
            }
        }

        for (int k = 0; k < TILE_T; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::col_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a[i], &s_dout[buf][k][warp_oc + i * 16], PITCH);
            }
            for (int j = 0; j < 2; j++) {
                wmma::load_matrix_sync(b[j], &s_inp[buf][k][warp_c + j * 16], PITCH);
            }
            for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 2; j++) {
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
                }
            }
        }

        if (has_next) {
            for (int i = 0; i < 2; i++) {
                store128(&s_dout[buf ^ 1][row + i * 16][col], next_dout[i]);
                store128(&s_inp[buf ^ 1][row + i * 16][col], next_inp[i]);
            }
        }
        __syncthreads();
        buf ^= 1;
    }

    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            int oc = oc_start + warp_oc + i * 16;
            int c = c_start + warp_c + j * 16;
            if (oc < OC && c < C) {
                wmma::store_matrix_sync(dweight + (size_t)oc * C + c, acc[i][j], C, wmma::mem_row_major);
            }
        }
    }
}

// ----------------------------------------------------------------------------
// kernel launcher

void matmul_dweight2(float* dweight, const floatX* dout, const floatX* inp, int B, int T, int C, int OC) {
    assert(C % 16 == 0 && OC % 16 == 0);
    dim3 grid(CEIL_DIV(C, TILE), CEIL_DIV(OC, TILE));
    matmul_dweight_kernel2<<<grid, 128>>>(dweight, dout, inp, B * T, C, OC);
    cudaCheck(cudaGetLastError());
}

// ----------------------------------------------------------------------------
// CPU code reference

void matmul_dweight_cpu(float* dweight, const float* dout, const float* inp, int BT, int C, int OC) {
    for (int bt = 0; bt < BT; bt++) {
        for (int o = 0; o < OC; o++) {
            for (int c = 0; c < C; c++) { dweight[o * C + c] += dout[bt * OC + o] * inp[bt * C + c]; }
        }
    }
}

int main(int argc, char** argv) {
    srand(0);
    int B = 4, T = 256, C = 256, OC = 512;

    float* dout = (float*)malloc(B * T * OC * sizeof(float));
    float* inp = (float*)malloc(B * T * C * sizeof(float));
    float* dweight = (float*)calloc(OC * C, sizeof(float));
    float* result = (float*)malloc(OC * C * sizeof(float));
    floatX* h_dout = (floatX*)malloc(B * T * OC * sizeof(floatX));
    floatX* h_inp = (floatX*)malloc(B * T * C * sizeof(floatX));
    for (int i = 0; i < B * T * OC; i++) {
        h_dout[i] = __float2bfloat16(2.0f * rand() / RAND_MAX - 1.0f);
        dout[i] = __bfloat162float(h_dout[i]);
    }
    for (int i = 0; i < B * T * C; i++) {
        h_inp[i] = __float2bfloat16(2.0f * rand() / RAND_MAX - 1.0f);
        inp[i] = __bfloat162float(h_inp[i]);
    }
    matmul_dweight_cpu(dweight, dout, inp, B * T, C, OC);

    floatX *d_dout, *d_inp;
    float* d_dweight;
    cudaCheck(cudaMalloc(&d_dout, B * T * OC * sizeof(floatX)));
    cudaCheck(cudaMalloc(&d_inp, B * T * C * sizeof(floatX)));
    cudaCheck(cudaMalloc(&d_dweight, OC * C * sizeof(float)));
    cudaCheck(cudaMemcpy(d_dout, h_dout, B * T * OC * sizeof(floatX), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_inp, h_inp, B * T * C * sizeof(floatX), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemset(d_dweight, 0, OC * C * sizeof(float)));

    matmul_dweight2(d_dweight, d_dout, d_inp, B, T, C, OC);
    cudaCheck(cudaMemcpy(result, d_dweight, OC * C * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < OC * C; i++) {
        if (fabsf(result[i] - dweight[i]) > 1e-2f) {
            printf("Mismatch at %d: %f vs %f\n", i, dweight[i], result[i]);
            return 1;
        }
    }
    printf("OK\n");

    cudaCheck(cudaFree(d_dout));
    cudaCheck(cudaFree(d_inp));
    cudaCheck(cudaFree(d_dweight));
    return 0;
}
