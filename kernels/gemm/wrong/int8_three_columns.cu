// INT8 GEMM with WMMA (imma), C (int32) = A (int8, row) * B (int8, col, stored N x K)
// dynamic shared memory is carved by hand: [ A tile | B tile ]
#include <mma.h>
#include <stdint.h>
using namespace nvcuda::wmma;

#define BM 32
#define BN 64
#define BK 64
#define LDS (BK + 16)
#define SMEM_BYTES (BM * LDS + BN * LDS)

template <typename T>
__device__ inline void stage(T* dst, const T* src, int rows, int r0, int c0, int R, int C)
{
    for (int i = threadIdx.x; i < rows * BK; i += blockDim.x) {
        int r = i / BK, c = i - r * BK;
        dst[r * LDS + c] = (r0 + r < R && c0 + c < C) ? src[(long)(r0 + r) * C + c0 + c] : T(0);
    }
}

__global__ void igemm(const signed char* A, const signed char* B, int* C, int M, int N, int K)
{
    extern __shared__ __align__(32) unsigned char smem[];
    signed char* tileA = reinterpret_cast<signed char*>(smem);
    signed char* tileB = tileA + BM * LDS;

    // 8 warps: 2 (M) x 4 (N)
    int w = threadIdx.x / 32;
    int wy = w / 4 * 16, wx = w % 3 * 16;
    fragment<accumulator, 16, 16, 16, int> c_frag;
    fill_fragment(c_frag, 0);
    for (int kt = 0; kt < (K + BK - 1) / BK; ++kt) {
        stage(tileA, A, BM, blockIdx.y * BM, kt * BK, M, K);
        stage(tileB, B, BN, blockIdx.x * BN, kt * BK, N, K);
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK / 16; ++kk) {
            fragment<matrix_a, 16, 16, 16, signed char, row_major> a_frag;
            fragment<matrix_b, 16, 16, 16, signed char, col_major> b_frag;
            load_matrix_sync(a_frag, tileA + wy * LDS + kk * 16, LDS);
            load_matrix_sync(b_frag, tileB + wx * LDS + kk * 16, LDS);
            mma_sync(c_frag, a_frag, b_frag, c_frag);
        }
        __syncthreads();
    }
    int row = blockIdx.y * BM + wy, col = blockIdx.x * BN + wx;
    if (row + 16 <= M && col + 16 <= N)
        store_matrix_sync(C + row * N + col, c_frag, N, mem_row_major);
}

void run(const int8_t* A, const int8_t* B, int32_t* C, int M, int N, int K)
{
    igemm<<<dim3((N + BN - 1) / BN, (M + BM - 1) / BM), 256, SMEM_BYTES>>>(A, B, C, M, N, K);
}
