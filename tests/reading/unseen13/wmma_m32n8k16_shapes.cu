#include <mma.h>
using namespace nvcuda;

// Tall tiles: 32x8x16 fragments.  A row-major, B column-major, C row-major.
constexpr int TM = 32;
constexpr int TN = 8;
constexpr int TK = 16;

__global__ void gemm_m32n8k16(const half *A, const half *B, half *C, const int M, const int N, const int K)
{
    const int tiles_n = N / TN;
    const int tile = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
    if (tile >= (M / TM) * tiles_n) return;
    const int row = (tile / tiles_n) * TM;
    const int col = (tile % tiles_n) * TN;

    wmma::fragment<wmma::matrix_a, TM, TN, TK, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, TM, TN, TK, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, TM, TN, TK, half> fc;
    wmma::fill_fragment(fc, __float2half(0.0f));
    for (int k = 0; k < K; k += TK)
    {
        wmma::load_matrix_sync(fa, A + row * K + k, K);
        wmma::load_matrix_sync(fb, B + col * K + k, K);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(C + row * N + col, fc, N, wmma::mem_row_major);
}
