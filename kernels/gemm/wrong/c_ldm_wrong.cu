// Simple WMMA GEMM after the SDK sample: D = alpha * A x B + beta * C.
// One warp computes one 16x16 tile of the output, fragments come straight from global memory.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdio>
#include <vector>

using namespace nvcuda;

#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

// M, N and K must be multiples of 16
extern "C" __global__ void hgemm_naive(const half *A, const half *B, float *C, int M, int N, int K)
{
    const int warp_row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    const int warp_col = blockIdx.y * blockDim.y + threadIdx.y;

    const int aRow = warp_row * WMMA_M;
    const int bCol = warp_col * WMMA_N;
    if (aRow >= M || bCol >= N)
        return;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

    wmma::fill_fragment(c_frag, 0.0f);

    for (int i = 0; i < K; i += WMMA_K) {
        wmma::load_matrix_sync(a_frag, A + aRow * K + i, K);
        wmma::load_matrix_sync(b_frag, B + i * N + bCol, N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }

    wmma::store_matrix_sync(C + aRow * N + bCol, c_frag, M, wmma::mem_row_major);
}

#ifndef __CUDACC_RTC__
int main()
{
    const int M = 256, N = 128, K = 64;
    half *dA, *dB;
    float *dC;
    cudaMalloc(&dA, sizeof(half) * M * K);
    cudaMalloc(&dB, sizeof(half) * K * N);
    cudaMalloc(&dC, sizeof(float) * M * N);
    dim3 block(128, 4);
    dim3 grid((M + 63) / 64, (N + 63) / 64);
    hgemm_naive<<<grid, block>>>(dA, dB, dC, M, N, K);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
#endif
