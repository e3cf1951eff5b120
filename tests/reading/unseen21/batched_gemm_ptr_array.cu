// Batched GEMM over arrays of pointers, as cublasHgemmBatched takes them (but row-major):
//     C[b] = alpha * A[b] * B[b] + beta * C[b],  b = 0 .. batch_count-1
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <random>
#include <cmath>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

const int TILE = 16;
const int BLOCK_TILES = 4;  // 4x4 tiles of 16x16 per block, one warp has a row of tiles
const int BLOCK_SIZE = TILE * BLOCK_TILES;
const int SKEW = 8;

__global__ void batched_hgemm(const half* const* Aarray, int lda, const half* const* Barray, int ldb,
                              half* const* Carray, int ldc, int m, int n, int k, float alpha, float beta)
{
    __shared__ half As[BLOCK_SIZE][TILE + SKEW];
    __shared__ half Bs[TILE][BLOCK_SIZE + SKEW];
    __shared__ float Cs[BLOCK_TILES][TILE][TILE];

    const half* A = Aarray[blockIdx.z];
    const half* B = Barray[blockIdx.z];
    half* C = Carray[blockIdx.z];

    int warpId = threadIdx.x / warpSize;
    int laneId = threadIdx.x % warpSize;
    int rowStart = blockIdx.y * BLOCK_SIZE;
    int colStart = blockIdx.x * BLOCK_SIZE;

    fragment<accumulator, TILE, TILE, TILE, float> c_frag[BLOCK_TILES];
    for (int t = 0; t < BLOCK_TILES; t++)
        nvcuda::wmma::fill_fragment(c_frag[t], 0.0f);

    for (int kk = 0; kk < k; kk += TILE) {
        for (int i = threadIdx.x; i < BLOCK_SIZE * TILE; i += blockDim.x) {
            int ar = i / TILE, ac = i % TILE;
            As[ar][ac] = (rowStart + ar < m && kk + ac < k) ? A[(rowStart + ar) * lda + kk + ac] : __float2half(0.0f);
            int br = i / BLOCK_SIZE, bc = i % BLOCK_SIZE;
            Bs[br][bc] = (kk + br < k && colStart + bc < n) ? B[(kk + br) * ldb + colStart + bc] : __float2half(0.0f);
        }
        __syncthreads();

        fragment<matrix_a, TILE, TILE, TILE, half, row_major> a_frag;
        nvcuda::wmma::load_matrix_sync(a_frag, &As[warpId * TILE][0], TILE + SKEW);
        for (int t = 0; t < BLOCK_TILES; t++) {
            fragment<matrix_b, TILE, TILE, TILE, half, row_major> b_frag;
            nvcuda::wmma::load_matrix_sync(b_frag, &Bs[0][t * TILE], BLOCK_SIZE + SKEW);
            nvcuda::wmma::mma_sync(c_frag[t], a_frag, b_frag, c_frag[t]);
        }
        __syncthreads();
    }

    for (int t = 0; t < BLOCK_TILES; t++) {
        nvcuda::wmma::store_matrix_sync(&Cs[warpId][0][0], c_frag[t], TILE, nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int i = laneId; i < TILE * TILE; i += warpSize) {
            int row = rowStart + warpId * TILE + i / TILE;
            int col = colStart + t * TILE + i % TILE;
            if (row < m && col < n) {
                float value = alpha * Cs[warpId][i / TILE][i % TILE];
                if (beta != 0.0f)
                    value += beta * __half2float(C[row * ldc + col]);
                C[row * ldc + col] = __float2half(value);
            }
        }
        __syncwarp();
    }
}

int main()
{
    const int batch_count = 3, m = 80, n = 72, k = 56;
    const float alpha = 1.5f, beta = 0.5f;
    std::mt19937 gen(7);
    std::uniform_real_distribution<float> dist(-1.0f, 1.0f);

    std::vector<std::vector<half>> hA(batch_count), hB(batch_count), hC(batch_count);
    std::vector<half*> pA(batch_count), pB(batch_count), pC(batch_count);
    for (int b = 0; b < batch_count; b++) {
        hA[b].resize(m * k);
        hB[b].resize(k * n);
        hC[b].resize(m * n);
        for (auto& x : hA[b]) x = __float2half(dist(gen));
        for (auto& x : hB[b]) x = __float2half(dist(gen));
        for (auto& x : hC[b]) x = __float2half(dist(gen));
        cudaMalloc(&pA[b], m * k * sizeof(half));
        cudaMalloc(&pB[b], k * n * sizeof(half));
        cudaMalloc(&pC[b], m * n * sizeof(half));
        cudaMemcpy(pA[b], hA[b].data(), m * k * sizeof(half), cudaMemcpyHostToDevice);
        cudaMemcpy(pB[b], hB[b].data(), k * n * sizeof(half), cudaMemcpyHostToDevice);
        cudaMemcpy(pC[b], hC[b].data(), m * n * sizeof(half), cudaMemcpyHostToDevice);
    }
    half **dA, **dB, **dC;
    cudaMalloc(&dA, batch_count * sizeof(half*));
    cudaMalloc(&dB, batch_count * sizeof(half*));
    cudaMalloc(&dC, batch_count * sizeof(half*));
    cudaMemcpy(dA, pA.data(), batch_count * sizeof(half*), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, pB.data(), batch_count * sizeof(half*), cudaMemcpyHostToDevice);
    cudaMemcpy(dC, pC.data(), batch_count * sizeof(half*), cudaMemcpyHostToDevice);

    dim3 grid((n + BLOCK_SIZE - 1) / BLOCK_SIZE, (m + BLOCK_SIZE - 1) / BLOCK_SIZE, batch_count);
    batched_hgemm<<<grid, BLOCK_TILES * 32>>>(dA, k, dB, n, dC, n, m, n, k, alpha, beta);
    cudaDeviceSynchronize();

    bool ok = true;
    std::vector<half> out(m * n);
    for (int b = 0; b < batch_count; b++) {
        cudaMemcpy(out.data(), pC[b], m * n * sizeof(half), cudaMemcpyDeviceToHost);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0.0f;
                for (int p = 0; p < k; p++) sum += __half2float(hA[b][i * k + p]) * __half2float(hB[b][p * n + j]);
                float expected = alpha * sum + beta * __half2float(hC[b][i * n + j]);
                float got = __half2float(out[i * n + j]);
                if (std::fabs(got - expected) > 1e-2f + 1e-3f * std::fabs(expected)) ok = false;
            }
    }
    std::printf("%s\n", ok ? "PASSED" : "FAILED");
    return ok ? 0 : 1;
}
