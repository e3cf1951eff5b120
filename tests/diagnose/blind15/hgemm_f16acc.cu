// Tensor core GEMM, step 4: 128-bit loads, the next tile waits in registers while this one is multiplied.
// C = A * B, everything row-major and half, the sums too.  N and K are multiples of 8.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define BM 64
#define BN 64
#define BK 32
#define PAD 8
#define FLOAT4(p) (*(float4 *)(&(p)))
#define CFLOAT4(p) (*(const float4 *)(&(p)))

__global__ void hgemm_step4(const half *A, const half *B, half *C, int M, int N, int K)
{
    __shared__ __align__(32) half s_a[BM][BK + PAD];
    __shared__ __align__(32) half s_b[BK][BN + PAD];
    __shared__ __align__(32) half s_c[BM][BN + PAD];

    const int tid = threadIdx.x;
    const int wid = tid / 32;
    const int warp_m = wid / 2;  // 2 x 2 warps, 32 x 32 each
    const int warp_n = wid % 2;
    const int by = blockIdx.y * BM;
    const int bx = blockIdx.x * BN;

    // A: 64 rows of 4 float4; each thread takes two of them, 32 rows apart
    const int a_row = tid / 4;
    const int a_col = tid % 4 * 8;
    // B: 32 rows of 8 float4; each thread takes two of them, 16 rows apart
    const int b_row = tid / 8;
    const int b_col = tid % 8 * 8;

    const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
    float4 r_a[2], r_b[2];

    fragment<accumulator, 16, 16, 16, half> acc[2][2];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            fill_fragment(acc[i][j], __float2half(0.f));

#pragma unroll
    for (int i = 0; i < 2; i++) {
        r_a[i] = (by + a_row + i * 32 < M && a_col < K) ? CFLOAT4(A[(by + a_row + i * 32) * K + a_col]) : zero;
        r_b[i] = (b_row + i * 16 < K && bx + b_col < N) ? CFLOAT4(B[(b_row + i * 16) * N + bx + b_col]) : zero;
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            FLOAT4(s_a[a_row + i * 32][a_col]) = r_a[i];
            FLOAT4(s_b[b_row + i * 16][b_col]) = r_b[i];
        }
        __syncthreads();

        const int next = k0 + BK;
        if (next < K) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int row = by + a_row + i * 32;
                const int depth = next + b_row + i * 16;
                r_a[i] = (row < M && next + a_col < K) ? CFLOAT4(A[row * K + next + a_col]) : zero;
                r_b[i] = (depth < K && bx + b_col < N) ? CFLOAT4(B[depth * N + bx + b_col]) : zero;
            }
        }

        fragment<matrix_a, 16, 16, 16, half, row_major> fa[2];
        fragment<matrix_b, 16, 16, 16, half, row_major> fb[2];
#pragma unroll
        for (int kk = 0; kk < BK; kk += 16) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load_matrix_sync(fa[i], &s_a[warp_m * 32 + i * 16][kk], BK + PAD);
                load_matrix_sync(fb[i], &s_b[kk][warp_n * 32 + i * 16], BN + PAD);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            store_matrix_sync(&s_c[warp_m * 32 + i * 16][warp_n * 32 + j * 16], acc[i][j], BN + PAD, mem_row_major);
    __syncthreads();

    for (int idx = tid; idx < BM * BN / 8; idx += blockDim.x) {
        const int row = idx / (BN / 8);
        const int col = idx % (BN / 8) * 8;
        if (by + row < M && bx + col < N)
            FLOAT4(C[(by + row) * N + bx + col]) = FLOAT4(s_c[row][col]);
    }
}
