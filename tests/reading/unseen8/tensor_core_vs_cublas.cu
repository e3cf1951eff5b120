// Three steps to tensor cores, each compared with cuBLAS.
//   nvcc -O3 -arch=sm_80 tensor_core_vs_cublas.cu -lcublas -o tc && ./tc 512
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(call)                                                                  \
    do {                                                                                  \
        cudaError_t status_ = (call);                                                     \
        if (status_ != cudaSuccess) {                                                     \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

using namespace nvcuda;

// step 1: one thread per element
__global__ void gemm_naive(const half* A, const half* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int i = 0; i < K; i++) sum += __half2float(A[row * K + i]) * __half2float(B[i * N + col]);
    C[row * N + col] = sum;
}

// step 2: one warp per 16x16 tile
__global__ void gemm_wmma_simple(const half* A, const half* B, float* C, int M, int N, int K) {
    int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warpN = blockIdx.y * blockDim.y + threadIdx.y;
    if (warpM * 16 >= M || warpN * 16 >= N) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + warpM * 16 * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + warpN * 16, N);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(C + warpM * 16 * N + warpN * 16, acc, N, wmma::mem_row_major);
}

// step 3: 64x64 tiles in shared memory, four warps
#define TILE 64
#define TILE_K 32
#define SKEW 8
__global__ void gemm_wmma_shared(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ half As[TILE][TILE_K + SKEW];
    __shared__ half Bs[TILE_K][TILE + SKEW];
    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int wr = (warp / 2) * 32, wc = (warp % 2) * 32;
    const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(acc[i][j], 0.f);

    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        for (int i = tid; i < TILE * TILE_K / 8; i += blockDim.x) {
            int r = i / (TILE_K / 8), c = (i % (TILE_K / 8)) * 8;
            *(int4*)&As[r][c] = *(const int4*)&A[(row0 + r) * K + k0 + c];
        }
        for (int i = tid; i < TILE_K * TILE / 8; i += blockDim.x) {
            int r = i / (TILE / 8), c = (i % (TILE / 8)) * 8;
            *(int4*)&Bs[r][c] = *(const int4*)&B[(k0 + r) * N + col0 + c];
        }
        __syncthreads();
        for (int kk = 0; kk < TILE_K; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
            for (int i = 0; i < 2; i++) wmma::load_matrix_sync(a[i], &As[wr + 16 * i][kk], TILE_K + SKEW);
            for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b[j], &Bs[kk][wc + 16 * j], TILE + SKEW);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::store_matrix_sync(&C[(row0 + wr + 16 * i) * N + col0 + wc + 16 * j], acc[i][j], N,
                                    wmma::mem_row_major);
}

static float max_diff(const std::vector<float>& x, const std::vector<float>& y) {
    float worst = 0.f;
    for (size_t i = 0; i < x.size(); i++) worst = fmaxf(worst, fabsf(x[i] - y[i]));
    return worst;
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 128;
    const int M = n, N = n, K = n;
    std::vector<half> hA(M * K), hB(K * N);
    srand(42);
    for (auto& v : hA) v = __float2half((float)rand() / RAND_MAX - 0.5f);
    for (auto& v : hB) v = __float2half((float)rand() / RAND_MAX - 0.5f);

    half *dA, *dB;
    float *dC, *dRef;
    CUDA_CHECK(cudaMalloc(&dA, sizeof(half) * M * K));
    CUDA_CHECK(cudaMalloc(&dB, sizeof(half) * K * N));
    CUDA_CHECK(cudaMalloc(&dC, sizeof(float) * M * N));
    CUDA_CHECK(cudaMalloc(&dRef, sizeof(float) * M * N));
    CUDA_CHECK(cudaMemcpy(dA, hA.data(), sizeof(half) * M * K, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(dB, hB.data(), sizeof(half) * K * N, cudaMemcpyHostToDevice));

    // row-major C = A * B is column-major C^T = B^T * A^T
    cublasHandle_t handle;
    cublasCreate(&handle);
    const float one = 1.f, zero = 0.f;
    cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, dB, CUDA_R_16F, N, dA, CUDA_R_16F, K, &zero, dRef,
                 CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    std::vector<float> ref(M * N), out(M * N);
    CUDA_CHECK(cudaMemcpy(ref.data(), dRef, sizeof(float) * M * N, cudaMemcpyDeviceToHost));

    bool ok = true;
    for (int step = 1; step <= 3; step++) {
        CUDA_CHECK(cudaMemset(dC, 0, sizeof(float) * M * N));
        if (step == 1) {
            dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
            gemm_naive<<<grid, block>>>(dA, dB, dC, M, N, K);
        } else if (step == 2) {
            dim3 block(128, 4);
            dim3 grid((M + 63) / 64, (N + 63) / 64);
            gemm_wmma_simple<<<grid, block>>>(dA, dB, dC, M, N, K);
        } else {
            dim3 grid(N / TILE, M / TILE);
            gemm_wmma_shared<<<grid, 128>>>(dA, dB, dC, M, N, K);
        }
        CUDA_CHECK(cudaDeviceSynchronize());
        CUDA_CHECK(cudaMemcpy(out.data(), dC, sizeof(float) * M * N, cudaMemcpyDeviceToHost));
        float d = max_diff(ref, out);
        printf("step %d: max diff %g\n", step, d);
        ok = ok && d < 1e-2f;
    }
    puts(ok ? "PASSED" : "FAILED");
    cublasDestroy(handle);
    cudaFree(dA); cudaFree(dB); cudaFree(dC); cudaFree(dRef);
    return ok ? 0 : 1;
}
