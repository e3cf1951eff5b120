// Split-K GEMM. gridDim.z slices of K, each block adds its partial tile to C with atomicAdd (C zeroed by the host).
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <int SPLIT_TILE_K>
__global__ void splitk(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    __shared__ __align__(32) float patch[16 * 16];
    const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
    const int k_begin = blockIdx.z * SPLIT_TILE_K;
    const int k_end = min(k_begin + SPLIT_TILE_K, K);

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;   // B is N x K
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = k_begin; k < k_end; k += 16) {
        wmma::load_matrix_sync(fa, A + m0 * K + k, K);
        wmma::load_matrix_sync(fb, B + n0 * K + k, K);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(patch, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        atomicAdd(&C[(m0 + i / 16) * N + n0 + i % 16], patch[i]);
}

template __global__ void splitk<32>(const half*, const half*, float*, int, int, int);

void launch(const half* A, const half* B, float* C, int M, int N, int K)
{
    cudaMemset(C, 0, sizeof(float) * M * N);
    dim3 grid(N / 16, M / 16, (K + 31) / 32);
    splitk<32><<<grid, 32>>>(A, B, C, M, N, K);
}
