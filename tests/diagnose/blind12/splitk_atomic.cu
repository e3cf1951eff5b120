// C += alpha * op(A) * op(B), BLAS conventions (column-major, lda/ldb/ldc), split along K with atomics.
// Fragments come straight from global memory; M, N, K are multiples of 16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

enum class Op { N, T };

template <Op op> struct LayoutOf { using type = wmma::col_major; };
template <> struct LayoutOf<Op::T> { using type = wmma::row_major; };

// element (i, j) of op(X)
template <Op op>
__device__ size_t at(int i, int j, int ld) {
    return op == Op::N ? (size_t)j * ld + i : (size_t)i * ld + j;
}

template <typename T, Op opA, Op opB, int MT, int NT>
__global__ void gemm_splitk(int M, int N, int K, float alpha, const T *A, int lda, const T *B, int ldb, float *C, int ldc) {
    const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // each warp has MT x NT tiles; warps of a block lie along M
    const int m = (blockIdx.x * warps + warp) * MT * 16;
    const int n = blockIdx.y * NT * 16;
    if (m >= M) return;

    const int steps = K / 16;
    const int share = (steps + gridDim.z - 1) / gridDim.z;
    const int begin = blockIdx.z * share, end = min(steps, begin + share);
    if (begin >= end) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, typename LayoutOf<opA>::type> a[MT];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, typename LayoutOf<opB>::type> b[NT];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[MT][NT];

#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) wmma::fill_fragment(c[i][j], 0.0f);

    for (int s = begin; s < end; s++) {
        const int k = s * 16;
#pragma unroll
        for (int i = 0; i < MT; i++)
            if (m + i * 16 < M) wmma::load_matrix_sync(a[i], A + at<opA>(m + i * 16, k, lda), lda);
#pragma unroll
        for (int j = 0; j < NT; j++)
            if (n + j * 16 < N) wmma::load_matrix_sync(b[j], B + at<opB>(k, n + j * 16, ldb), ldb);
#pragma unroll
        for (int i = 0; i < MT; i++)
#pragma unroll
            for (int j = 0; j < NT; j++)
                if (m + i * 16 < M && n + j * 16 < N) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
    }

    extern __shared__ __align__(32) float scratch[];
    float *mine = scratch + warp * 256;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            if (m + i * 16 >= M || n + j * 16 >= N) continue;
            wmma::store_matrix_sync(mine, c[i][j], 16, wmma::mem_col_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32)
                atomicAdd(&C[(size_t)(n + j * 16 + e / 16) * ldc + m + i * 16 + e % 16], alpha * mine[e]);
            __syncwarp();
        }
}

template __global__ void gemm_splitk<__nv_bfloat16, Op::N, Op::T, 2, 2>(int, int, int, float, const __nv_bfloat16 *, int,
                                                                        const __nv_bfloat16 *, int, float *, int);
template __global__ void gemm_splitk<half, Op::T, Op::N, 1, 3>(int, int, int, float, const half *, int, const half *, int,
                                                               float *, int);
