// SGEMM-like interface over half inputs, started through cudaLaunchKernel.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>

enum { TM = 64, TN = 32, TK = 16, NTHREADS = 256 };

__global__ void hgemm_nn(int m, int n, int k, float alpha, const __half *A, const __half *B, float beta, float *C)
{
    __shared__ __half sa[2][TM][TK + 8];
    __shared__ __half sb[2][TK][TN + 8];
    __shared__ float sc[TM][TN + 4];
    const int t = threadIdx.x, w = t >> 5;
    const int wm = (w >> 1) << 4, wn = (w & 1) << 4;
    const int m0 = blockIdx.x * TM, n0 = blockIdx.y * TN;

    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> d;
    nvcuda::wmma::fill_fragment(d, 0.0f);

    int cur = 0;
    for (int k0 = 0; k0 < k; k0 += TK, cur ^= 1) {
        for (int i = t; i < TM * TK; i += NTHREADS) {
            int r = i / TK, c = i % TK;
            sa[cur][r][c] = (m0 + r < m && k0 + c < k) ? A[(size_t)(m0 + r) * k + k0 + c] : __float2half(0.0f);
        }
        for (int i = t; i < TK * TN; i += NTHREADS) {
            int r = i / TN, c = i % TN;
            sb[cur][r][c] = (k0 + r < k && n0 + c < n) ? B[(size_t)(k0 + r) * n + n0 + c] : __float2half(0.0f);
        }
        __syncthreads();
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> a;
        nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::row_major> b;
        nvcuda::wmma::load_matrix_sync(a, &sa[cur][wm][0], TK + 8);
        nvcuda::wmma::load_matrix_sync(b, &sb[cur][0][wn], TN + 8);
        nvcuda::wmma::mma_sync(d, a, b, d);
    }
    nvcuda::wmma::store_matrix_sync(&sc[wm][wn], d, TN + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();
    for (int i = t; i < TM * TN; i += NTHREADS) {
        int r = m0 + i / TN, c = n0 + i % TN;
        if (r >= m || c >= n) continue;
        float old = beta == 0.0f ? 0.0f : beta * C[(size_t)r * n + c];
        C[(size_t)r * n + c] = alpha * sc[i / TN][i % TN] + old;
    }
}

static void run(int m, int n, int k, float alpha, const __half *A, const __half *B, float beta, float *C)
{
    dim3 blocks((m + TM - 1) / TM, (n + TN - 1) / TN, 1), threads(NTHREADS, 1, 1);
    void *args[] = {&m, &n, &k, &alpha, &A, &B, &beta, &C};
    cudaError_t e = cudaLaunchKernel((const void *)hgemm_nn, blocks, threads, args, 0, 0);
    if (e != cudaSuccess) {
        fprintf(stderr, "launch: %s\n", cudaGetErrorString(e));
        exit(1);
    }
}

int main(void)
{
    int m = 300, n = 200, k = 120;
    __half *hA = (__half *)malloc(sizeof(__half) * m * k), *hB = (__half *)malloc(sizeof(__half) * k * n);
    float *hC = (float *)calloc(m * n, sizeof(float));
    for (int i = 0; i < m * k; i++) hA[i] = __float2half((float)(i % 7) - 3);
    for (int i = 0; i < k * n; i++) hB[i] = __float2half((float)(i % 5) - 2);
    __half *A, *B;
    float *C;
    cudaMalloc((void **)&A, sizeof(__half) * m * k);
    cudaMalloc((void **)&B, sizeof(__half) * k * n);
    cudaMalloc((void **)&C, sizeof(float) * m * n);
    cudaMemcpy(A, hA, sizeof(__half) * m * k, cudaMemcpyHostToDevice);
    cudaMemcpy(B, hB, sizeof(__half) * k * n, cudaMemcpyHostToDevice);
    cudaMemcpy(C, hC, sizeof(float) * m * n, cudaMemcpyHostToDevice);
    run(m, n, k, 0.5f, A, B, 1.0f, C);
    cudaMemcpy(hC, C, sizeof(float) * m * n, cudaMemcpyDeviceToHost);
    float s = 0;
    for (int i = 0; i < k; i++) s += __half2float(hA[i]) * __half2float(hB[i * n]);
    printf("%f, expected %f\n", hC[0], 0.5f * s);
    return 0;
}
