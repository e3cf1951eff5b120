// igemm_s8_wmma.cu - INT8 GEMM with the WMMA API
//
// C (int32, row major) = A (int8, row major) x B (int8, COLUMN major)
//
// Build:  nvcc -std=c++14 -arch=sm_80 igemm_s8_wmma.cu -o igemm
// Usage:  ./igemm [M N K]     all multiples of 64
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cuda_runtime.h>
#include <mma.h>

#define CUDA_CHECK(call)                                                                  \
    do {                                                                                  \
        cudaError_t e_ = (call);                                                          \
        if (e_ != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            std::exit(1);                                                                 \
        }                                                                                 \
    } while (0)

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

const int TILE = 64;         // C tile edge per block
const int K_STEP = 64;       // bytes of K staged per iteration
const int LD_SMEM = K_STEP + 16;
const int THREADS = 128;     // 4 warps, each 32 x 32 of C

using namespace nvcuda;

__global__ void igemm_kernel(const int8_t *A, const int8_t *B, int32_t *C, int M, int N, int K)
{
    __shared__ __align__(32) int8_t smA[TILE * LD_SMEM];
    __shared__ __align__(32) int8_t smB[TILE * LD_SMEM];

    const int warp = threadIdx.x / warpSize;
    const int wr = (warp >> 1) * 32;
    const int wc = (warp & 1) * 32;
    const int rowBase = blockIdx.y * TILE;
    const int colBase = blockIdx.x * TILE;

    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, int> acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    for (int k = 0; k < K; k += K_STEP) {
        // 64 rows * 64 bytes = 256 int4, two per thread and operand
        for (int v = threadIdx.x; v < TILE * K_STEP / 16; v += THREADS) {
            const int r = v / (K_STEP / 16);
            const int c = (v % (K_STEP / 16)) * 16;
            *(int4 *)(smA + r * LD_SMEM + c) = *(const int4 *)(A + (size_t)(rowBase + r) * K + k + c);
            // column n of B is contiguous in k
            *(int4 *)(smB + r * LD_SMEM + c) = *(const int4 *)(B + (size_t)(colBase + r) * K + k + c);
        }
        __syncthreads();

        for (int kk = 0; kk < K_STEP; kk += WMMA_K) {
            wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, signed char, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, signed char, wmma::col_major> b[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(a[i], smA + (wr + i * WMMA_M) * LD_SMEM + kk, LD_SMEM);
                wmma::load_matrix_sync(b[i], smB + (wc + i * WMMA_N) * LD_SMEM + kk, LD_SMEM);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(C + (size_t)(rowBase + wr + i * WMMA_M) * N + colBase + wc + j * WMMA_N,
                                    acc[i][j], N, wmma::mem_row_major);
}

static void cpu_reference(const std::vector<int8_t> &A, const std::vector<int8_t> &B,
                          std::vector<int32_t> &C, int M, int N, int K)
{
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            int32_t s = 0;
            for (int k = 0; k < K; ++k) s += int32_t(A[(size_t)m * K + k]) * int32_t(B[(size_t)n * K + k]);
            C[(size_t)m * N + n] = s;
        }
}

int main(int argc, char *argv[])
{
    int M = 256, N = 256, K = 512;
    if (argc == 4) {
        M = std::atoi(argv[1]);
        N = std::atoi(argv[2]);
        K = std::atoi(argv[3]);
    }
    if (M % TILE || N % TILE || K % K_STEP) {
        std::fprintf(stderr, "sizes must be multiples of 64\n");
        return EXIT_FAILURE;
    }

    std::mt19937 rng(2023);
    std::uniform_int_distribution<int> dist(-128, 127);
    std::vector<int8_t> hA((size_t)M * K), hB((size_t)K * N);
    std::vector<int32_t> hC((size_t)M * N), ref((size_t)M * N);
    for (auto &x : hA) x = (int8_t)dist(rng);
    for (auto &x : hB) x = (int8_t)dist(rng);

    int8_t *dA, *dB;
    int32_t *dC;
    CUDA_CHECK(cudaMalloc(&dA, hA.size()));
    CUDA_CHECK(cudaMalloc(&dB, hB.size()));
    CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(int32_t)));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size(), cudaMemcpyHostToDevice));

    dim3 block(THREADS);
    dim3 grid(N / TILE, M / TILE);
    auto t0 = std::chrono::high_resolution_clock::now();
    igemm_kernel<<<grid, block>>>(dA, dB, dC, M, N, K);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    auto t1 = std::chrono::high_resolution_clock::now();
    std::printf("%d x %d x %d: %.3f ms\n", M, N, K,
                std::chrono::duration<double, std::milli>(t1 - t0).count());

    CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(int32_t), cudaMemcpyDeviceToHost));
    cpu_reference(hA, hB, ref, M, N, K);
    size_t bad = 0;
    for (size_t i = 0; i < ref.size(); ++i) bad += ref[i] != hC[i];
    std::printf("%s (%zu mismatches)\n", bad ? "FAILED" : "PASSED", bad);
    cudaFree(dA);
    cudaFree(dB);
    cudaFree(dC);
    return bad != 0;
}
