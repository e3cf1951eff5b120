/*
 * 并行计算 课程作业 3：用 Tensor Core 实现半精度矩阵乘法
 * 编译:  nvcc -O3 -arch=sm_80 hw3.cu -o hw3
 * 运行:  ./hw3 [M] [N] [K]
 *
 * A: M x K 行主序,  B: K x N 列主序,  C: M x N 行主序 (float)
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <time.h>

using namespace nvcuda::wmma;

#define WM 16
#define WN 16
#define WK 16
#define WARPS_PER_BLOCK_X 2
#define WARPS_PER_BLOCK_Y 4
#define CEIL(x, y) (((x) + (y) - 1) / (y))

#define CHECK(call)                                                                     \
{                                                                                       \
    const cudaError_t error = call;                                                     \
    if (error != cudaSuccess)                                                           \
    {                                                                                   \
        printf("错误: %s:%d, ", __FILE__, __LINE__);                                    \
        printf("代码: %d, 原因: %s\n", error, cudaGetErrorString(error));               \
        exit(1);                                                                        \
    }                                                                                   \
}

// 每个 warp 计算一个 16x16 的 C 子块
__global__ void matMulTensorCore(const half *A, const half *B, float *C, int M, int N, int K)
{
    int warpM = blockIdx.y * WARPS_PER_BLOCK_Y + threadIdx.y;
    int warpN = blockIdx.x * WARPS_PER_BLOCK_X + threadIdx.x / warpSize;
    if (warpM * WM >= M || warpN * WN >= N)
        return;

    fragment<matrix_a, WM, WN, WK, half, row_major> a;
    fragment<matrix_b, WM, WN, WK, half, col_major> b;
    fragment<accumulator, WM, WN, WK, float> c;
    fill_fragment(c, 0.0f);

    for (int i = 0; i < K; i += WK)
    {
        load_matrix_sync(a, A + warpM * WM * K + i, K);
        load_matrix_sync(b, B + warpN * WN * K + i, K);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(C + warpM * WM * N + warpN * WN, c, N, mem_row_major);
}

// 朴素版本，用来对比
__global__ void matMulNaive(const half *A, const half *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N)
    {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += __half2float(A[row * K + k]) * __half2float(B[col * K + k]);
        C[row * N + col] = sum;
    }
}

void initMatrix(half *m, int n)
{
    for (int i = 0; i < n; i++)
        m[i] = __float2half((float)(rand() % 10) / 10.0f - 0.5f);
}

void cpuMatMul(const half *A, const half *B, float *C, int M, int N, int K)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
        {
            float s = 0;
            for (int k = 0; k < K; k++)
                s += __half2float(A[i * K + k]) * __half2float(B[j * K + k]);
            C[i * N + j] = s;
        }
}

bool checkResult(const char *name, const float *ref, const float *out, int n)
{
    double maxErr = 0;
    for (int i = 0; i < n; i++)
    {
        double e = fabs(ref[i] - out[i]);
        if (e > maxErr) maxErr = e;
    }
    printf("%s: 最大误差 = %g  %s\n", name, maxErr, maxErr < 1e-2 ? "通过" : "失败");
    return maxErr < 1e-2;
}

int main(int argc, char **argv)
{
    int M = argc > 1 ? atoi(argv[1]) : 256;
    int N = argc > 2 ? atoi(argv[2]) : 192;
    int K = argc > 3 ? atoi(argv[3]) : 128;
    srand((unsigned)time(NULL));

    size_t bytesA = sizeof(half) * M * K, bytesB = sizeof(half) * K * N, bytesC = sizeof(float) * M * N;
    half *h_A = (half *)malloc(bytesA);
    half *h_B = (half *)malloc(bytesB);
    float *h_C = (float *)malloc(bytesC);
    float *h_ref = (float *)malloc(bytesC);
    initMatrix(h_A, M * K);
    initMatrix(h_B, K * N);

    half *d_A, *d_B;
    float *d_C;
    CHECK(cudaMalloc((void **)&d_A, bytesA));
    CHECK(cudaMalloc((void **)&d_B, bytesB));
    CHECK(cudaMalloc((void **)&d_C, bytesC));
    CHECK(cudaMemcpy(d_A, h_A, bytesA, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_B, h_B, bytesB, cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    float ms = 0;
    int ok = 1;

    cpuMatMul(h_A, h_B, h_ref, M, N, K);

    // ---- 1. naive ----
    dim3 block(16, 16);
    dim3 grid(CEIL(N, 16), CEIL(M, 16));
    CHECK(cudaEventRecord(start));
    matMulNaive<<<grid, block>>>(d_A, d_B, d_C, M, N, K);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(cudaMemcpy(h_C, d_C, bytesC, cudaMemcpyDeviceToHost));
    ok &= checkResult("naive", h_ref, h_C, M * N);
    printf("naive time: %f ms\n", ms);

    // ---- 2. tensor core ----
    CHECK(cudaMemset(d_C, 0, bytesC));
    dim3 blockTC(32 * WARPS_PER_BLOCK_X, WARPS_PER_BLOCK_Y);
    dim3 gridTC(CEIL(N, WN * WARPS_PER_BLOCK_X), CEIL(M, WM * WARPS_PER_BLOCK_Y));
    matMulTensorCore<<<gridTC, blockTC>>>(d_A, d_B, d_C, M, N, K); // warm up
    CHECK(cudaEventRecord(start));
    for (int i = 0; i < 10; i++)
        matMulTensorCore<<<gridTC, blockTC>>>(d_A, d_B, d_C, M, N, K);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(cudaMemcpy(h_C, d_C, bytesC, cudaMemcpyDeviceToHost));
    ok &= checkResult("tensor core", h_ref, h_C, M * N);
    printf("tensor core: %f ms, %f GFLOPS\n", ms / 10, 2.0 * M * N * K / (ms / 10) * 1e-6);

    cudaFree(d_A);
    cudaFree(d_B);
    cudaFree(d_C);
    free(h_A);
    free(h_B);
    free(h_C);
    free(h_ref);
    return ok ? 0 : 1;
}
