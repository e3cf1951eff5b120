// Single precision on tensor cores: each float is split into two tf32 numbers, three products make up for the fourth.
// C = A B, row major, multiples of 32.

#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragC = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

template <typename Frag>
__device__ void split(Frag &big, Frag &small) {
    for (int i = 0; i < big.num_elements; i++) {
        const float full = big.x[i];
        big.x[i] = wmma::__float_to_tf32(full);
        small.x[i] = wmma::__float_to_tf32(full - big.x[i]);
    }
}

__global__ void sgemm_3xtf32(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, const int M,
                             const int N, const int K) {
    __shared__ alignas(32) float tileA[32][32 + 4];
    __shared__ alignas(32) float tileB[32][32 + 4];

    const int warp = threadIdx.x / 32;
    const int wy = warp / 2 * 16;
    const int wx = warp % 2 * 16;
    const float *blockA = A + blockIdx.y * 32 * K;
    const float *blockB = B + blockIdx.x * 32;

    FragC acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int i = threadIdx.x; i < 32 * 8; i += blockDim.x) {
            const int r = i / 8, c = i % 8 * 4;
            *reinterpret_cast<float4 *>(&tileA[r][c]) = *reinterpret_cast<const float4 *>(&blockA[r * K + k0 + c]);
            *reinterpret_cast<float4 *>(&tileB[r][c]) = *reinterpret_cast<const float4 *>(&blockB[(k0 + r) * N + c]);
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 8) {
            FragA aBig, aSmall;
            FragB bBig, bSmall;
            wmma::load_matrix_sync(aBig, &tileA[wy][k], 36);
            wmma::load_matrix_sync(bBig, &tileB[k][wx], 36);
            split(aBig, aSmall);
            split(bBig, bSmall);
            wmma::mma_sync(acc, aSmall, bBig, acc);
            wmma::mma_sync(acc, aBig, bSmall, acc);
            wmma::mma_sync(acc, aBig, bBig, acc);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(C + (blockIdx.y * 32 + wy) * N + blockIdx.x * 32 + wx, acc, N, wmma::mem_row_major);
}

void sgemm(const float *A, const float *B, float *C, int M, int N, int K) {
    const dim3 grid(N / 32, M / 32);
    sgemm_3xtf32<<<grid, 128>>>(A, B, C, M, N, K);
}
