/*
Kernels around the two ends of a GPT: token embedding, RoPE and the classifier.

Compile example:
nvcc -O3 train_gpt_kernels.cu -o train_gpt_kernels

encoder_forward: out = wte[token] + wpe[position], float4
rope_forward:    rotates q and k of a packed (B, T, 3, NH, HS) tensor in place, pairs (2i, 2i+1)
fused_classifier: softmax + cross entropy, forward and backward in one go, never writes the probs
  version 1: one warp per row of logits, plain three pass softmax
  version 2: one block per row, online softmax, float4 where possible
./train_gpt_kernels 1
./train_gpt_kernels 2

Logits are (B*T, P): P is the vocabulary padded to a multiple of 4, columns V..P-1 hold garbage,
take no part in the softmax and get a zero gradient.
*/
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <assert.h>
#include <cuda_runtime.h>

#define WARP_SIZE 32U
template<class T>
__host__ __device__ T ceil_div(T dividend, T divisor) { return (dividend + divisor - 1) / divisor; }

void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

// ----------------------------------------------------------------------------
// CPU code reference

void encoder_forward_cpu(float* out, const int* inp, const float* wte, const float* wpe, int B, int T, int C) {
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int c = 0; c < C; c++) {
                out[(b * T + t) * C + c] = wte[inp[b * T + t] * C + c] + wpe[t * C + c];
            }
        }
    }
}

void rope_forward_cpu(float* qkv, int B, int T, int NH, int HS) {
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int qk = 0; qk < 2; qk++) {
                for (int h = 0; h < NH; h++) {
                    float* x = qkv + (((b * T + t) * 3 + qk) * NH + h) * HS;
                    for (int i = 0; i < HS / 2; i++) {
                        double angle = t * pow(10000.0, -2.0 * i / HS);
                        float c = (float)cos(angle), s = (float)sin(angle);
                        float x0 = x[2 * i], x1 = x[2 * i + 1];
                        x[2 * i] = x0 * c - x1 * s;
                        x[2 * i + 1] = x0 * s + x1 * c;
                    }
                }
            }
        }
    }
}

void fused_classifier_cpu(float* losses, float* dlogits, const float* logits, const int* targets,
                          float dloss, int BT, int V, int P) {
    for (int r = 0; r < BT; r++) {
        const float* x = logits + (size_t)r * P;
        float* dx = dlogits + (size_t)r * P;
        double maxval = -DBL_MAX, sum = 0.0;
        for (int i = 0; i < V; i++) { maxval = fmax(maxval, (double)x[i]); }
        for (int i = 0; i < V; i++) { sum += exp(x[i] - maxval); }
        losses[r] = (float)(log(sum) + maxval - x[targets[r]]);
        for (int i = 0; i < V; i++) {
            double p = exp(x[i] - maxval) / sum;
            dx[i] = (float)((p - (i == targets[r] ? 1.0 : 0.0)) * dloss);
        }
        for (int i = V; i < P; i++) { dx[i] = 0.0f; }
    }
}

// ----------------------------------------------------------------------------
// GPU kernels

__device__ inline float4 add_float4(const float4& a, const float4& b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__global__ void encoder_forward_kernel(float4* out, const int* inp, const float4* wte, const float4* wpe,
                                       int B, int T, int C) {
    int C4 = C / 4;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = B * T * C4;
    if (idx < N) {
        int bt = idx / C4;
        int t = bt % T;
        int c4 = idx % C4;
        int ix = inp[bt];
        out[bt * C4 + c4] = add_float4(wte[ix * C4 + c4], wpe[t * C4 + c4]);
    }
}

// one thread per pair of q and k
__global__ void rope_forward_kernel(float2* qkv, int B, int T, int NH, int HS) {
    int HS2 = HS / 2;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= B * T * 2 * NH * HS2) { return; }
    // decompose (b, t, qk, h, i)
    int i = idx % HS2;
    int h = (idx / HS2) % NH;
    int qk = (idx / (HS2 * NH)) % 2;
    int bt = idx / (HS2 * NH * 2);
    int t = bt % T;

    float inv_freq = powf(10000.0f, -2.0f * i / HS);
    float s, c;
    sincosf(t * inv_freq, &s, &c);

    int addr = ((bt * 3 + qk) * NH + h) * HS2 + i;
    float2 x = qkv[addr];
    qkv[addr] = make_float2(x.x * c - x.y * s, x.x * s + x.y * c);
}

__device__ inline float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val = fmaxf(val, __shfl_xor_sync(0xFFFFFFFF, val, offset));
    }
    return val;
}

__device__ inline float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) {
        val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    }
    return val;
}

__global__ void fused_classifier_kernel1(float* losses, float* dlogits, const float* logits, const int* targets,
                                         float dloss, int BT, int V, int P) {
    int row = blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE;
    int lane = threadIdx.x % WARP_SIZE;
    if (row >= BT) { return; }
    const float* x = logits + (size_t)row * P;
    float* dx = dlogits + (size_t)row * P;

    float maxval = -INFINITY;
    for (int i = lane; i < V; i += WARP_SIZE) { maxval = fmaxf(maxval, x[i]); }
    maxval = warpReduceMax(maxval);

    float sum = 0.0f;
    for (int i = lane; i < V; i += WARP_SIZE) { sum += expf(x[i] - maxval); }
    sum = warpReduceSum(sum);

    int target = targets[row];
    if (lane == 0) { losses[row] = logf(sum) + maxval - x[target]; }

    for (int i = lane; i < P; i += WARP_SIZE) {
        float indicator = (i == target) ? 1.0f : 0.0f;
        dx[i] = (i < V) ? (expf(x[i] - maxval) / sum - indicator) * dloss : 0.0f;
    }
}

struct SoftmaxParams {
    float Scale;
    float Offset;
};

// blockDim.x is a multiple of 32
__device__ SoftmaxParams prepare_softmax_blockwide(const float* x, int V) {
    __shared__ float s_max[32];
    __shared__ float s_sum[32];
    int lane = threadIdx.x % WARP_SIZE;
    int warp = threadIdx.x / WARP_SIZE;
    int num_warps = blockDim.x / WARP_SIZE;

    float thread_max = -FLT_MAX;
    float thread_sum = 0.0f;
    // full vectors first, then the tail V % 4
    const float4* x4 = reinterpret_cast<const float4*>(x);
    for (int i = threadIdx.x; i < V / 4; i += blockDim.x) {
        float4 v = x4[i];
        float m = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        float new_max = fmaxf(thread_max, m);
        thread_sum *= expf(thread_max - new_max);
        thread_sum += expf(v.x - new_max) + expf(v.y - new_max) + expf(v.z - new_max) + expf(v.w - new_max);
        thread_max = new_max;
    }
    for (int i = V / 4 * 4 + threadIdx.x; i < V; i += blockDim.x) {
        float new_max = fmaxf(thread_max, x[i]);
        thread_sum = thread_sum * expf(thread_max - new_max) + expf(x[i] - new_max);
        thread_max = new_max;
    }

    float warp_max = warpReduceMax(thread_max);
    if (lane == 0) { s_max[warp] = warp_max; }
    __syncthreads();
    float block_max = warpReduceMax(lane < num_warps ? s_max[lane] : -FLT_MAX);

    thread_sum *= expf(thread_max - block_max);
    float warp_sum = warpReduceSum(thread_sum);
    if (lane == 0) { s_sum[warp] = warp_sum; }
    __syncthreads();
    float block_sum = warpReduceSum(lane < num_warps ? s_sum[lane] : 0.0f);

    return SoftmaxParams{1.0f / block_sum, block_max};
}

__global__ void fused_classifier_kernel2(float* losses, float* dlogits, const float* logits, const int* targets,
                                         float dloss, int BT, int V, int P) {
    int row = blockIdx.x;
    int target = targets[row];
    const float* x = logits + (size_t)row * P;
    SoftmaxParams sp = prepare_softmax_blockwide(x, V);

    if (threadIdx.x == 0) {
        losses[row] = sp.Offset - logf(sp.Scale) - x[target];
    }

    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* dx4 = reinterpret_cast<float4*>(dlogits + (size_t)row * P);
    for (int i = threadIdx.x; i < P / 4; i += blockDim.x) {
        float4 v = x4[i];
        float g[4] = {v.x, v.y, v.z, v.w};
        for (int k = 0; k < 4; k++) {
            int col = i * 4 + k;
            float indicator = (col == target) ? 1.0f : 0.0f;
            g[k] = (col < V) ? (expf(g[k] - sp.Offset) * sp.Scale - indicator) * dloss : 0.0f;
        }
        dx4[i] = make_float4(g[0], g[1], g[2], g[3]);
    }
}

// ----------------------------------------------------------------------------
// kernel launchers

void encoder_forward(float* out, const int* inp, const float* wte, const float* wpe, int B, int T, int C, int block_size) {
    assert(C % 4 == 0);
    int grid_size = ceil_div(B * T * C / 4, block_size);
    encoder_forward_kernel<<<grid_size, block_size>>>((float4*)out, inp, (const float4*)wte, (const float4*)wpe, B, T, C);
    cudaCheck(cudaGetLastError());
}

void rope_forward(float* qkv, int B, int T, int NH, int HS, int block_size) {
    assert(HS % 2 == 0);
    int grid_size = ceil_div(B * T * NH * HS, block_size);   // 2 tensors x HS/2 pairs
    rope_forward_kernel<<<grid_size, block_size>>>((float2*)qkv, B, T, NH, HS);
    cudaCheck(cudaGetLastError());
}

void fused_classifier(int kernel_num, float* losses, float* dlogits, const float* logits, const int* targets,
                      float dloss, int BT, int V, int P, int block_size) {
    assert(P % 4 == 0 && V <= P);
    switch (kernel_num) {
        case 1:
            fused_classifier_kernel1<<<ceil_div(BT, block_size / 32), block_size>>>(
                losses, dlogits, logits, targets, dloss, BT, V, P);
            break;
        case 2:
            fused_classifier_kernel2<<<BT, block_size>>>(losses, dlogits, logits, targets, dloss, BT, V, P);
            break;
        default:
            printf("Invalid kernel number\n");
            exit(1);
    }
    cudaCheck(cudaGetLastError());
}

// ----------------------------------------------------------------------------

float* make_random_float(size_t N, float scale) {
    float* arr = (float*)malloc(N * sizeof(float));
    for (size_t i = 0; i < N; i++) { arr[i] = (((float)rand() / RAND_MAX) * 2.0f - 1.0f) * scale; }
    return arr;
}

float* to_device(const float* src, size_t N) {
    float* d;
    cudaCheck(cudaMalloc((void**)&d, N * sizeof(float)));
    cudaCheck(cudaMemcpy(d, src, N * sizeof(float), cudaMemcpyHostToDevice));
    return d;
}

void validate_result(const float* device_result, const float* cpu_reference, const char* name, size_t N, float tolerance) {
    float* out = (float*)malloc(N * sizeof(float));
    cudaCheck(cudaMemcpy(out, device_result, N * sizeof(float), cudaMemcpyDeviceToHost));
    int nfaults = 0;
    for (size_t i = 0; i < N; i++) {
        if (!(fabsf(cpu_reference[i] - out[i]) <= tolerance * (1.0f + fabsf(cpu_reference[i])))) {
            printf("Mismatch of %s at %zu: CPU_ref: %f vs GPU: %f\n", name, i, cpu_reference[i], out[i]);
            if (++nfaults >= 10) { free(out); exit(EXIT_FAILURE); }
        }
    }
    free(out);
    if (nfaults > 0) { exit(EXIT_FAILURE); }
}

int main(int argc, char **argv) {
    srand(0);
    int B = 4, T = 128, NH = 6, HS = 64;
    int V = 50257, P = 50304;
    if (argc > 2) {   // small run for the sanitizer
        T = 24;
        V = 1019;
        P = 1024;
    }
    int C = NH * HS, BT = B * T;
    int kernel_num = argc > 1 ? atoi(argv[1]) : 2;
    printf("Using kernel %d\n", kernel_num);

    int* tokens = (int*)malloc(BT * sizeof(int));
    int* targets = (int*)malloc(BT * sizeof(int));
    for (int i = 0; i < BT; i++) { tokens[i] = rand() % V; targets[i] = rand() % V; }
    float* wte = make_random_float((size_t)V * C, 1.0f);
    float* wpe = make_random_float((size_t)T * C, 1.0f);
    float* qkv = make_random_float((size_t)BT * 3 * C, 1.0f);
    float* logits = make_random_float((size_t)BT * P, 8.0f);
    for (int r = 0; r < BT; r++) {
        for (int i = V; i < P; i++) { logits[(size_t)r * P + i] = 1000.0f; }   // must not be looked at
    }

    int *d_tokens, *d_targets;
    cudaCheck(cudaMalloc((void**)&d_tokens, BT * sizeof(int)));
    cudaCheck(cudaMalloc((void**)&d_targets, BT * sizeof(int)));
    cudaCheck(cudaMemcpy(d_tokens, tokens, BT * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_targets, targets, BT * sizeof(int), cudaMemcpyHostToDevice));
    float* d_wte = to_device(wte, (size_t)V * C);
    float* d_wpe = to_device(wpe, (size_t)T * C);
    float* d_qkv = to_device(qkv, (size_t)BT * 3 * C);
    float* d_logits = to_device(logits, (size_t)BT * P);
    float *d_enc, *d_losses, *d_dlogits;
    cudaCheck(cudaMalloc((void**)&d_enc, (size_t)BT * C * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_losses, BT * sizeof(float)));
    cudaCheck(cudaMalloc((void**)&d_dlogits, (size_t)BT * P * sizeof(float)));

    float* enc = (float*)malloc((size_t)BT * C * sizeof(float));
    float* losses = (float*)malloc(BT * sizeof(float));
    float* dlogits = (float*)malloc((size_t)BT * P * sizeof(float));
    const float dloss = 1.0f / BT;
    encoder_forward_cpu(enc, tokens, wte, wpe, B, T, C);
    fused_classifier_cpu(losses, dlogits, logits, targets, dloss, BT, V, P);

    int block_sizes[] = {32, 64, 128, 256, 512, 1024};
    for (int j = 0; j < 6; j++) {
        int block_size = block_sizes[j];
        encoder_forward(d_enc, d_tokens, d_wte, d_wpe, B, T, C, block_size);
        validate_result(d_enc, enc, "enc", (size_t)BT * C, 1e-5f);
        // in place: the reference is rotated along
        rope_forward(d_qkv, B, T, NH, HS, block_size);
        rope_forward_cpu(qkv, B, T, NH, HS);
        validate_result(d_qkv, qkv, "qkv", (size_t)BT * 3 * C, 1e-3f);

        fused_classifier(kernel_num, d_losses, d_dlogits, d_logits, d_targets, dloss, BT, V, P, block_size);
        validate_result(d_losses, losses, "losses", BT, 1e-4f);
        // undo the scaling so that the tolerance means something
        validate_result(d_dlogits, dlogits, "dlogits", (size_t)BT * P, 1e-3f * dloss);
    }
    printf("All results match. Starting benchmarks.\n\n");

    for (int j = 0; j < 6; j++) {
        int block_size = block_sizes[j];
        const int repeat_times = 20;
        cudaEvent_t start, stop;
        cudaCheck(cudaEventCreate(&start));
        cudaCheck(cudaEventCreate(&stop));
        cudaCheck(cudaEventRecord(start, 0));
        for (int i = 0; i < repeat_times; i++) {
            fused_classifier(kernel_num, d_losses, d_dlogits, d_logits, d_targets, dloss, BT, V, P, block_size);
        }
        cudaCheck(cudaEventRecord(stop, 0));
        cudaCheck(cudaEventSynchronize(stop));
        float elapsed_time;
        cudaCheck(cudaEventElapsedTime(&elapsed_time, start, stop));
        elapsed_time /= repeat_times;
        printf("block_size %4d | time %.4f ms | bandwidth %.2f GB/s\n", block_size, elapsed_time,
               2.0 * BT * P * sizeof(float) / elapsed_time / 1e6);
    }

    free(tokens); free(targets); free(wte); free(wpe); free(qkv); free(logits);
    free(enc); free(losses); free(dlogits);
    cudaCheck(cudaFree(d_tokens)); cudaCheck(cudaFree(d_targets));
    cudaCheck(cudaFree(d_wte)); cudaCheck(cudaFree(d_wpe)); cudaCheck(cudaFree(d_qkv)); cudaCheck(cudaFree(d_logits));
    cudaCheck(cudaFree(d_enc)); cudaCheck(cudaFree(d_losses)); cudaCheck(cudaFree(d_dlogits));
    return 0;
}
