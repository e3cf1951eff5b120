// Split-K GEMM: each z makes a part of the sum in the workspace, the last block to come adds them up and the bias.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void splitk_semaphore(const half *A, const half *B, const half *bias, float *workspace, int *semaphores,
                                 half *C, int M, int N, int K) {
    __shared__ __align__(32) half a_tile[32 * 24];
    __shared__ __align__(32) half b_tile[16 * 40];
    __shared__ __align__(32) float c_tile[32 * 36];
    __shared__ bool is_last;

    const int tid = threadIdx.x;
    const int warp_m = tid / 64, warp_n = tid / 32 % 2;
    const int m0 = blockIdx.x * 32, n0 = blockIdx.y * 32;
    const int split = blockIdx.z, splits = gridDim.z;

    // whole steps of 16 for each split
    const int per_split = ((K + splits - 1) / splits + 15) / 16 * 16;
    const int k_begin = split * per_split;
    const int k_end = min(K, k_begin + per_split);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = k_begin; k < k_end; k += 16) {
        for (int i = tid; i < 32 * 16; i += 128) {
            int r = i / 16, c = i % 16;
            a_tile[r * 24 + c] = (m0 + r < M && k + c < K) ? A[(m0 + r) * K + k + c] : __float2half(0.f);
        }
        for (int i = tid; i < 16 * 32; i += 128) {
            int r = i / 32, c = i % 32;
            b_tile[r * 40 + c] = (k + r < K && n0 + c < N) ? B[(k + r) * N + n0 + c] : __float2half(0.f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, a_tile + warp_m * 16 * 24, 24);
        wmma::load_matrix_sync(b, b_tile + warp_n * 16, 40);
        wmma::mma_sync(acc, a, b, acc);
        __syncthreads();
    }
    wmma::store_matrix_sync(c_tile + warp_m * 16 * 36 + warp_n * 16, acc, 36, wmma::mem_row_major);
    __syncthreads();

    float *mine = workspace + (size_t)split * M * N;
    for (int i = tid; i < 32 * 32; i += 128) {
        int r = m0 + i / 32, c = n0 + i % 32;
        if (r < M && c < N) mine[r * N + c] = c_tile[i / 32 * 36 + i % 32];
    }
    __threadfence();
    __syncthreads();
    if (tid == 0) {
        int *semaphore = semaphores + blockIdx.y * gridDim.x + blockIdx.x;
        is_last = atomicAdd(semaphore, 1) == splits - 1;
        if (is_last) *semaphore = 0;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();

    for (int i = tid; i < 32 * 32; i += 128) {
        int r = m0 + i / 32, c = n0 + i % 32;
        if (r >= M || c >= N) continue;
        float sum = __half2float(bias[c]);
        for (int s = 0; s < splits; s++) sum += workspace[((size_t)s * M + r) * N + c];
        C[r * N + c] = __float2half(sum);
    }
}
