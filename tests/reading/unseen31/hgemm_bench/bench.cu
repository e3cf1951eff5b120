// Usage: ./bench [max_size]      sweeps square problems 256, 512, ... max_size (default 4096)
// Build: nvcc -O3 -std=c++17 -gencode arch=compute_80,code=sm_80 bench.cu -o bench -lcublas
#include <cublas_v2.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "wmma_kernels.cuh"

#define CHECK_CUDA(x)                                                                             \
    do {                                                                                          \
        cudaError_t e_ = (x);                                                                     \
        if (e_ != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s(%d): %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));          \
            exit(EXIT_FAILURE);                                                                   \
        }                                                                                         \
    } while (0)

#define CHECK_CUBLAS(x)                                                                           \
    do {                                                                                          \
        cublasStatus_t s_ = (x);                                                                  \
        if (s_ != CUBLAS_STATUS_SUCCESS) {                                                        \
            fprintf(stderr, "%s(%d): cublas status %d\n", __FILE__, __LINE__, (int)s_);           \
            exit(EXIT_FAILURE);                                                                   \
        }                                                                                         \
    } while (0)

static float max_diff(const std::vector<half> &x, const std::vector<half> &y) {
    float worst = 0.f;
    for (size_t i = 0; i < x.size(); ++i) {
        float d = std::fabs(__half2float(x[i]) - __half2float(y[i])) / (1.f + std::fabs(__half2float(y[i])));
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

template <typename F>
static float bench_ms(F &&f, int iters) {
    cudaEvent_t a, b;
    CHECK_CUDA(cudaEventCreate(&a));
    CHECK_CUDA(cudaEventCreate(&b));
    f();
    CHECK_CUDA(cudaEventRecord(a));
    for (int i = 0; i < iters; ++i) f();
    CHECK_CUDA(cudaEventRecord(b));
    CHECK_CUDA(cudaEventSynchronize(b));
    float ms = 0.f;
    CHECK_CUDA(cudaEventElapsedTime(&ms, a, b));
    CHECK_CUDA(cudaEventDestroy(a));
    CHECK_CUDA(cudaEventDestroy(b));
    return ms / iters;
}

static bool run(cublasHandle_t handle, int M, int N, int K) {
    std::vector<half> hA((size_t)M * K), hB((size_t)K * N), hC((size_t)M * N), hRef((size_t)M * N);
    for (auto &v : hA) v = __float2half((rand() % 2001 - 1000) / 1000.f);
    for (auto &v : hB) v = __float2half((rand() % 2001 - 1000) / 1000.f);

    half *A, *B, *C;
    CHECK_CUDA(cudaMalloc(&A, hA.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&B, hB.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&C, hC.size() * sizeof(half)));
    CHECK_CUDA(cudaMemcpy(A, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(B, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));

    hgemm::launch(0, A, B, C, M, N, K);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaMemcpy(hRef.data(), C, hRef.size() * sizeof(half), cudaMemcpyDeviceToHost));

    const double flops = 2.0 * M * N * K;
    bool ok = true;
    printf("M=%d N=%d K=%d\n", M, N, K);
    for (int which = 1; which <= 3; ++which) {
        if (!hgemm::supported(which, M, N, K)) continue;
        CHECK_CUDA(cudaMemset(C, 0xff, hC.size() * sizeof(half)));
        float ms = bench_ms([&] { hgemm::launch(which, A, B, C, M, N, K); }, 20);
        CHECK_CUDA(cudaGetLastError());
        CHECK_CUDA(cudaMemcpy(hC.data(), C, hC.size() * sizeof(half), cudaMemcpyDeviceToHost));
        float d = max_diff(hC, hRef);
        bool good = d < 5e-3f;
        ok &= good;
        printf("  %-12s %9.4f ms %9.2f TFLOPS  max diff %.1e %s\n", hgemm::name(which), ms, flops / ms * 1e-9, d,
               good ? "" : "MISMATCH");
    }

    // cuBLAS is column major: C^T = B^T A^T
    const float one = 1.f, zero = 0.f;
    float ms = bench_ms(
        [&] {
            CHECK_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, B, CUDA_R_16F, N, A, CUDA_R_16F,
                                      K, &zero, C, CUDA_R_16F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        },
        20);
    printf("  %-12s %9.4f ms %9.2f TFLOPS\n", "cublas", ms, flops / ms * 1e-9);

    CHECK_CUDA(cudaFree(A));
    CHECK_CUDA(cudaFree(B));
    CHECK_CUDA(cudaFree(C));
    return ok;
}

int main(int argc, char **argv) {
    const int max_size = argc > 1 ? atoi(argv[1]) : 4096;
    cublasHandle_t handle;
    CHECK_CUBLAS(cublasCreate(&handle));
    bool ok = run(handle, 48, 80, 112);       // only the naive one takes this
    ok &= run(handle, 384, 640, 160);
    for (int n = 256; n <= max_size; n *= 2) ok &= run(handle, n, n, n);
    CHECK_CUBLAS(cublasDestroy(handle));
    return ok ? 0 : 1;
}
