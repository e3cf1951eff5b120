/*
Kernels for the attention forward pass, split in several kernels like the first GPU
versions of GPT-2 training codes: permute -> QK^T -> scaled causal softmax -> PV -> unpermute

Compile example:
nvcc -O3 --use_fast_math attention_forward_multi.cu -o attention_forward_multi

version 1: one thread per score, softmax with one thread per row
./attention_forward_multi 1

version 2: tiled QK^T / PV in shared memory, online softmax with one warp per row
./attention_forward_multi 2
*/

#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <assert.h>
#include <cuda_runtime.h>

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

void attention_forward_cpu(float* out, float* preatt, float* att, const float* inp,
                           int B, int T, int C, int NH) {
    // input is (B, T, 3C) Q,K,V
    // preatt, att are (B, NH, T, T)
    // output is (B, T, C)
    int C3 = C * 3;
    int hs = C / NH; // head size
    float scale = 1.0 / sqrtf(hs);

    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int h = 0; h < NH; h++) {
                const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
                float* preatt_bth = preatt + b * NH * T * T + h * T * T + t * T;
                float* att_bth = att + b * NH * T * T + h * T * T + t * T;

                // pass 1: calculate query dot key and maxval
                float maxval = -FLT_MAX;
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C; // +C because it's key
                    float val = 0.0f;
                    for (int i = 0; i < hs; i++) { val += query_t[i] * key_t2[i]; }
                    val *= scale;
                    if (val > maxval) { maxval = val; }
                    preatt_bth[t2] = val;
                }
                // pass 2: calculate the exp and keep track of sum
                float expsum = 0.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    float expv = expf(preatt_bth[t2] - maxval);
                    expsum += expv;
                    att_bth[t2] = expv;
                }
                float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;
                // pass 3: normalize to get the softmax
                for (int t2 = 0; t2 < T; t2++) {
                    if (t2 <= t) { att_bth[t2] *= expsum_inv; } else { att_bth[t2] = 0.0f; }
                }
                // pass 4: accumulate weighted values into the output of attention
                float* out_bth = out + b * T * C + t * C + h * hs;
                for (int i = 0; i < hs; i++) { out_bth[i] = 0.0f; }
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C * 2; // +C*2 because it's value
                    for (int i = 0; i < hs; i++) { out_bth[i] += att_bth[t2] * value_t2[i]; }
                }
            }
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels, version 1

__global__ void attention_query_key_kernel1(float* preatt, const float* inp,
                                            int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * NH * T * T;
    if (idx < total_threads) {
        int t2 = idx % T;
        int t = (idx / T) % T;
        if (t2 > t) {
            // autoregressive mask
            preatt[idx] = -INFINITY;
            return;
        }
        int h = (idx / (T * T)) % NH;
        int b = idx / (NH * T * T);

        int C3 = C * 3;
        int hs = C / NH;
        const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
        const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C; // +C because it's key

        float val = 0.0f;
        for (int i = 0; i < hs; i++) { val += query_t[i] * key_t2[i]; }
        val *= 1.0 / sqrtf(hs);
        preatt[idx] = val;
    }
}

__global__ void attention_softmax_kernel1(float* att, const float* preatt,
                                          int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;
    if (idx < total_threads) {
        int h = idx % NH;
        int t = (idx / NH) % T;
        int b = idx / (NH * T);

        const float* preatt_bth = preatt + b * NH * T * T + h * T * T + t * T;
        float* att_bth = att + b * NH * T * T + h * T * T + t * T;

        float maxval = -FLT_MAX;
        for (int t2 = 0; t2 <= t; t2++) {
            if (preatt_bth[t2] > maxval) { maxval = preatt_bth[t2]; }
        }
        float expsum = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            float expv = expf(preatt_bth[t2] - maxval);
            expsum += expv;
            att_bth[t2] = expv;
        }
        float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;
        for (int t2 = 0; t2 < T; t2++) {
            if (t2 <= t) { att_bth[t2] *= expsum_inv; } else { att_bth[t2] = 0.0f; }
        }
    }
}

__global__ void attention_value_kernel1(float* out, const float* att, const float* inp,
                                        int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;
    if (idx < total_threads) {
        int h = idx % NH;
        int t = (idx / NH) % T;
        int b = idx / (NH * T);

        int C3 = C * 3;
        int hs = C / NH;
        float* out_bth = out + b * T * C + t * C + h * hs;
        const float* att_bth = att + b * NH * T * T + h * T * T + t * T;

        for (int i = 0; i < hs; i++) { out_bth[i] = 0.0f; }
        for (int t2 = 0; t2 <= t; t2++) {
            const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C * 2; // +C*2 because it's value
            float att_btht2 = att_bth[t2];
            for (int i = 0; i < hs; i++) { out_bth[i] += att_btht2 * value_t2[i]; }
        }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels, version 2

// Q,K,V of (B, T, 3, NH, d) -> three tensors (B, NH, T, d)
__global__ void permute_kernel(float* q, float* k, float* v, const float* inp,
                               int B, int N, int NH, int d) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * NH * N * d) {
        int b = idx / (NH * N * d);
        int rest = idx % (NH * N * d);
        int nh_ = rest / (N * d);
        rest = rest % (N * d);
        int n = rest / d;
        int d_ = rest % d;
        int inp_idx = (b * N * 3 * NH * d) + (n * 3 * NH * d) + (0 * NH * d) + (nh_ * d) + d_;
        q[idx] = inp[inp_idx];
        k[idx] = inp[inp_idx + NH * d];
        v[idx] = inp[inp_idx + 2 * (NH * d)];
    }
}

__global__ void unpermute_kernel(const float* inp, float* out, int B, int N, int NH, int d) {
    // out[b][n][nh_][d_] <- inp[b][nh_][n][d_]
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * NH * N * d) {
        int b = idx / (NH * N * d);
        int rest = idx % (NH * N * d);
        int nh_ = rest / (N * d);
        rest = rest % (N * d);
        int n = rest / d;
        int d_ = rest % d;
        int other_idx = (b * NH * N * d) + (n * NH * d) + (nh_ * d) + d_;
        out[other_idx] = inp[idx];
    }
}

#define TS 16

// preatt[bh][t][t2] = q[bh][t] . k[bh][t2], unscaled. Tiles fully above the diagonal are skipped,
// the softmax never looks at them.
__global__ void query_key_tiled_kernel2(float* preatt, const float* q, const float* k, int T, int hs) {
    __shared__ float qs[TS][TS + 1];
    __shared__ float ks[TS][TS + 1];
    if (blockIdx.x > blockIdx.y) { return; }
    const size_t bh = blockIdx.z;
    q += bh * T * hs;
    k += bh * T * hs;
    int tx = threadIdx.x, ty = threadIdx.y;
    int t = blockIdx.y * TS + ty;
    int t2 = blockIdx.x * TS + tx;
    int key_row = blockIdx.x * TS + ty; // row of K which this thread loads

    float acc = 0.0f;
    for (int i = 0; i < hs; i += TS) {
        qs[ty][tx] = (t < T && i + tx < hs) ? q[t * hs + i + tx] : 0.0f;
        ks[ty][tx] = (key_row < T && i + tx < hs) ? k[key_row * hs + i + tx] : 0.0f;
        __syncthreads();
        for (int j = 0; j < TS; j++) { acc += qs[ty][j] * ks[tx][j]; }
        __syncthreads();
    }
    if (t < T && t2 < T) { preatt[bh * T * T + (size_t)t * T + t2] = acc; }
}

// one warp per row, online softmax; the scale is applied here
__global__ void softmax_forward_kernel2(float* att, float inv_temperature, const float* preatt, int N, int T) {
    int lane = threadIdx.x % 32;
    int idx = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; // row
    if (idx >= N * T) { return; }
    int own_pos = idx % T;
    const float* x = preatt + (size_t)idx * T;
    float* y = att + (size_t)idx * T;

    float maxval = -FLT_MAX;
    float sumval = 0.0f;
    for (int i = lane; i <= own_pos; i += 32) {
        float old_maxval = maxval;
        maxval = fmaxf(maxval, x[i]);
        sumval *= expf(inv_temperature * (old_maxval - maxval));
        sumval += expf(inv_temperature * (x[i] - maxval));
    }
    float global_maxval = maxval;
    for (int offset = 16; offset > 0; offset /= 2) {
        global_maxval = fmaxf(global_maxval, __shfl_xor_sync(0xFFFFFFFF, global_maxval, offset));
    }
    sumval *= expf(inv_temperature * (maxval - global_maxval));
    for (int offset = 16; offset > 0; offset /= 2) {
        sumval += __shfl_xor_sync(0xFFFFFFFF, sumval, offset);
    }
    float norm = 1.0f / sumval;

    for (int i = lane; i < T; i += 32) {
        y[i] = i <= own_pos ? expf(inv_temperature * (x[i] - global_maxval)) * norm : 0.0f;
    }
}

// vaccum[bh][t][i] = sum over t2 of att[bh][t][t2] * v[bh][t2][i]
__global__ void attention_value_tiled_kernel2(float* vaccum, const float* att, const float* v, int T, int hs) {
    __shared__ float as[TS][TS + 1];
    __shared__ float vs[TS][TS + 1];
    const size_t bh = blockIdx.z;
    att += bh * T * T;
    v += bh * T * hs;
    int tx = threadIdx.x, ty = threadIdx.y;
    int t = blockIdx.y * TS + ty;
    int i = blockIdx.x * TS + tx;

    // att is zero above the diagonal: stop after the diagonal tile
    int t2_end = min(T, (int)(blockIdx.y + 1) * TS);
    float acc = 0.0f;
    for (int t2 = 0; t2 < t2_end; t2 += TS) {
        as[ty][tx] = (t < T && t2 + tx < T) ? att[(size_t)t * T + t2 + tx] : 0.0f;
        vs[ty][tx] = (t2 + ty < T && i < hs) ? v[(t2 + ty) * hs + i] : 0.0f;
        __syncthreads();
        for (int j = 0; j < TS; j++) { acc += as[ty][j] * vs[j][tx]; }
        __syncthreads();
    }
    if (t < T && i < hs) { vaccum[bh * T * hs + (size_t)t * hs + i] = acc; }
}

// ----------------------------------------------------------------------------
// kernel launchers

void attention_forward1(float* out, float* preatt, float* att, const float* inp,
                        int B, int T, int C, int NH, const int block_size) {
    int total_threads = B * NH * T * T;
    attention_query_key_kernel1<<<CEIL_DIV(total_threads, block_size), block_size>>>(preatt, inp, B, T, C, NH);
    int softmax_threads = B * T * NH;
    int num_blocks = CEIL_DIV(softmax_threads, block_size);
    attention_softmax_kernel1<<<num_blocks, block_size>>>(att, preatt, B, T, NH);
    attention_value_kernel1<<<num_blocks, block_size>>>(out, att, inp, B, T, C, NH);
}

void attention_forward2(float* out, float* vaccum, float* qkvr, float* preatt, float* att, const float* inp,
                        int B, int T, int C, int NH, const int block_size) {
    int HS = C / NH;
    float *q = qkvr, *k = qkvr + B * T * C, *v = qkvr + 2 * B * T * C;
    int total = B * T * C;
    permute_kernel<<<CEIL_DIV(total, block_size), block_size>>>(q, k, v, inp, B, T, NH, HS);

    dim3 block(TS, TS);
    dim3 grid_qk(CEIL_DIV(T, TS), CEIL_DIV(T, TS), B * NH);
    query_key_tiled_kernel2<<<grid_qk, block>>>(preatt, q, k, T, HS);

    float scale = 1.0f / sqrtf(HS);
    int rows_per_block = block_size / 32;
    softmax_forward_kernel2<<<CEIL_DIV(B * NH * T, rows_per_block), block_size>>>(att, scale, preatt, B * NH, T);

    dim3 grid_av(CEIL_DIV(HS, TS), CEIL_DIV(T, TS), B * NH);
    attention_value_tiled_kernel2<<<grid_av, block>>>(vaccum, att, v, T, HS);
    unpermute_kernel<<<CEIL_DIV(total, block_size), block_size>>>(vaccum, out, B, T, NH, HS);
}

// ----------------------------------------------------------------------------

static void validate_result(const float* d_res, const float* ref, const char* name, size_t n, float tol) {
    float* h = (float*)malloc(n * sizeof(float));
    cudaCheck(cudaMemcpy(h, d_res, n * sizeof(float), cudaMemcpyDeviceToHost));
    int nfaults = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabsf(h[i] - ref[i]) <= tol + 1e-4f * fabsf(ref[i]))) {
            printf("Mismatch of %s at %zu: CPU_ref: %f vs GPU: %f\n", name, i, ref[i], h[i]);
            if (++nfaults >= 10) { free(h); exit(EXIT_FAILURE); }
        }
    }
    free(h);
    if (nfaults > 0) { exit(EXIT_FAILURE); }
    printf("%s OK\n", name);
}

int main(int argc, char **argv) {
    srand(0);
    int B = 2;
    int T = 200;
    int C = 144;
    int NH = 6;
    int kernel_num = argc > 1 ? atoi(argv[1]) : 2;
    printf("Using kernel %d\n", kernel_num);

    float* out = (float*)malloc(B * T * C * sizeof(float));
    float* preatt = (float*)malloc(B * NH * T * T * sizeof(float));
    float* att = (float*)malloc(B * NH * T * T * sizeof(float));
    float* inp = (float*)malloc(B * T * 3 * C * sizeof(float));
    for (int i = 0; i < B * T * 3 * C; i++) { inp[i] = ((float)rand() / RAND_MAX) * 2.0f - 1.0f; }

    float *d_out, *d_vaccum, *d_qkvr, *d_preatt, *d_att, *d_inp;
    cudaCheck(cudaMalloc(&d_out, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_vaccum, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_qkvr, B * T * 3 * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_preatt, B * NH * T * T * sizeof(float)));
    cudaCheck(cudaMalloc(&d_att, B * NH * T * T * sizeof(float)));
    cudaCheck(cudaMalloc(&d_inp, B * T * 3 * C * sizeof(float)));
    cudaCheck(cudaMemcpy(d_inp, inp, B * T * 3 * C * sizeof(float), cudaMemcpyHostToDevice));

    attention_forward_cpu(out, preatt, att, inp, B, T, C, NH);

    int block_sizes[] = {32, 64, 128, 256, 512};
    for (int j = 0; j < (int)(sizeof(block_sizes) / sizeof(int)); j++) {
        int block_size = block_sizes[j];
        printf("Checking block size %d.\n", block_size);
        if (kernel_num == 1) {
            attention_forward1(d_out, d_preatt, d_att, d_inp, B, T, C, NH, block_size);
        } else {
            attention_forward2(d_out, d_vaccum, d_qkvr, d_preatt, d_att, d_inp, B, T, C, NH, block_size);
        }
        cudaCheck(cudaGetLastError());
        validate_result(d_att, att, "att", (size_t)B * NH * T * T, 1e-4f);
        validate_result(d_out, out, "out", (size_t)B * T * C, 1e-4f);
    }

    free(out); free(preatt); free(att); free(inp);
    cudaFree(d_out); cudaFree(d_vaccum); cudaFree(d_qkvr);
    cudaFree(d_preatt); cudaFree(d_att); cudaFree(d_inp);
    return 0;
}
