/*
Kernels for the attention forward pass, single file, as in a GPT-2 training loop.

input  (B, T, 3C) holds the query, key and value vectors of every position
output (B, T, C)
causal, NH heads of size HS = C / NH = 64

version 1 is the naive port of the CPU code: scores, softmax and weighted sum in a kernel each
version 2 is flash attention in fp32: nothing of size T x T is ever stored
version 3 permutes to (B, NH, T, HS) in half precision, does both products with WMMA,
          and permutes back (T has to be a multiple of 64)

nvcc -O3 --use_fast_math -arch=sm_80 attention_forward.cu -o attention_forward
./attention_forward 1
./attention_forward 2
./attention_forward 3
*/

#include <stdio.h>
#include <stdlib.h>
#include <float.h>
#include <math.h>
#include <assert.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define HS 64           // head size
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// CPU code reference

void attention_forward_cpu(float* out, float* preatt, float* att,
                           const float* inp,
                           int B, int T, int C, int NH) {
    int C3 = C*3;
    int hs = C / NH;
    float scale = 1.0 / sqrtf(hs);

    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int h = 0; h < NH; h++) {
                const float* query_t = inp + b * T * C3 + t * C3 + h * hs;
                float* preatt_bth = preatt + b*NH*T*T + h*T*T + t*T;
                float* att_bth = att + b*NH*T*T + h*T*T + t*T;

                // pass 1: calculate query dot key and maxval
                float maxval = -FLT_MAX;
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * hs + C; // +C because it's key
                    float val = 0.0f;
                    for (int i = 0; i < hs; i++) {
                        val += query_t[i] * key_t2[i];
                    }
                    val *= scale;
                    if (val > maxval) {
                        maxval = val;
                    }
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

                // pass 3: normalize to get the softmax and accumulate weighted values
                float* out_bth = out + b * T * C + t * C + h * hs;
                for (int i = 0; i < hs; i++) { out_bth[i] = 0.0f; }
                for (int t2 = 0; t2 <= t; t2++) {
                    att_bth[t2] *= expsum_inv;
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
// version 1

// one thread per (b, h, t, t2)
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

        int C3 = C*3;
        const float* query_t = inp + b * T * C3 + t * C3 + h * HS;
        const float* key_t2 = inp + b * T * C3 + t2 * C3 + h * HS + C; // +C because it's key

        float val = 0.0f;
        for (int i = 0; i < HS; i++) {
            val += query_t[i] * key_t2[i];
        }
        val *= 1.0 / sqrtf(HS);

        preatt[idx] = val;
    }
}

// one thread per (b, h, t)
__global__ void attention_softmax_kernel1(float* att, const float* preatt,
                                          int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;

    if (idx < total_threads) {
        int t = idx % T;
        const float* preatt_bth = preatt + (size_t)idx * T;
        float* att_bth = att + (size_t)idx * T;

        float maxval = -FLT_MAX;
        for (int t2 = 0; t2 <= t; t2++) {
            if (preatt_bth[t2] > maxval) {
                maxval = preatt_bth[t2];
            }
        }
        float expsum = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) {
            float expv = expf(preatt_bth[t2] - maxval);
            expsum += expv;
            att_bth[t2] = expv;
        }
        float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;
        for (int t2 = 0; t2 < T; t2++) {
            if (t2 <= t) {
                att_bth[t2] *= expsum_inv;
            } else {
                att_bth[t2] = 0.0f;
            }
        }
    }
}

// one thread per (b, t, h)
__global__ void attention_value_kernel1(float* out, const float* att, const float* inp,
                                        int B, int T, int C, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total_threads = B * T * NH;

    if (idx < total_threads) {
        int h = idx % NH;
        int t = (idx / NH) % T;
        int b = idx / (NH * T);

        int C3 = C*3;
        float* out_bth = out + b * T * C + t * C + h * HS;
        const float* att_bth = att + b*NH*T*T + h*T*T + t*T;

        for (int i = 0; i < HS; i++) { out_bth[i] = 0.0f; }
        for (int t2 = 0; t2 <= t; t2++) {
            const float* value_t2 = inp + b * T * C3 + t2 * C3 + h * HS + C*2; // +C*2 because it's value
            float att_btht2 = att_bth[t2];
            for (int i = 0; i < HS; i++) {
                out_bth[i] += att_btht2 * value_t2[i];
            }
        }
    }
}

// ----------------------------------------------------------------------------
// version 2: flash attention, one thread per query row

#define FLASH_ROWS 64   // query rows (= threads) of a block
#define FLASH_KEYS 32   // keys of a tile

__global__ void attention_flash_kernel2(float* out, const float* inp,
                                        int B, int T, int C, int NH) {
    __shared__ float Ks[FLASH_KEYS][HS];
    __shared__ float Vs[FLASH_KEYS][HS];

    int b = blockIdx.y / NH;
    int h = blockIdx.y % NH;
    int t0 = blockIdx.x * FLASH_ROWS;
    int t = t0 + threadIdx.x;
    int C3 = C*3;
    const float* base = inp + (size_t)b * T * C3 + h * HS;
    float scale = 1.0f / sqrtf(HS);

    float q[HS], acc[HS];
    for (int i = 0; i < HS; i++) {
        q[i] = t < T ? base[(size_t)t * C3 + i] * scale : 0.0f;
        acc[i] = 0.0f;
    }
    float maxval = -FLT_MAX;
    float sum = 0.0f;

    int t_end = min(T, t0 + FLASH_ROWS); // the last row of the block sees the keys before this
    for (int k0 = 0; k0 < t_end; k0 += FLASH_KEYS) {
        __syncthreads();
        for (int i = threadIdx.x; i < FLASH_KEYS * HS; i += FLASH_ROWS) {
            int r = i / HS, c = i % HS;
            bool in = k0 + r < T;
            Ks[r][c] = in ? base[(size_t)(k0 + r) * C3 + C + c] : 0.0f;
            Vs[r][c] = in ? base[(size_t)(k0 + r) * C3 + 2*C + c] : 0.0f;
        }
        __syncthreads();

        int n = min(FLASH_KEYS, t - k0 + 1); // causal: keys up to and including t
        for (int j = 0; j < n; j++) {
            float s = 0.0f;
            for (int i = 0; i < HS; i++) {
                s += q[i] * Ks[j][i];
            }
            if (s > maxval) {
                float corr = expf(maxval - s);
                sum *= corr;
                for (int i = 0; i < HS; i++) {
                    acc[i] *= corr;
                }
                maxval = s;
            }
            float p = expf(s - maxval);
            sum += p;
            for (int i = 0; i < HS; i++) {
                acc[i] += p * Vs[j][i];
            }
        }
    }

    if (t < T) {
        float inv = 1.0f / sum;
        for (int i = 0; i < HS; i++) {
            out[(size_t)(b * T + t) * C + h * HS + i] = acc[i] * inv;
        }
    }
}

// ----------------------------------------------------------------------------
// version 3: permute, tensor cores, permute back

// inp (B, T, 3, NH, HS) float -> q, k, v (B, NH, T, HS) half
__global__ void permute_kernel3(half* q, half* k, half* v, const float* inp,
                                int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * NH * T * HS) { return; }

    // q[b][nh][t][d] = inp[b][t][0][nh][d]
    int b = idx / (NH * T * HS);
    int rest = idx % (NH * T * HS);
    int nh = rest / (T * HS);
    rest = rest % (T * HS);
    int t = rest / HS;
    int d = rest % HS;
    size_t inp_idx = ((size_t)b * T + t) * 3 * NH * HS + nh * HS + d;
    q[idx] = __float2half(inp[inp_idx]);
    k[idx] = __float2half(inp[inp_idx + NH * HS]);
    v[idx] = __float2half(inp[inp_idx + 2 * (NH * HS)]);
}

// (B, NH, T, HS) -> (B, T, NH, HS)
__global__ void unpermute_kernel3(float* out, const float* vaccum, int B, int T, int NH) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * NH * T * HS) { return; }

    int b = idx / (NH * T * HS);
    int rest = idx % (NH * T * HS);
    int nh = rest / (T * HS);
    rest = rest % (T * HS);
    int t = rest / HS;
    int d = rest % HS;
    out[((size_t)(b * T + t) * NH + nh) * HS + d] = vaccum[idx];
}

// preatt[bh] = q[bh] @ k[bh]^T * scale, 64x64 tiles, 4 warps with 16 rows each.
// Tiles above the diagonal are not calculated (and never read).
__global__ void qk_wmma_kernel3(float* preatt, const half* q, const half* k, int T, float scale) {
    if (blockIdx.x > blockIdx.y) { return; }
    int bh = blockIdx.z;
    int row = blockIdx.y * 64 + (threadIdx.x / 32) * 16;
    int col = blockIdx.x * 64;
    q += (size_t)bh * T * HS;
    k += (size_t)bh * T * HS;
    preatt += (size_t)bh * T * T;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
    for (int j = 0; j < 4; j++) { wmma::fill_fragment(acc[j], 0.0f); }

    for (int i = 0; i < HS; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, q + (size_t)row * HS + i, HS);
        for (int j = 0; j < 4; j++) {
            // k is (T, HS) row major, so k^T is (HS, T) column major
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bfrag;
            wmma::load_matrix_sync(bfrag, k + (size_t)(col + j * 16) * HS + i, HS);
            wmma::mma_sync(acc[j], a, bfrag, acc[j]);
        }
    }
    for (int j = 0; j < 4; j++) {
        for (int e = 0; e < acc[j].num_elements; e++) { acc[j].x[e] *= scale; }
        wmma::store_matrix_sync(preatt + (size_t)row * T + col + j * 16, acc[j], T, wmma::mem_row_major);
    }
}

// one warp per row; the row is filled with zeros up to the end of its 64 wide tile
__global__ void softmax_kernel3(half* att, const float* preatt, int N, int T) {
    int lane = threadIdx.x % 32;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= N) { return; }
    int t = row % T;
    const float* x = preatt + (size_t)row * T;
    half* y = att + (size_t)row * T;

    float maxval = -FLT_MAX;
    for (int t2 = lane; t2 <= t; t2 += 32) {
        maxval = fmaxf(maxval, x[t2]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        maxval = fmaxf(maxval, __shfl_xor_sync(0xFFFFFFFF, maxval, offset));
    }
    float sum = 0.0f;
    for (int t2 = lane; t2 <= t; t2 += 32) {
        sum += expf(x[t2] - maxval);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
    }
    float norm = 1.0f / sum;
    int t_end = (t / 64 + 1) * 64;
    for (int t2 = lane; t2 < t_end; t2 += 32) {
        y[t2] = __float2half(t2 <= t ? expf(x[t2] - maxval) * norm : 0.0f);
    }
}

// vaccum[bh] = att[bh] @ v[bh], 64 rows per block, 4 warps
__global__ void av_wmma_kernel3(float* vaccum, const half* att, const half* v, int T) {
    int bh = blockIdx.y;
    int row = blockIdx.x * 64 + (threadIdx.x / 32) * 16;
    att += (size_t)bh * T * T;
    v += (size_t)bh * T * HS;
    vaccum += (size_t)bh * T * HS;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[HS / 16];
    for (int j = 0; j < HS / 16; j++) { wmma::fill_fragment(acc[j], 0.0f); }

    int t_end = (blockIdx.x + 1) * 64;
    for (int t2 = 0; t2 < t_end; t2 += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, att + (size_t)row * T + t2, T);
        for (int j = 0; j < HS / 16; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bfrag;
            wmma::load_matrix_sync(bfrag, v + (size_t)t2 * HS + j * 16, HS);
            wmma::mma_sync(acc[j], a, bfrag, acc[j]);
        }
    }
    for (int j = 0; j < HS / 16; j++) {
        wmma::store_matrix_sync(vaccum + (size_t)row * HS + j * 16, acc[j], HS, wmma::mem_row_major);
    }
}

// ----------------------------------------------------------------------------
// kernel launchers

struct Buffers {
    float *preatt, *att, *vaccum;
    half *q, *k, *v, *att_half;
};

void attention_forward1(float* out, Buffers* buf, const float* inp,
                        int B, int T, int C, int NH, const int block_size) {
    int total_threads = B * NH * T * T;
    attention_query_key_kernel1<<<CEIL_DIV(total_threads, block_size), block_size>>>(buf->preatt, inp, B, T, C, NH);
    int softmax_threads = B * NH * T;
    attention_softmax_kernel1<<<CEIL_DIV(softmax_threads, block_size), block_size>>>(buf->att, buf->preatt, B, T, NH);
    attention_value_kernel1<<<CEIL_DIV(softmax_threads, block_size), block_size>>>(out, buf->att, inp, B, T, C, NH);
}

void attention_forward2(float* out, const float* inp, int B, int T, int C, int NH) {
    dim3 grid(CEIL_DIV(T, FLASH_ROWS), B * NH);
    attention_flash_kernel2<<<grid, FLASH_ROWS>>>(out, inp, B, T, C, NH);
}

void attention_forward3(float* out, Buffers* buf, const float* inp,
                        int B, int T, int C, int NH, const int block_size) {
    assert(T % 64 == 0);
    int total = B * NH * T * HS;
    permute_kernel3<<<CEIL_DIV(total, block_size), block_size>>>(buf->q, buf->k, buf->v, inp, B, T, NH);
    qk_wmma_kernel3<<<dim3(T / 64, T / 64, B * NH), 128>>>(buf->preatt, buf->q, buf->k, T, 1.0f / sqrtf(HS));
    int rows = B * NH * T;
    softmax_kernel3<<<CEIL_DIV(rows * 32, block_size), block_size>>>(buf->att_half, buf->preatt, rows, T);
    av_wmma_kernel3<<<dim3(T / 64, B * NH), 128>>>(buf->vaccum, buf->att_half, buf->v, T);
    unpermute_kernel3<<<CEIL_DIV(total, block_size), block_size>>>(out, buf->vaccum, B, T, NH);
}

// kernel version dispatch
void attention_forward(int kernel_num, float* out, Buffers* buf, const float* inp,
                       int B, int T, int C, int NH, const int block_size) {
    switch (kernel_num) {
        case 1:
            attention_forward1(out, buf, inp, B, T, C, NH, block_size);
            break;
        case 2:
            attention_forward2(out, inp, B, T, C, NH);
            break;
        case 3:
            attention_forward3(out, buf, inp, B, T, C, NH, block_size);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
}

// ----------------------------------------------------------------------------

float* make_random_float(size_t N) {
    float* arr = (float*)malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) {
        arr[i] = ((float)rand() / RAND_MAX) * 2.0 - 1.0;
    }
    return arr;
}

void validate_result(float* d_result, const float* cpu_reference, const char* name, size_t N, float tolerance) {
    float* h = (float*)malloc(N * sizeof(float));
    cudaCheck(cudaMemcpy(h, d_result, N * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < N; i++) {
        if (i < 5) { printf("%f %f\n", cpu_reference[i], h[i]); }
        if (!(fabsf(cpu_reference[i] - h[i]) <= tolerance)) {
            printf("Mismatch of %s at %zu: CPU_ref: %f vs GPU: %f\n", name, i, cpu_reference[i], h[i]);
            exit(EXIT_FAILURE);
        }
    }
    free(h);
}

int main(int argc, char **argv) {
    srand(0);

    int B = 2;
    int T = 320;
    int NH = 6;
    int C = NH * HS;

    int deviceIdx = 0;
    cudaCheck(cudaSetDevice(deviceIdx));

    // create host memory of random numbers
    float* out = (float*)malloc(B * T * C * sizeof(float));
    float* preatt = (float*)malloc(B * NH * T * T * sizeof(float));
    float* att = (float*)malloc(B * NH * T * T * sizeof(float));
    float* inp = make_random_float(B * T * 3 * C);

    // move to GPU
    float *d_out, *d_inp;
    Buffers buf;
    cudaCheck(cudaMalloc(&d_out, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&d_inp, B * T * 3 * C * sizeof(float)));
    cudaCheck(cudaMalloc(&buf.preatt, B * NH * T * T * sizeof(float)));
    cudaCheck(cudaMalloc(&buf.att, B * NH * T * T * sizeof(float)));
    cudaCheck(cudaMalloc(&buf.att_half, B * NH * T * T * sizeof(half)));
    cudaCheck(cudaMalloc(&buf.vaccum, B * T * C * sizeof(float)));
    cudaCheck(cudaMalloc(&buf.q, B * T * C * sizeof(half)));
    cudaCheck(cudaMalloc(&buf.k, B * T * C * sizeof(half)));
    cudaCheck(cudaMalloc(&buf.v, B * T * C * sizeof(half)));
    cudaCheck(cudaMemcpy(d_inp, inp, B * T * 3 * C * sizeof(float), cudaMemcpyHostToDevice));

    // read kernel_num from command line
    int kernel_num = 1;
    if (argc > 1) {
        kernel_num = atoi(argv[1]);
    }
    printf("Using kernel %d\n", kernel_num);
    int block_sizes[] = {32, 64, 128, 256, 512};

    // first check the correctness of the kernel
    attention_forward_cpu(out, preatt, att, inp, B, T, C, NH);
    for (int j = 0; j < (int)(sizeof(block_sizes) / sizeof(int)); j++) {
        int block_size = block_sizes[j];
        printf("Checking block size %d.\n", block_size);
        cudaCheck(cudaMemset(d_out, 0xff, B * T * C * sizeof(float)));
        attention_forward(kernel_num, d_out, &buf, d_inp, B, T, C, NH, block_size);
        cudaCheck(cudaGetLastError());
        // half precision for the whole of version 3
        validate_result(d_out, out, "out", B * T * C, kernel_num == 3 ? 4e-3f : 1e-4f);
    }
    printf("All results match. Starting benchmarks.\n\n");

    // benchmark speed of the kernel
    for (int j = 0; j < (int)(sizeof(block_sizes) / sizeof(int)); j++) {
        int block_size = block_sizes[j];
        int repeat_times = 100;
        cudaEvent_t start, stop;
        cudaCheck(cudaEventCreate(&start));
        cudaCheck(cudaEventCreate(&stop));
        cudaCheck(cudaEventRecord(start));
        for (int i = 0; i < repeat_times; i++) {
            attention_forward(kernel_num, d_out, &buf, d_inp, B, T, C, NH, block_size);
        }
        cudaCheck(cudaEventRecord(stop));
        cudaCheck(cudaEventSynchronize(stop));
        float elapsed_time;
        cudaCheck(cudaEventElapsedTime(&elapsed_time, start, stop));
        printf("block_size %4d | time %f ms\n", block_size, elapsed_time / repeat_times);
    }

    // free memory
    free(out);
    free(preatt);
    free(att);
    free(inp);
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_inp));
    cudaCheck(cudaFree(buf.preatt));
    cudaCheck(cudaFree(buf.att));
    cudaCheck(cudaFree(buf.att_half));
    cudaCheck(cudaFree(buf.vaccum));
    cudaCheck(cudaFree(buf.q));
    cudaCheck(cudaFree(buf.k));
    cudaCheck(cudaFree(buf.v));

    return 0;
}
