#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <iostream>
#include <vector>
#include <cstdlib>

using namespace nvcuda;
#define CUDA_CHECK(call) do { cudaError_t err_ = (call); if (err_ != cudaSuccess) { \
  std::cerr << "CUDA error " << cudaGetErrorString(err_) << " at " << __LINE__ << std::endl; std::exit(1); } } while (0)

constexpr int TILE_M = 32, TILE_N = 32, SPLIT_K = 4;

__global__ void gemm_splitk(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ float stage[4][16 * 16];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = blockIdx.y * TILE_M + (warp / 2) * 16;
    int col = blockIdx.x * TILE_N + (warp % 2) * 16;
    int k_per_split = K / gridDim.z;
    int k_begin = blockIdx.z * k_per_split;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = k_begin; k < k_begin + k_per_split; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(stage[warp], c, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
        atomicAdd(&C[(row + i / 16) * N + col + i % 16], stage[warp][i]);
}

int main() {
    const int M = 512, N = 512, K = 2048;
    half *d_A, *d_B; float *d_C;
    CUDA_CHECK(cudaMalloc(&d_A, M * K * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&d_B, K * N * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&d_C, M * N * sizeof(float)));
    std::vector<half> h_A(M * K), h_B(K * N);
    for (auto& v : h_A) v = __float2half(rand() / (float)RAND_MAX - 0.5f);
    for (auto& v : h_B) v = __float2half(rand() / (float)RAND_MAX - 0.5f);
    CUDA_CHECK(cudaMemcpy(d_A, h_A.data(), M * K * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_B, h_B.data(), K * N * sizeof(half), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(d_C, 0, M * N * sizeof(float)));
    dim3 grid(N / TILE_N, M / TILE_M, SPLIT_K);
    gemm_splitk<<<grid, 128>>>(d_A, d_B, d_C, M, N, K);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    return 0;
}
