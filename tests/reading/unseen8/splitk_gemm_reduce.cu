#include <cuda_fp16.h>
#include <mma.h>

#include "cuda_runtime.h"

namespace wmma = nvcuda::wmma;

constexpr int BM = 32, BN = 32, BK = 32;

/// Each z block sums its own part of K into partial[z][M][N].
__global__ void gemm_splitk_partial(const __half* __restrict__ A, const __half* __restrict__ B,
                                    float* __restrict__ partial, int M, int N, int K, int k_slice) {
    __shared__ __align__(32) __half As[BM * BK];
    __shared__ __align__(32) __half Bs[BK * BN];
    __shared__ __align__(32) float Cs[BM * BN];
    const int warp = threadIdx.x >> 5;
    const int wm = (warp >> 1) << 4, wn = (warp & 1) << 4;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int kb = blockIdx.z * k_slice, ke = min(K, kb + k_slice);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k0 = kb; k0 < ke; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) {
            int r = i / BK, q = i % BK;
            As[i] = (m0 + r < M && k0 + q < ke) ? A[(m0 + r) * K + k0 + q] : __half(0.0f);
        }
        for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) {
            int r = i / BN, q = i % BN;
            Bs[i] = (k0 + r < ke && n0 + q < N) ? B[(k0 + r) * N + n0 + q] : __half(0.0f);
        }
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::load_matrix_sync(a, As + wm * BK + kk, BK);
            wmma::load_matrix_sync(b, Bs + kk * BN + wn, BN);
            wmma::mma_sync(c, a, b, c);
        }
        __syncthreads();
    }
    wmma::store_matrix_sync(Cs + wm * BN + wn, c, BN, wmma::mem_row_major);
    __syncthreads();
    float* mine = partial + (size_t)blockIdx.z * M * N;
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        int r = m0 + i / BN, q = n0 + i % BN;
        if (r < M && q < N) mine[(size_t)r * N + q] = Cs[i];
    }
}

/// C = sum of the parts, in half.
__global__ void splitk_reduce(const float* __restrict__ partial, __half* __restrict__ C, int MN, int splits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= MN) return;
    float sum = 0.0f;
    for (int s = 0; s < splits; ++s) sum += partial[(size_t)s * MN + i];
    C[i] = __float2half(sum);
}

extern "C" cudaError_t gemm_splitk(const __half* A, const __half* B, __half* C, int M, int N, int K, int splits,
                                   cudaStream_t stream) {
    float* workspace = nullptr;
    cudaError_t err = cudaMallocAsync(&workspace, sizeof(float) * (size_t)splits * M * N, stream);
    if (err != cudaSuccess) return err;
    int k_slice = (K + splits - 1) / splits;
    k_slice = (k_slice + BK - 1) / BK * BK;
    dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM, splits);
    gemm_splitk_partial<<<grid, 128, 0, stream>>>(A, B, workspace, M, N, K, k_slice);
    splitk_reduce<<<(M * N + 255) / 256, 256, 0, stream>>>(workspace, C, M * N, splits);
    cudaFreeAsync(workspace, stream);
    return cudaGetLastError();
}
