/*
Kernels for attention forward pass, scores and probabilities kept in memory.

Compile example:
nvcc -O3 --use_fast_math -arch=sm_80 attention_forward_tc.cu -o attention_forward_tc

version 1 is the CPU port, one query at a time
version 2 uses tensor cores for both products:
  attention_scores_kernel2   preatt = scale * q . k, lower triangle only
  attention_softmax_kernel2  att = softmax(preatt), one warp per row
  attention_value_kernel2    out = att . v
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>

typedef __nv_bfloat16 floatX;
using namespace nvcuda;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

void cudaCheck(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cudaCheck(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// CPU code reference

void attention_forward_cpu(float* out, float* preatt, float* att,
                           const float* inp,
                           int B, int T, int C, int NH) {
    // input is (B, T, 3C) Q,K,V
    // preatt, att are (B, NH, T, T)
    // output is (B, T, C)
    int C3 = C*3;
    int hs = C / NH; // head size
    float scale = 1.0 / sqrtf(hs);

    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int h = 0; h < NH; h++) {
                const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
                float* preatt_bth = preatt + b*NH*T*T + h*T*T + t*T;
                float* att_bth = att + b*NH*T*T + h*T*T + t*T;
                float maxval = -FLT_MAX;
                for (int t2 = 0; t2 < T; t2++) {
                    if (t2 > t) { preatt_bth[t2] = 0.0f; att_bth[t2] = 0.0f; continue; }
                    const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C; // +C because it's key
                    float val = 0.0f;
                    for (int i = 0; i < hs; i++) {
                        val += query_t[i] * key_t2[i];
                    }
                    val *= scale;
                    if (val > maxval) { maxval = val; }
                    preatt_bth[t2] = val;
                }
                float expsum = 0.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    float expv = expf(preatt_bth[t2] - maxval);
                    expsum += expv;
                    att_bth[t2] = expv;
                }
                float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;
                for (int t2 = 0; t2 <= t; t2++) { att_bth[t2] *= expsum_inv; }

                float* out_bth = out + b * T * C + t * C + h * hs;
                for (int i = 0; i < hs; i++) { out_bth[i] = 0.0f; }
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C*2; // +C*2 because it's value
                    for (int i = 0; i < hs; i++) {
                        out_bth[i] += att_bth[t2] * value_t2[i];
                    }
                }
            }
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels

// one warp per 16x16 tile of (T, T); tiles above the diagonal are skipped
__global__ void attention_scores_kernel2(float* preatt, const floatX* inp, int B, int T, int C, int NH) {
    int hs = C / NH;
    int C3 = C * 3;
    int tile_t = blockIdx.y;
    int tile_t2 = blockIdx.x;
    if (tile_t2 > tile_t) { return; }
    int b = blockIdx.z / NH;
    int h = blockIdx.z % NH;
    const floatX* q = inp + b * T * C3 + tile_t * 16 * C3 + h * hs;
    const floatX* k = inp + b * T * C3 + tile_t2 * 16 * C3 + h * hs + C;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < hs; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> qf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::col_major> kf;
        wmma::load_matrix_sync(qf, q + i, C3);
        wmma::load_matrix_sync(kf, k + i, C3);
        wmma::mma_sync(acc, qf, kf, acc);
    }
    float scale = rsqrtf((float)hs);
    for (int i = 0; i < acc.num_elements; i++) { acc.x[i] *= scale; }
    float* dst = preatt + (size_t)blockIdx.z * T * T + tile_t * 16 * T + tile_t2 * 16;
    wmma::store_matrix_sync(dst, acc, T, wmma::mem_row_major);
}

__global__ void attention_softmax_kernel2(floatX* att, const float* preatt, int N, int T) {
    // preatt is (N, T) with N = B*NH*T; row t of T sees columns up to t
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (warp >= N) { return; }
    int t = warp % T;
    const float* x = preatt + (size_t)warp * T;
    floatX* y = att + (size_t)warp * T;

    float maxval = -FLT_MAX;
    for (int i = lane; i <= t; i += 32) { maxval = fmaxf(maxval, x[i]); }
    for (int offset = 16; offset > 0; offset /= 2) {
        maxval = fmaxf(maxval, __shfl_xor_sync(0xFFFFFFFF, maxval, offset));
    }
    float sum = 0.0f;
    for (int i = lane; i <= t; i += 32) { sum += expf(x[i] - maxval); }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
    }
    float norm = 1.0f / sum;
    for (int i = lane; i < T; i += 32) {
        y[i] = __float2bfloat16(i <= t ? expf(x[i] - maxval) * norm : 0.0f);
    }
}

// a block has hs / 16 warps, each of them makes 16 columns of a head for 16 queries
__global__ void attention_value_kernel2(float* out, const floatX* att, const floatX* inp, int B, int T, int C, int NH) {
    int hs = C / NH;
    int C3 = C * 3;
    int warp = threadIdx.x / 32;
    int b = blockIdx.y / NH;
    int h = blockIdx.y % NH;
    int t = blockIdx.x * 16;
    const floatX* v = inp + b * T * C3 + h * hs + 2 * C + warp * 16;
    const floatX* p = att + (size_t)blockIdx.y * T * T + t * T;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int t2 = 0; t2 <= t; t2 += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, floatX, wmma::row_major> pf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, floatX, wmma::row_major> vf;
        wmma::load_matrix_sync(pf, p + t2, T);
        wmma::load_matrix_sync(vf, v + t2 * C3, C3);
        wmma::mma_sync(acc, pf, vf, acc);
    }
    wmma::store_matrix_sync(out + b * T * C + t * C + h * hs + warp * 16, acc, C, wmma::mem_row_major);
}

// ----------------------------------------------------------------------------
// kernel launcher

void attention_forward2(float* out, float* preatt, floatX* att, const floatX* inp,
                        int B, int T, int C, int NH, const int block_size) {
    dim3 scores_grid(T / 16, T / 16, B * NH);
    attention_scores_kernel2<<<scores_grid, 32>>>(preatt, inp, B, T, C, NH);
    cudaCheck(cudaGetLastError());
    int N = B * NH * T;
    attention_softmax_kernel2<<<CEIL_DIV(N * 32, block_size), block_size>>>(att, preatt, N, T);
    cudaCheck(cudaGetLastError());
    attention_value_kernel2<<<dim3(T / 16, B * NH), (C / NH) / 16 * 32>>>(out, att, inp, B, T, C, NH);
    cudaCheck(cudaGetLastError());
}

// ----------------------------------------------------------------------------

float* make_random_float(size_t N) {
    float* arr = (float*)malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) {
        arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
    }
    return arr;
}

int main(int argc, char **argv) {
    srand(0);

    int B = 2;
    int T = 64;
    int C = 64;
    int NH = 2;

    float* out = (float*)malloc(B * T * C * sizeof(float));
    float* preatt = (float*)malloc(B * NH * T * T * sizeof(float));
    float* att = (float*)malloc(B * NH * T * T * sizeof(float));
    float* inp = make_random_float(B * T * 3 * C);
    floatX* inp_bf16 = (floatX*)malloc(B * T * 3 * C * sizeof(floatX));
    for (int i = 0; i < B * T * 3 * C; i++) {
        inp_bf16[i] = __float2bfloat16(inp[i]);
        inp[i] = __bfloat162float(inp_bf16[i]);
    }

    float *d_out, *d_preatt;
    floatX *d_att, *d_inp;
    cudaCheck(cudaMalloc(&d_out, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_preatt, B * NH * T * T * sizeof(float)));
    cudaCheck(cudaMalloc(&d_att, B * NH * T * T * sizeof(floatX)));
    cudaCheck(cudaMalloc(&d_inp, B * T * 3 * C * sizeof(floatX)));
    cudaCheck(cudaMemcpy(d_inp, inp_bf16, B * T * 3 * C * sizeof(floatX), cudaMemcpyHostToDevice));

    attention_forward_cpu(out, preatt, att, inp, B, T, C, NH);
    attention_forward2(d_out, d_preatt, d_att, d_inp, B, T, C, NH, 128);

    float* out_gpu = (float*)malloc(B * T * C * sizeof(float));
    cudaCheck(cudaMemcpy(out_gpu, d_out, B * T * C * sizeof(float), cudaMemcpyDeviceToHost));
    int nfaults = 0;
    for (int i = 0; i < B * T * C; i++) {
        if (fabsf(out[i] - out_gpu[i]) > 1e-2f) {
            printf("Mismatch at %d: CPU_ref: %f vs GPU: %f\n", i, out[i], out_gpu[i]);
            if (++nfaults >= 10) { exit(EXIT_FAILURE); }
        }
    }
    printf("Results match\n");

    free(out); free(preatt); free(att); free(inp); free(inp_bf16); free(out_gpu);
    cudaFree(d_out); cudaFree(d_preatt); cudaFree(d_att); cudaFree(d_inp);
    return nfaults ? 1 : 0;
}
