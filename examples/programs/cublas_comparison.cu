// A WMMA GEMM against cuBLAS, timed with events: how most GEMM kernels on the web are tested.
//
// `cublas_comparison wrong` reads B with another leading dimension, and cuBLAS tells.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t e = (call);                                                            \
        if (e != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));     \
            exit(2);                                                                       \
        }                                                                                  \
    } while (0)

using namespace nvcuda;

// C[M, N] = A[M, K] · B[K, N], all by rows; one warp a tile.
__global__ void gemm(const half* a, const half* b, float* c, int n, int k, int ldb) {
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int p = 0; p < k; p += 16) {
        wmma::load_matrix_sync(fa, a + row * k + p, k);
        wmma::load_matrix_sync(fb, b + p * ldb + col, ldb);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(c + row * n + col, acc, n, wmma::mem_row_major);
}

int main(int argc, char**) {
    const int M = 64, N = 48, K = 80;
    std::vector<half> a(M * K), b(K * N);
    srand(1);
    for (auto& x : a) x = __float2half(rand() / float(RAND_MAX) - 0.5f);
    for (auto& x : b) x = __float2half(rand() / float(RAND_MAX) - 0.5f);
    half *d_a, *d_b;
    float *d_c, *d_reference;
    CHECK(cudaMalloc(&d_a, a.size() * sizeof(half)));
    CHECK(cudaMalloc(&d_b, b.size() * sizeof(half)));
    CHECK(cudaMalloc(&d_c, M * N * sizeof(float)));
    CHECK(cudaMalloc(&d_reference, M * N * sizeof(float)));
    CHECK(cudaMemcpy(d_a, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    gemm<<<dim3(N / 16, M / 16), 32>>>(d_a, d_b, d_c, N, K, argc > 1 ? N - 16 : N);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "gemm: %.3f ms, %.2f GFLOP/s\n", ms, 2e-6 * M * N * K / ms);

    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) return 3;
    const float one = 1, zero = 0;
    // By rows, C = A · B is by columns Cᵀ = Bᵀ · Aᵀ.
    if (cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, d_b, CUDA_R_16F, N, d_a, CUDA_R_16F, K, &zero, d_reference, CUDA_R_32F, N,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP) != CUBLAS_STATUS_SUCCESS)
        return 3;
    std::vector<float> c(M * N), reference(M * N);
    CHECK(cudaMemcpy(c.data(), d_c, M * N * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(reference.data(), d_reference, M * N * sizeof(float), cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int i = 0; i < M * N; ++i) worst = std::fmax(worst, std::fabs(c[i] - reference[i]));
    printf("%s\n", worst < 1e-4 ? "PASSED" : "FAILED");
    cublasDestroy(handle);
    for (void* p : {(void*)d_a, (void*)d_b, (void*)d_c, (void*)d_reference}) CHECK(cudaFree(p));
    return worst < 1e-4 ? 0 : 1;
}
