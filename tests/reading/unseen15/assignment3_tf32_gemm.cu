/*
 * CS 6xx -- Parallel Computing, Assignment 3
 * Part B: tensor cores. C = A * B for float matrices of any size, using TF32 fragments.
 *
 * Compile: nvcc -O2 -arch=sm_80 assignment3_tf32_gemm.cu -o a3
 * Run:     ./a3 [m n k]
 */
#include <iostream>
#include <random>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>
#include <mma.h>

using namespace std;
using namespace nvcuda;

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 8;
const int TILE = 32;   // output tile of a block, four warps

inline void check(cudaError_t err, const char *what)
{
    if (err != cudaSuccess) { cerr << what << ": " << cudaGetErrorString(err) << endl; exit(EXIT_FAILURE); }
}

__global__ void gemm_tf32(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][WMMA_K];
    __shared__ float tileB[WMMA_K][TILE];
    __shared__ float tileC[TILE][TILE];

    int rowBase = blockIdx.y * TILE;
    int colBase = blockIdx.x * TILE;
    int warpId = (threadIdx.y * blockDim.x + threadIdx.x) / 32;
    int tid = threadIdx.y * blockDim.x + threadIdx.x;
    int nThreads = blockDim.x * blockDim.y;
    int warpRow = (warpId / 2) * WMMA_M;
    int warpCol = (warpId % 2) * WMMA_N;

    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> cFrag;
    wmma::fill_fragment(cFrag, 0.0f);

    for (int step = 0; step < (k + WMMA_K - 1) / WMMA_K; step++) {
        for (int i = tid; i < TILE * WMMA_K; i += nThreads) {
            int r = i / WMMA_K, c = i % WMMA_K;
            int gr = rowBase + r, gc = step * WMMA_K + c;
            tileA[r][c] = (gr < m && gc < k) ? A[gr * k + gc] : 0.0f;
        }
        for (int i = tid; i < WMMA_K * TILE; i += nThreads) {
            int r = i / TILE, c = i % TILE;
            int gr = step * WMMA_K + r, gc = colBase + c;
            tileB[r][c] = (gr < k && gc < n) ? B[gr * n + gc] : 0.0f;
        }
        __syncthreads();

        wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, wmma::precision::tf32, wmma::row_major> aFrag;
        wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, wmma::precision::tf32, wmma::row_major> bFrag;
        wmma::load_matrix_sync(aFrag, &tileA[warpRow][0], WMMA_K);
        wmma::load_matrix_sync(bFrag, &tileB[0][warpCol], TILE);
        for (int t = 0; t < aFrag.num_elements; t++) aFrag.x[t] = wmma::__float_to_tf32(aFrag.x[t]);
        for (int t = 0; t < bFrag.num_elements; t++) bFrag.x[t] = wmma::__float_to_tf32(bFrag.x[t]);
        wmma::mma_sync(cFrag, aFrag, bFrag, cFrag);
        __syncthreads();
    }

    wmma::store_matrix_sync(&tileC[warpRow][warpCol], cFrag, TILE, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < TILE * TILE; i += nThreads) {
        int gr = rowBase + i / TILE, gc = colBase + i % TILE;
        if (gr < m && gc < n) C[gr * n + gc] = tileC[i / TILE][i % TILE];
    }
}

void matmulCPU(const vector<float> &A, const vector<float> &B, vector<float> &C, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++) sum += (double)A[i * k + l] * B[l * n + j];
            C[i * n + j] = (float)sum;
        }
}

int main(int argc, char **argv)
{
    int m = 100, n = 77, k = 50;
    if (argc == 4) { m = atoi(argv[1]); n = atoi(argv[2]); k = atoi(argv[3]); }

    mt19937 gen(42);
    uniform_real_distribution<float> dist(-1.0f, 1.0f);
    vector<float> A(m * k), B(k * n), C(m * n), ref(m * n);
    for (auto &x : A) x = dist(gen);
    for (auto &x : B) x = dist(gen);

    float *dA, *dB, *dC;
    check(cudaMalloc((void **)&dA, A.size() * sizeof(float)), "malloc A");
    check(cudaMalloc((void **)&dB, B.size() * sizeof(float)), "malloc B");
    check(cudaMalloc((void **)&dC, C.size() * sizeof(float)), "malloc C");
    check(cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice), "copy A");
    check(cudaMemcpy(dB, B.data(), B.size() * sizeof(float), cudaMemcpyHostToDevice), "copy B");

    dim3 threads(16, 8);
    dim3 blocks((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
    auto t0 = chrono::high_resolution_clock::now();
    gemm_tf32<<<blocks, threads>>>(dA, dB, dC, m, n, k);
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "sync");
    auto t1 = chrono::high_resolution_clock::now();
    check(cudaMemcpy(C.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy C");

    matmulCPU(A, B, ref, m, n, k);
    int bad = 0;
    for (int i = 0; i < m * n; i++)
        if (fabs(C[i] - ref[i]) > 1e-2f) bad++;
    cout << "time: " << chrono::duration<double, milli>(t1 - t0).count() << " ms, mismatches: " << bad << endl;
    cudaFree(dA); cudaFree(dB); cudaFree(dC);
    return bad != 0;
}
