// C = A·B for the tutorial (docs/tutorial.md): one warp computes one 16×16 tile of C. It has a mistake.
#include <mma.h>

using namespace nvcuda;

__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, K);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(C + row * N + col, sum, N, wmma::mem_row_major);
}

void launch(const half* A, const half* B, float* C, int M, int N, int K)
{
    gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
}
