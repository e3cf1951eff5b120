// Simple WMMA GEMM: D = alpha * A * B + beta * C, one warp per 16x16 tile.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cmath>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define CHECK_CUDA(call)                                                                   \
    do {                                                                                   \
        cudaError_t err_ = (call);                                                         \
        if (err_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));  \
            exit(EXIT_FAILURE);                                                            \
        }                                                                                  \
    } while (0)

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

__global__ void simple_wmma_gemm(const half *a, const half *b, const float *c, float *d, int m_ld, int n_ld, int k_ld,
                                 float alpha, float beta) {
    int lda = k_ld;
    int ldb = k_ld;
    int ldc = n_ld;

    int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
    wmma::fill_fragment(acc_frag, 0.0f);

    for (int i = 0; i < k_ld; i += WMMA_K) {
        int aCol = i;
        int aRow = warpM * WMMA_M;
        int bCol = warpN * WMMA_N;
        int bRow = i;
        if (aRow < m_ld && aCol < k_ld && bRow < k_ld && bCol < n_ld) {
            wmma::load_matrix_sync(a_frag, a + aCol + aRow * lda, lda);
            wmma::load_matrix_sync(b_frag, b + bRow + bCol * ldb, ldb);
            wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
        }
    }

    int cCol = warpN * WMMA_N;
    int cRow = warpM * WMMA_M;
    if (cRow < m_ld && cCol < n_ld) {
        wmma::load_matrix_sync(c_frag, c + cCol + cRow * ldc, ldc, wmma::mem_row_major);
        for (int i = 0; i < c_frag.num_elements; i++) {
            c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
        }
        wmma::store_matrix_sync(d + cCol + cRow * ldc, c_frag, ldc, wmma::mem_row_major);
    }
}

void matmul_host(const std::vector<half> &A, const std::vector<half> &B, const std::vector<float> &C,
                 std::vector<float> &D, float alpha, float beta, int M, int N, int K) {
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float temp = 0.0f;
            for (int k = 0; k < K; k++) temp += __half2float(A[i * K + k]) * __half2float(B[j * K + k]);
            D[i * N + j] = temp * alpha + beta * C[i * N + j];
        }
}

int main(int argc, char **argv) {
    int M = argc > 1 ? atoi(argv[1]) : 128;
    int N = argc > 2 ? atoi(argv[2]) : 64;
    int K = argc > 3 ? atoi(argv[3]) : 96;
    const float alpha = 1.1f, beta = 1.2f;

    std::vector<half> A(M * K), B(K * N);
    std::vector<float> C(M * N), D(M * N), ref(M * N);
    for (auto &v : A) v = __float2half((float)(rand() % 3));
    for (auto &v : B) v = __float2half((float)(rand() % 3));
    for (auto &v : C) v = (float)(rand() % 3);

    half *dA, *dB;
    float *dC, *dD;
    CHECK_CUDA(cudaMalloc(&dA, A.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dB, B.size() * sizeof(half)));
    CHECK_CUDA(cudaMalloc(&dC, C.size() * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&dD, D.size() * sizeof(float)));
    CHECK_CUDA(cudaMemcpy(dA, A.data(), A.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dB, B.data(), B.size() * sizeof(half), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemcpy(dC, C.data(), C.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaMemset(dD, 0, D.size() * sizeof(float)));

    dim3 gridDim, blockDim;
    blockDim.x = 128;
    blockDim.y = 4;
    gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
    gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);

    cudaEvent_t start, stop;
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&stop));
    CHECK_CUDA(cudaEventRecord(start));
    simple_wmma_gemm<<<gridDim, blockDim>>>(dA, dB, dC, dD, M, N, K, alpha, beta);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaEventRecord(stop));
    CHECK_CUDA(cudaEventSynchronize(stop));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
    CHECK_CUDA(cudaMemcpy(D.data(), dD, D.size() * sizeof(float), cudaMemcpyDeviceToHost));

    matmul_host(A, B, C, ref, alpha, beta, M, N, K);
    for (int i = 0; i < M * N; i++) {
        if (fabs(D[i] - ref[i]) > 0.1f) {
            printf("mismatch i=%d result_host=%f result_device=%f\n", i, ref[i], D[i]);
            return 1;
        }
    }
    printf("Time: %f ms\nTest PASSED\n", ms);
    cudaFree(dA); cudaFree(dB); cudaFree(dC); cudaFree(dD);
    return 0;
}
