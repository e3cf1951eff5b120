#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define TILE_M 64
#define TILE_N 64
#define TILE_K 16

// every z adds its part of K to a float buffer that has been set to zero
__global__ void hgemm_splitk_atomic_kernel(const half *__restrict__ A, const half *__restrict__ B,
                                           float *__restrict__ acc_buf, int M, int N, int K, int K_per_block) {
    using namespace nvcuda;
    __shared__ __align__(32) float tile[4][16 * 16];
    const int warp_id = threadIdx.x / 32, lane_id = threadIdx.x % 32;
    const int row = blockIdx.y * TILE_M + warp_id * 16;
    const int k_start = blockIdx.z * K_per_block;
    const int k_end = k_start + K_per_block < K ? k_start + K_per_block : K;
    for (int col = blockIdx.x * TILE_N; col < (blockIdx.x + 1) * TILE_N; col += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
        wmma::fill_fragment(c, 0.0f);
        for (int k = k_start; k < k_end; k += TILE_K) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a, A + row * K + k, K);
            wmma::load_matrix_sync(b, B + k * N + col, N);
            wmma::mma_sync(c, a, b, c);
        }
        wmma::store_matrix_sync(tile[warp_id], c, 16, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane_id; e < 256; e += 32)
            atomicAdd(&acc_buf[(row + e / 16) * N + col + e % 16], tile[warp_id][e]);
        __syncwarp();
    }
}

__global__ void float_to_half_kernel(const float *__restrict__ src, half *__restrict__ dst, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = __float2half_rn(src[i]);
}

extern "C" void hgemm_splitk(const half *A, const half *B, half *C, float *workspace, int M, int N, int K, int split_k,
                             cudaStream_t stream) {
    cudaMemsetAsync(workspace, 0, (size_t)M * N * sizeof(float), stream);
    int K_per_block = (K / TILE_K + split_k - 1) / split_k * TILE_K;
    dim3 grid(N / TILE_N, M / TILE_M, split_k);
    hgemm_splitk_atomic_kernel<<<grid, 128, 0, stream>>>(A, B, workspace, M, N, K, K_per_block);
    size_t n = (size_t)M * N;
    float_to_half_kernel<<<(n + 255) / 256, 256, 0, stream>>>(workspace, C, n);
}
