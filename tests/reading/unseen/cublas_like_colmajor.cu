// A drop-in for cublasHgemm (fp32 compute) for the four transpose combinations.
// COLUMN-MAJOR storage like BLAS:  C := alpha * op(A) * op(B) + beta * C
//
//   op(A) is m x k, op(B) is k x n, C is m x n
//   element (i, j) of a matrix X with leading dimension ldx is X[i + j * ldx]
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdio>
#include <stdexcept>
#include <string>

enum class Trans : char { N = 'N', T = 'T' };

template <Trans t>
struct Op {
    // fragment layout of the operand in the (padded) shared tile and how to read
    // element (row, col) of op(X)
    static __device__ __forceinline__ half at(const half *x, int ld, int row, int col) {
        if constexpr (t == Trans::N) return x[row + (size_t)col * ld];
        else return x[col + (size_t)row * ld];
    }
};

namespace cfg {
constexpr int M_TILE = 64, N_TILE = 64, K_TILE = 16;
constexpr int LD_A = M_TILE + 8;   // shared A: column-major, M contiguous
constexpr int LD_B = K_TILE + 8;   // shared B: column-major, K contiguous
constexpr int LD_C = M_TILE + 4;
constexpr int N_THREADS = 256;
}

template <Trans TA, Trans TB>
__global__ void __launch_bounds__(cfg::N_THREADS)
hgemm_blas(int m, int n, int k, float alpha, const half *A, int lda, const half *B, int ldb, float beta, half *C,
           int ldc)
{
    using namespace nvcuda::wmma;
    __shared__ __align__(32) half As[cfg::K_TILE * cfg::LD_A];
    __shared__ __align__(32) half Bs[cfg::N_TILE * cfg::LD_B];
    __shared__ __align__(32) float Cs[cfg::N_TILE * cfg::LD_C];

    const int bm = blockIdx.x * cfg::M_TILE;
    const int bn = blockIdx.y * cfg::N_TILE;
    const int w = threadIdx.x / 32;
    const int wm = (w & 3) * 16;
    const int wn = (w >> 2) * 32;

    fragment<accumulator, 16, 16, 16, float> acc[2];
    fill_fragment(acc[0], 0.f);
    fill_fragment(acc[1], 0.f);

    for (int p = 0; p < k; p += cfg::K_TILE) {
        for (int e = threadIdx.x; e < cfg::M_TILE * cfg::K_TILE; e += cfg::N_THREADS) {
            // walk along the contiguous direction of the operand
            const int r = TA == Trans::N ? e % cfg::M_TILE : e / cfg::K_TILE;
            const int c = TA == Trans::N ? e / cfg::M_TILE : e % cfg::K_TILE;
            As[r + c * cfg::LD_A] = (bm + r < m && p + c < k) ? Op<TA>::at(A, lda, bm + r, p + c) : half(0.f);
        }
        for (int e = threadIdx.x; e < cfg::N_TILE * cfg::K_TILE; e += cfg::N_THREADS) {
            const int r = TB == Trans::N ? e % cfg::K_TILE : e / cfg::N_TILE;
            const int c = TB == Trans::N ? e / cfg::K_TILE : e % cfg::N_TILE;
            Bs[r + c * cfg::LD_B] = (p + r < k && bn + c < n) ? Op<TB>::at(B, ldb, p + r, bn + c) : half(0.f);
        }
        __syncthreads();

        fragment<matrix_a, 16, 16, 16, half, col_major> fa;
        load_matrix_sync(fa, As + wm, cfg::LD_A);
        for (int j = 0; j < 2; ++j) {
            fragment<matrix_b, 16, 16, 16, half, col_major> fb;
            load_matrix_sync(fb, Bs + (wn + j * 16) * cfg::LD_B, cfg::LD_B);
            mma_sync(acc[j], fa, fb, acc[j]);
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; ++j)
        store_matrix_sync(Cs + wm + (wn + j * 16) * cfg::LD_C, acc[j], cfg::LD_C, mem_col_major);
    __syncthreads();

    for (int e = threadIdx.x; e < cfg::M_TILE * cfg::N_TILE; e += cfg::N_THREADS) {
        const int r = e % cfg::M_TILE, c = e / cfg::M_TILE;
        if (bm + r < m && bn + c < n) {
            half *dst = C + bm + r + (size_t)(bn + c) * ldc;
            float v = alpha * Cs[r + c * cfg::LD_C];
            if (beta != 0.f) v += beta * __half2float(*dst);
            *dst = __float2half(v);
        }
    }
}

void hgemm(char transa, char transb, int m, int n, int k, float alpha, const half *A, int lda, const half *B, int ldb,
           float beta, half *C, int ldc, cudaStream_t stream = 0)
{
    const dim3 grid((m + cfg::M_TILE - 1) / cfg::M_TILE, (n + cfg::N_TILE - 1) / cfg::N_TILE);
    const std::string key{transa, transb};
    if (key == "NN")
        hgemm_blas<Trans::N, Trans::N><<<grid, cfg::N_THREADS, 0, stream>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    else if (key == "NT")
        hgemm_blas<Trans::N, Trans::T><<<grid, cfg::N_THREADS, 0, stream>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    else if (key == "TN")
        hgemm_blas<Trans::T, Trans::N><<<grid, cfg::N_THREADS, 0, stream>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    else if (key == "TT")
        hgemm_blas<Trans::T, Trans::T><<<grid, cfg::N_THREADS, 0, stream>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
    else
        throw std::invalid_argument("hgemm: bad trans flags " + key);
}
