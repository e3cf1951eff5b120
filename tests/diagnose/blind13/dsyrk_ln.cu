// DSYRK, uplo = 'L', trans = 'N':  C <- alpha * A * A^T + beta * C, lower triangle only, column-major as in BLAS.
// FP64 tensor cores (m8n8k4); 32 x 32 of C per block of 4 warps.
#include <mma.h>

namespace {

constexpr int NB = 32;        // block of C
constexpr int KB = 16;        // depth of a panel
constexpr int LDS = NB + 4;

using namespace nvcuda;
typedef wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::col_major> frag_a;
typedef wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> frag_b;
typedef wmma::fragment<wmma::accumulator, 8, 8, 4, double> frag_c;

// panel(i, l) = A(row0 + i, l0 + l), zero beyond the matrix
__device__ void fetch_panel(double *panel, const double *A, int lda, int row0, int l0, int n, int k)
{
    for (int idx = threadIdx.x; idx < NB * KB; idx += blockDim.x) {
        const int i = idx % NB;
        const int l = idx / NB;
        double a = 0.0;
        if (row0 + i < n && l0 + l < k)
            a = A[(row0 + i) + (size_t)(l0 + l) * lda];
        panel[i + l * LDS] = a;
    }
}

} // namespace

extern "C" __global__ void dsyrk_ln(int n, int k, double alpha, const double *A, int lda,
                                    double beta, double *C, int ldc)
{
    const int bi = blockIdx.x, bj = blockIdx.y;
    if (bj > bi) return;                         // strictly above the diagonal

    __shared__ __align__(32) double Pi[KB * LDS], Pj[KB * LDS];
    __shared__ __align__(32) double tile[NB * LDS];

    const int warp = threadIdx.x / 32;
    const int wi = (warp % 2) * 16, wj = (warp / 2) * 16;

    frag_c c[2][2];
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++)
            wmma::fill_fragment(c[p][q], 0.0);

    for (int l0 = 0; l0 < k; l0 += KB) {
        fetch_panel(Pi, A, lda, bi * NB, l0, n, k);
        fetch_panel(Pj, A, lda, bj * NB, l0, n, k);
        __syncthreads();

        for (int l = 0; l < KB; l += 4) {
            frag_a a[2];
            frag_b b[2];
            for (int p = 0; p < 2; p++)
                wmma::load_matrix_sync(a[p], &Pi[(wi + p * 8) + l * LDS], LDS);
            for (int q = 0; q < 2; q++)
                wmma::load_matrix_sync(b[q], &Pj[(wj + q * 8) + l * LDS], LDS);
            for (int p = 0; p < 2; p++)
                for (int q = 0; q < 2; q++)
                    wmma::mma_sync(c[p][q], a[p], b[q], c[p][q]);
        }
        __syncthreads();
    }

    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++)
            wmma::store_matrix_sync(&tile[(wi + p * 8) + (wj + q * 8) * LDS], c[p][q], LDS, wmma::mem_col_major);
    __syncthreads();

    for (int idx = threadIdx.x; idx < NB * NB; idx += blockDim.x) {
        const int i = bi * NB + idx % NB;
        const int j = bj * NB + idx / NB;
        if (i >= n || j > i) continue;
        double *out = &C[i + (size_t)j * ldc];
        const double sum = alpha * tile[idx % NB + (idx / NB) * LDS];
        *out = beta == 0.0 ? sum : sum + beta * *out;
    }
}
