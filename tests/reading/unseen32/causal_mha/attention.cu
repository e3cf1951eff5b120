/*
Test of attention.cuh against the CPU version.

nvcc -O3 --use_fast_math -arch=sm_80 attention.cu -o attention
./attention [T]
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "attention.cuh"

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
void cuda_check(cudaError_t error, const char* file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

void attention_forward_cpu(float* out, float* att, const float* inp, int B, int T, int C, int NH) {
    int C3 = C * 3;
    int hs = C / NH;
    float scale = 1.0 / sqrtf(hs);
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int h = 0; h < NH; h++) {
                const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
                // pass 1: query dot key and maxval
                float maxval = -10000.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C;  // +C because it's key
                    float val = 0.0f;
                    for (int i = 0; i < hs; i++) val += query_t[i] * key_t2[i];
                    val *= scale;
                    if (val > maxval) maxval = val;
                    att[t2] = val;
                }
                // pass 2: softmax
                float expsum = 0.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    att[t2] = expf(att[t2] - maxval);
                    expsum += att[t2];
                }
                // pass 3: weighted values
                float* out_bth = out + b * T * C + t * C + h * hs;
                for (int i = 0; i < hs; i++) out_bth[i] = 0.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C * 2;  // +C*2 because it's value
                    for (int i = 0; i < hs; i++) out_bth[i] += att[t2] / expsum * value_t2[i];
                }
            }
        }
    }
}

int main(int argc, char** argv) {
    int B = 2, T = argc > 1 ? atoi(argv[1]) : 192, C = 192, NH = 4;
    if (T % 16) { printf("T must be a multiple of 16\n"); return 1; }
    size_t n_qkv = (size_t)B * T * 3 * C, n_out = (size_t)B * T * C, n_att = (size_t)B * NH * T * T;

    half* h_qkv = (half*)malloc(n_qkv * sizeof(half));
    float* f_qkv = (float*)malloc(n_qkv * sizeof(float));
    float* ref = (float*)malloc(n_out * sizeof(float));
    float* res = (float*)malloc(n_out * sizeof(float));
    float* tmp = (float*)malloc(T * sizeof(float));
    srand(0);
    for (size_t i = 0; i < n_qkv; i++) {
        h_qkv[i] = __float2half((float)rand() / RAND_MAX * 2.0f - 1.0f);
        f_qkv[i] = __half2float(h_qkv[i]);
    }
    attention_forward_cpu(ref, tmp, f_qkv, B, T, C, NH);

    half *d_qkv, *d_att;
    float *d_pre, *d_out;
    cudaCheck(cudaMalloc(&d_qkv, n_qkv * sizeof(half)));
    cudaCheck(cudaMalloc(&d_att, n_att * sizeof(half)));
    cudaCheck(cudaMalloc(&d_pre, n_att * sizeof(float)));
    cudaCheck(cudaMalloc(&d_out, n_out * sizeof(float)));
    cudaCheck(cudaMemcpy(d_qkv, h_qkv, n_qkv * sizeof(half), cudaMemcpyHostToDevice));

    attn::attention_forward(d_out, d_pre, d_att, d_qkv, B, T, C, NH);
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(res, d_out, n_out * sizeof(float), cudaMemcpyDeviceToHost));

    int nfaults = 0;
    for (size_t i = 0; i < n_out; i++) {
        if (i < 5) printf("%f %f\n", ref[i], res[i]);
        if (fabsf(ref[i] - res[i]) > 4e-3f) {
            if (++nfaults <= 10) printf("Mismatch at %zu: CPU_ref: %f vs GPU: %f\n", i, ref[i], res[i]);
        }
    }
    printf(nfaults ? "NOT OK\n" : "Results match!\n");
    cudaFree(d_qkv); cudaFree(d_att); cudaFree(d_pre); cudaFree(d_out);
    free(h_qkv); free(f_qkv); free(ref); free(res); free(tmp);
    return nfaults != 0;
}
