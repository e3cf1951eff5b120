// nvcc -arch=sm_75 igemm_wmma_vs_cublas.cu -lcublas -o igemm && ./igemm 256 256 256
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#define CHECK_CUDA(x)                                                                              \
    if (auto e = (x); e != cudaSuccess) {                                                          \
        std::cerr << "CUDA error " << cudaGetErrorString(e) << " at line " << __LINE__ << '\n';    \
        std::exit(1);                                                                              \
    }
#define CHECK_CUBLAS(x)                                                                            \
    if (auto s = (x); s != CUBLAS_STATUS_SUCCESS) {                                                \
        std::cerr << "cuBLAS error " << s << " at line " << __LINE__ << '\n';                      \
        std::exit(1);                                                                              \
    }

namespace {
constexpr int kTile = 16;
constexpr int kWarpsX = 2;
constexpr int kWarpsY = 4;
}  // namespace

__global__ void igemm(const int8_t *A, const int8_t *B, int32_t *C, int m, int n, int k) {
    using namespace nvcuda;
    const int tileRow = blockIdx.y * kWarpsY + threadIdx.y;
    const int tileCol = blockIdx.x * kWarpsX + threadIdx.x / 32;
    if (tileRow * kTile >= m || tileCol * kTile >= n) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    wmma::fill_fragment(c, 0);
    for (int i = 0; i < k; i += kTile) {
        wmma::load_matrix_sync(a, A + tileRow * kTile * k + i, k);
        wmma::load_matrix_sync(b, B + tileCol * kTile * k + i, k);
        wmma::mma_sync(c, a, b, c);
    }
    // column major, as cuBLAS has it
    wmma::store_matrix_sync(C + tileCol * kTile * m + tileRow * kTile, c, m, wmma::mem_col_major);
}

int main(int argc, char **argv) {
    const int m = argc > 1 ? std::stoi(argv[1]) : 128;
    const int n = argc > 2 ? std::stoi(argv[2]) : 96;
    const int k = argc > 3 ? std::stoi(argv[3]) : 64;

    std::mt19937 gen(42);
    std::uniform_int_distribution<int> dist(-128, 127);
    std::vector<int8_t> hA(m * k), hB(k * n);
    for (auto &x : hA) x = static_cast<int8_t>(dist(gen));
    for (auto &x : hB) x = static_cast<int8_t>(dist(gen));

    int8_t *dA, *dB;
    int32_t *dC, *dRef;
    CHECK_CUDA(cudaMalloc(&dA, hA.size()));
    CHECK_CUDA(cudaMalloc(&dB, hB.size()));
    CHECK_CUDA(cudaMalloc(&dC, sizeof(int32_t) * m * n));
    CHECK_CUDA(cudaMalloc(&dRef, sizeof(int32_t) * m * n));
    CHECK_CUDA(cudaMemcpy(dA, hA.data(), hA.size(), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dB, hB.data(), hB.size(), cudaMemcpyHostToDevice));

    cublasHandle_t handle;
    CHECK_CUBLAS(cublasCreate(&handle));
    const int32_t alpha = 1, beta = 0;
    CHECK_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, dA, CUDA_R_8I, k, dB, CUDA_R_8I, k, &beta,
                              dRef, CUDA_R_32I, m, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT));

    dim3 block(32 * kWarpsX, kWarpsY);
    dim3 grid((n + kTile * kWarpsX - 1) / (kTile * kWarpsX), (m + kTile * kWarpsY - 1) / (kTile * kWarpsY));
    auto t0 = std::chrono::high_resolution_clock::now();
    igemm<<<grid, block>>>(dA, dB, dC, m, n, k);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaDeviceSynchronize());
    auto t1 = std::chrono::high_resolution_clock::now();

    std::vector<int32_t> hC(m * n), hRef(m * n);
    CHECK_CUDA(cudaMemcpy(hC.data(), dC, sizeof(int32_t) * m * n, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaMemcpy(hRef.data(), dRef, sizeof(int32_t) * m * n, cudaMemcpyDeviceToHost));
    size_t bad = 0;
    for (size_t i = 0; i < hC.size(); ++i) bad += hC[i] != hRef[i];
    std::cout << std::fixed << std::setprecision(3) << "wmma " << std::chrono::duration<double, std::milli>(t1 - t0).count()
              << " ms, " << bad << " of " << hC.size() << " differ from cuBLAS\n";
    cublasDestroy(handle);
    cudaFree(dA); cudaFree(dB); cudaFree(dC); cudaFree(dRef);
    return bad != 0;
}
