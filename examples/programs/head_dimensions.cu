// A kernel template dispatched over head dimensions, as attention libraries do it; one block a row of Q · Kᵀ with softmax.
//
// `head_dimensions swapped` launches the kernel for 128 in the case of 64; it reads past the ends of the arrays.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

template <int HEAD_DIM, bool CAUSAL>
__global__ void weights(const half* q, const half* k, float* p, int rows, float scale) {
    __shared__ float scores[64];
    __shared__ float sum;
    const int row = blockIdx.x, col = threadIdx.x;
    float score = -INFINITY;
    if (col < rows && (!CAUSAL || col <= row)) {
        score = 0;
        for (int d = 0; d < HEAD_DIM; ++d) score += __half2float(q[row * HEAD_DIM + d]) * __half2float(k[col * HEAD_DIM + d]);
        score *= scale;
    }
    scores[col] = expf(score);
    __syncthreads();
    if (col == 0) {
        sum = 0;
        for (int i = 0; i < rows; ++i) sum += scores[i];
    }
    __syncthreads();
    if (col < rows) p[row * rows + col] = scores[col] / sum;
}

template <int HEAD_DIM>
void launch(const half* q, const half* k, float* p, int rows, bool causal) {
    const float scale = 1.0f / sqrtf(HEAD_DIM);
    if (causal)
        weights<HEAD_DIM, true><<<rows, 64>>>(q, k, p, rows, scale);
    else
        weights<HEAD_DIM, false><<<rows, 64>>>(q, k, p, rows, scale);
}

void dispatch(int head_dim, const half* q, const half* k, float* p, int rows, bool causal, bool swapped) {
    switch (head_dim) {
        case 32: return launch<32>(q, k, p, rows, causal);
        case 64: return swapped ? launch<128>(q, k, p, rows, causal) : launch<64>(q, k, p, rows, causal);
        case 128: return launch<128>(q, k, p, rows, causal);
        default: throw std::invalid_argument("head dimension");
    }
}

int main(int argc, char**) {
    const int rows = 20;
    for (int head_dim : {32, 64, 128}) {
        std::vector<half> q(rows * head_dim, __float2half(0.125f)), k(rows * head_dim, __float2half(0.25f));
        half *d_q, *d_k;
        float* d_p;
        cudaMalloc(&d_q, q.size() * sizeof(half));
        cudaMalloc(&d_k, k.size() * sizeof(half));
        cudaMalloc(&d_p, rows * rows * sizeof(float));
        cudaMemcpy(d_q, q.data(), q.size() * sizeof(half), cudaMemcpyHostToDevice);
        cudaMemcpy(d_k, k.data(), k.size() * sizeof(half), cudaMemcpyHostToDevice);
        dispatch(head_dim, d_q, d_k, d_p, rows, true, argc > 1);
        std::vector<float> p(rows * rows);
        cudaError_t error = cudaMemcpy(p.data(), d_p, p.size() * sizeof(float), cudaMemcpyDeviceToHost);
        if (error != cudaSuccess) {
            printf("%d: %s\n", head_dim, cudaGetErrorString(error));
            return 1;
        }
        printf("%d: row 9 has %g and %g\n", head_dim, p[9 * rows], p[9 * rows + 10]);
        cudaFree(d_q);
        cudaFree(d_k);
        cudaFree(d_p);
    }
    return 0;
}
