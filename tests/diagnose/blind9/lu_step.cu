// One step of right-looking LU with partial pivoting behind the panel's factorisation (getrf, column-major as LAPACK has it):
// laswp on the trailing columns, trsm with the unit lower triangle, and the rank-kb update of what is below, fused.
// A block owns NB_COLS trailing columns, so it needs nobody else's results.
//
//        j0      j0+kb
//   j0   [ L11  | A12 -> U12 = L11^-1 A12        ]
//        [ L21  | A22 -> A22 - L21 U12           ]      TF32 mma.sync.m16n8k8

#include <cuda_runtime.h>

#define NB        16                        // most columns of a panel
#define NB_COLS   32
#define WARPS     4
#define PITCH     (NB_COLS + 8)

#define A_(i, j)  A[(size_t)(j) * lda + (i)]   // element (i, j)
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

static __device__ __forceinline__ unsigned tf32(float x)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

#define MMA_TF32(C, A0, A1, A2, A3, B0, B1)                                                                        \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])                                                  \
                 : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1))

// rows that the panel's pivoting exchanged, exchanged in this block's columns as well
static __device__ void swap_rows(float *A, int lda, const int *ipiv, int j0, int kb, int c0, int ncols)
{
    const int c = threadIdx.x;
    if (c >= ncols) return;
    for (int i = 0; i < kb; ++i) {
        const int p = ipiv[i];                 // row, counted from 0
        if (p != j0 + i) {
            const float t = A_(j0 + i, c0 + c);
            A_(j0 + i, c0 + c) = A_(p, c0 + c);
            A_(p, c0 + c) = t;
        }
    }
}

// U12 of this block's columns: a thread solves one column; rows behind kb are zeros for the update's sake
static __device__ void solve(float (*U)[PITCH], const float (*L)[NB + 1], float *A, int lda, int j0, int kb, int c0, int ncols)
{
    const int c = threadIdx.x;
    if (c >= NB_COLS) return;
    for (int i = 0; i < NB; ++i) {
        float x = 0.0f;
        if (i < kb && c < ncols) {
            x = A_(j0 + i, c0 + c);
            for (int l = 0; l < i; ++l) x -= L[i][l] * U[l][c];
            A_(j0 + i, c0 + c) = x;
        }
        U[i][c] = x;
    }
}

extern "C" __global__ void lu_trailing_step(float *A, int lda, int m, int n, int j0, int kb, const int *ipiv)
{
    __shared__ float L[NB][NB + 1];
    __shared__ float U[NB][PITCH];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int g = lane / 4, t = lane % 4;
    const int first = j0 + kb;                          // first row and column of the trailing matrix
    const int c0 = first + blockIdx.x * NB_COLS;
    const int ncols = min(NB_COLS, n - c0);

    for (int e = tid; e < NB * NB; e += WARPS * 32) {
        const int i = e % NB, l = e / NB;               // along a column
        L[i][l] = (i < kb && l < i) ? A_(j0 + i, j0 + l) : 0.0f;
    }
    swap_rows(A, lda, ipiv, j0, kb, c0, ncols);
    __syncthreads();
    solve(U, L, A, lda, j0, kb, c0, ncols);
    __syncthreads();

    unsigned b[NB / 8][NB_COLS / 8][2];
#pragma unroll
    for (int k = 0; k < NB / 8; ++k)
#pragma unroll
        for (int q = 0; q < NB_COLS / 8; ++q) {
            b[k][q][0] = tf32(U[k * 8 + t][q * 8 + g]);
            b[k][q][1] = tf32(U[k * 8 + t + 4][q * 8 + g]);
        }

    for (int strip = warp; strip < CEIL_DIV(m - first, 16); strip += WARPS) {
        const int r0 = first + strip * 16;
        float acc[NB_COLS / 8][4];
#pragma unroll
        for (int q = 0; q < NB_COLS / 8; ++q)
            for (int e = 0; e < 4; ++e) acc[q][e] = 0.0f;

#pragma unroll
        for (int k = 0; k < NB / 8; ++k) {
            unsigned a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = r0 + g + e % 2 * 8, col = k * 8 + t + e / 2 * 4;
                a[e] = (row < m && col < kb) ? tf32(A_(row, j0 + col)) : 0u;
            }
#pragma unroll
            for (int q = 0; q < NB_COLS / 8; ++q) MMA_TF32(acc[q], a[0], a[1], a[2], a[3], b[k][q][0], b[k][q][1]);
        }

#pragma unroll
        for (int q = 0; q < NB_COLS / 8; ++q)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = r0 + g + e / 2 * 8, col = q * 8 + t * 2 + e % 2;
                if (row < m && col < ncols) A_(row, c0 + col) -= acc[q][e];
            }
    }
}
