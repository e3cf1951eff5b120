/*
 * train_softmax_classifier.cu
 *
 * The smallest training loop I could think of that touches everything:
 *   - mixed precision matmuls (WMMA, fp16 operands, fp32 accumulation, fp32 master weights)
 *   - fused softmax + cross entropy, forward and backward in one kernel
 *   - AdamW
 *
 * Model: logits[B, C] = X[B, I] * W[C, I]^T, labels come from a random teacher.
 *
 * The gradients of the first step and the first optimizer update are compared with a
 * CPU implementation, then it trains for a while and prints the loss.
 *
 *   nvcc -O3 -arch=sm_80 train_softmax_classifier.cu -o train && ./train
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <float.h>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

inline void cuda_check(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

// ----------------------------------------------------------------------------
// matmul: out[M, N] = op(A) * op(B), everything fp32 in memory
//   TRANS_A false: A is [M, K], true: A is [K, M]
//   TRANS_B false: B is [K, N], true: B is [N, K]
// any size, the tiles are padded with zeros while they are converted to fp16

#define MT 64
#define NT 64
#define KT 32

template <bool TRANS_A, bool TRANS_B>
__global__ void matmul_kernel(float *out, const float *A, const float *B, int M, int N, int K) {
    __shared__ __align__(32) half As[MT][KT + 8];
    __shared__ __align__(32) half Bs[KT][NT + 8];
    __shared__ __align__(32) float Os[MT][NT + 4];

    int m0 = blockIdx.y * MT;
    int n0 = blockIdx.x * NT;
    int warp = threadIdx.x / 32;          // 4 warps, 2 x 2, 32 x 32 each
    int wm = (warp >> 1) * 32;
    int wn = (warp & 1) * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(acc[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += KT) {
        for (int i = threadIdx.x; i < MT * KT; i += blockDim.x) {
            // the fast index follows the memory order so that reads are coalesced
            int m = TRANS_A ? i % MT : i / KT;
            int k = TRANS_A ? i / MT : i % KT;
            float v = 0.0f;
            if (m0 + m < M && k0 + k < K)
                v = TRANS_A ? A[(k0 + k) * M + m0 + m] : A[(m0 + m) * K + k0 + k];
            As[m][k] = __float2half(v);
        }
        for (int i = threadIdx.x; i < KT * NT; i += blockDim.x) {
            int n = TRANS_B ? i / KT : i % NT;
            int k = TRANS_B ? i % KT : i / NT;
            float v = 0.0f;
            if (n0 + n < N && k0 + k < K)
                v = TRANS_B ? B[(n0 + n) * K + k0 + k] : B[(k0 + k) * N + n0 + n];
            Bs[k][n] = __float2half(v);
        }
        __syncthreads();

        for (int kk = 0; kk < KT; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) {
                wmma::load_matrix_sync(a[i], &As[wm + i * 16][kk], KT + 8);
                wmma::load_matrix_sync(b[i], &Bs[kk][wn + i * 16], NT + 8);
            }
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&Os[wm + i * 16][wn + j * 16], acc[i][j], NT + 4,
                                    wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < MT * NT; i += blockDim.x) {
        int m = i / NT, n = i % NT;
        if (m0 + m < M && n0 + n < N) out[(m0 + m) * N + n0 + n] = Os[m][n];
    }
}

// ----------------------------------------------------------------------------
// one warp per row: mean loss (accumulated into *loss) and dlogits

__global__ void softmax_xent_kernel(float *dlogits, float *loss, const float *logits,
                                    const int *labels, int rows, int C) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float *x = logits + row * C;

    float mx = -FLT_MAX;
    for (int c = lane; c < C; c += 32) mx = fmaxf(mx, x[c]);
    for (int o = 16; o > 0; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, o));

    float sum = 0.0f;
    for (int c = lane; c < C; c += 32) sum += expf(x[c] - mx);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);

    int label = labels[row];
    float inv_rows = 1.0f / rows;
    for (int c = lane; c < C; c += 32) {
        float p = expf(x[c] - mx) / sum;
        dlogits[row * C + c] = (p - (c == label ? 1.0f : 0.0f)) * inv_rows;
    }
    if (lane == 0) atomicAdd(loss, (logf(sum) + mx - x[label]) * inv_rows);
}

// ----------------------------------------------------------------------------

__global__ void adamw_kernel(float *w, const float *g, float *m, float *v, int n, float lr,
                             float beta1, float beta2, float eps, float wd, float corr1,
                             float corr2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float grad = g[i];
    float mi = beta1 * m[i] + (1.0f - beta1) * grad;
    float vi = beta2 * v[i] + (1.0f - beta2) * grad * grad;
    m[i] = mi;
    v[i] = vi;
    float mhat = mi / corr1;
    float vhat = vi / corr2;
    w[i] -= lr * (mhat / (sqrtf(vhat) + eps) + wd * w[i]);
}

// ----------------------------------------------------------------------------

static float randn() {
    float u1 = (rand() + 1.0f) / (RAND_MAX + 2.0f);
    float u2 = rand() / (float)RAND_MAX;
    return sqrtf(-2.0f * logf(u1)) * cosf(6.2831853f * u2);
}

static float max_diff(const std::vector<float> &a, const std::vector<float> &b) {
    float d = 0.0f;
    for (size_t i = 0; i < a.size(); i++) d = fmaxf(d, fabsf(a[i] - b[i]));
    return d;
}

int main() {
    const int B = 96, I = 200, C = 50, steps = 100;
    const float lr = 1e-2f, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, wd = 0.01f;
    srand(42);

    std::vector<float> X(B * I), W(C * I), T(C * I);
    std::vector<int> labels(B);
    for (auto &x : X) x = randn();
    for (auto &w : W) w = 0.01f * randn();
    for (auto &t : T) t = randn();
    for (int b = 0; b < B; b++) {
        float best = -FLT_MAX;
        for (int c = 0; c < C; c++) {
            float z = 0.0f;
            for (int i = 0; i < I; i++) z += X[b * I + i] * T[c * I + i];
            if (z > best) { best = z; labels[b] = c; }
        }
    }

    float *dX, *dW, *dL, *dDL, *dG, *dM, *dV, *dLoss;
    int *dLabels;
    cudaCheck(cudaMalloc(&dX, X.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dW, W.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dL, B * C * sizeof(float)));
    cudaCheck(cudaMalloc(&dDL, B * C * sizeof(float)));
    cudaCheck(cudaMalloc(&dG, W.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dM, W.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dV, W.size() * sizeof(float)));
    cudaCheck(cudaMalloc(&dLoss, sizeof(float)));
    cudaCheck(cudaMalloc(&dLabels, B * sizeof(int)));
    cudaCheck(cudaMemcpy(dX, X.data(), X.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(dW, W.data(), W.size() * sizeof(float), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(dLabels, labels.data(), B * sizeof(int), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemset(dM, 0, W.size() * sizeof(float)));
    cudaCheck(cudaMemset(dV, 0, W.size() * sizeof(float)));

    int ok = 1;
    float first_loss = 0.0f, loss = 0.0f;
    for (int step = 1; step <= steps; step++) {
        cudaCheck(cudaMemset(dLoss, 0, sizeof(float)));
        // logits = X W^T
        matmul_kernel<false, true><<<dim3(CEIL_DIV(C, NT), CEIL_DIV(B, MT)), 128>>>(dL, dX, dW, B, C, I);
        softmax_xent_kernel<<<CEIL_DIV(B * 32, 256), 256>>>(dDL, dLoss, dL, dLabels, B, C);
        // dW = dlogits^T X
        matmul_kernel<true, false><<<dim3(CEIL_DIV(I, NT), CEIL_DIV(C, MT)), 128>>>(dG, dDL, dX, C, I, B);
        adamw_kernel<<<CEIL_DIV(C * I, 256), 256>>>(dW, dG, dM, dV, C * I, lr, beta1, beta2, eps, wd,
                                                    1.0f - powf(beta1, step), 1.0f - powf(beta2, step));
        cudaCheck(cudaGetLastError());
        cudaCheck(cudaMemcpy(&loss, dLoss, sizeof(float), cudaMemcpyDeviceToHost));

        if (step == 1) {
            first_loss = loss;
            // gradient on the CPU
            std::vector<float> G(C * I, 0.0f), gG(C * I), gW(C * I), z(C);
            float ref_loss = 0.0f;
            for (int b = 0; b < B; b++) {
                float mx = -FLT_MAX, sum = 0.0f;
                for (int c = 0; c < C; c++) {
                    z[c] = 0.0f;
                    for (int i = 0; i < I; i++) z[c] += X[b * I + i] * W[c * I + i];
                    mx = fmaxf(mx, z[c]);
                }
                for (int c = 0; c < C; c++) sum += expf(z[c] - mx);
                ref_loss += (logf(sum) + mx - z[labels[b]]) / B;
                for (int c = 0; c < C; c++) {
                    float d = (expf(z[c] - mx) / sum - (c == labels[b])) / B;
                    for (int i = 0; i < I; i++) G[c * I + i] += d * X[b * I + i];
                }
            }
            cudaCheck(cudaMemcpy(gG.data(), dG, G.size() * sizeof(float), cudaMemcpyDeviceToHost));
            cudaCheck(cudaMemcpy(gW.data(), dW, W.size() * sizeof(float), cudaMemcpyDeviceToHost));
            // the update is checked with the gradient of the GPU (Adam blows up tiny differences)
            for (int i = 0; i < C * I; i++) {
                float g = gG[i];
                float m = (1.0f - beta1) * g / (1.0f - beta1);
                float v = (1.0f - beta2) * g * g / (1.0f - beta2);
                W[i] -= lr * (m / (sqrtf(v) + eps) + wd * W[i]);
            }
            float eg = max_diff(G, gG), ew = max_diff(W, gW);
            printf("loss %f (cpu %f), gradient diff %g, weight diff %g\n", loss, ref_loss, eg, ew);
            if (fabsf(loss - ref_loss) > 1e-2f || eg > 1e-3f || ew > 1e-4f) ok = 0;
        }
        if (step % 20 == 0) printf("step %3d loss %f\n", step, loss);
    }
    if (!(loss < 0.5f * first_loss)) ok = 0;
    printf("%s\n", ok ? "all ok" : "something is off");

    cudaFree(dX); cudaFree(dW); cudaFree(dL); cudaFree(dDL); cudaFree(dG);
    cudaFree(dM); cudaFree(dV); cudaFree(dLoss); cudaFree(dLabels);
    return ok ? 0 : 1;
}
