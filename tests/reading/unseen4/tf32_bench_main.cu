// TF32 tensor core matmul, benchmark harness: ./tf32_bench [size] [repeats]
#include <cuda_runtime.h>
#include <mma.h>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

using namespace nvcuda;

#define cudaCheck(err) (cudaCheckImpl(err, __FILE__, __LINE__))
void cudaCheckImpl(cudaError_t error, const char *file, int line) {
    if (error != cudaSuccess) {
        std::cerr << "[CUDA ERROR] at " << file << ":" << line << "\n" << cudaGetErrorString(error) << std::endl;
        exit(EXIT_FAILURE);
    }
}

template <int BM, int BN, int BK, int WM, int WN>
__global__ void tf32_matmul(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    constexpr int WARPS_N = BN / WN;
    constexpr int NTHREADS = (BM / WM) * WARPS_N * 32;
    __shared__ float As[BM][BK + 4];
    __shared__ float Bs[BK][BN + 4];
    const int warpId = threadIdx.x / 32;
    const int wr = warpId / WARPS_N * WM, wc = warpId % WARPS_N * WN;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[WM / 16][WN / 16];
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int bk = 0; bk < K; bk += BK) {
        for (int i = threadIdx.x; i < BM * BK / 4; i += NTHREADS) {
            int r = i / (BK / 4), c = i % (BK / 4) * 4;
            float4 t = *reinterpret_cast<const float4 *>(&A[r * K + c]);
            *reinterpret_cast<float4 *>(&As[r][c]) = t;
        }
        for (int i = threadIdx.x; i < BK * BN / 4; i += NTHREADS) {
            int r = i / (BN / 4), c = i % (BN / 4) * 4;
            *reinterpret_cast<float4 *>(&Bs[r][c]) = *reinterpret_cast<const float4 *>(&B[r * N + c]);
        }
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int k = 0; k < BK; k += 8) {
            wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a[WM / 16];
            wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b[WN / 16];
            for (int i = 0; i < WM / 16; i++) {
                wmma::load_matrix_sync(a[i], &As[wr + i * 16][k], BK + 4);
                for (int t = 0; t < a[i].num_elements; t++) a[i].x[t] = wmma::__float_to_tf32(a[i].x[t]);
            }
            for (int j = 0; j < WN / 16; j++) {
                wmma::load_matrix_sync(b[j], &Bs[k][wc + j * 16], BN + 4);
                for (int t = 0; t < b[j].num_elements; t++) b[j].x[t] = wmma::__float_to_tf32(b[j].x[t]);
            }
            for (int i = 0; i < WM / 16; i++)
                for (int j = 0; j < WN / 16; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < WM / 16; i++)
        for (int j = 0; j < WN / 16; j++) {
            float *dst = &C[(wr + i * 16) * N + wc + j * 16];
            wmma::fragment<wmma::accumulator, 16, 16, 8, float> old;
            wmma::load_matrix_sync(old, dst, N, wmma::mem_row_major);
            for (int t = 0; t < old.num_elements; t++) old.x[t] = alpha * acc[i][j].x[t] + beta * old.x[t];
            wmma::store_matrix_sync(dst, old, N, wmma::mem_row_major);
        }
}

void run_tf32_matmul(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
    const uint BM = 64, BN = 64, BK = 16, WM = 32, WN = 32;
    dim3 gridDim(N / BN, M / BM);
    dim3 blockDim((BM / WM) * (BN / WN) * 32);
    tf32_matmul<BM, BN, BK, WM, WN><<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
}

double bench(const std::function<void()> &f, int repeats) {
    f();
    cudaCheck(cudaDeviceSynchronize());
    auto t0 = std::chrono::high_resolution_clock::now();
    for (int i = 0; i < repeats; i++) f();
    cudaCheck(cudaDeviceSynchronize());
    std::chrono::duration<double> d = std::chrono::high_resolution_clock::now() - t0;
    return d.count() / repeats;
}

int main(int argc, char *argv[]) {
    const int size = argc > 1 ? std::stoi(argv[1]) : 128;
    const int repeats = argc > 2 ? std::stoi(argv[2]) : 1;
    const int M = size, N = size, K = size;
    std::mt19937 gen(42);
    std::uniform_real_distribution<float> dist(-1.f, 1.f);
    std::vector<float> hA(M * K), hB(K * N), hC(M * N, 0.f);
    for (auto &x : hA) x = dist(gen);
    for (auto &x : hB) x = dist(gen);
    float *dA, *dB, *dC;
    cudaCheck(cudaMalloc((void **)&dA, sizeof(float) * hA.size()));
    cudaCheck(cudaMalloc((void **)&dB, sizeof(float) * hB.size()));
    cudaCheck(cudaMalloc((void **)&dC, sizeof(float) * hC.size()));
    cudaCheck(cudaMemcpy(dA, hA.data(), sizeof(float) * hA.size(), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(dB, hB.data(), sizeof(float) * hB.size(), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(dC, hC.data(), sizeof(float) * hC.size(), cudaMemcpyHostToDevice));

    double s = bench([&] { run_tf32_matmul(M, N, K, 1.0f, dA, dB, 0.0f, dC); }, repeats);
    cudaCheck(cudaMemcpy(hC.data(), dC, sizeof(float) * hC.size(), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double ref = 0;
            for (int k = 0; k < K; k++) ref += (double)hA[i * K + k] * hB[k * N + j];
            worst = std::max(worst, std::abs(ref - hC[i * N + j]));
        }
    std::cout << "size " << size << ": " << 2.0 * M * N * K / s * 1e-9 << " GFLOPS, max error " << worst << std::endl;
    return worst < 0.05 ? 0 : 1;
}
