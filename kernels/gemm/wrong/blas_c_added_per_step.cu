// D = A*B + C with C loaded straight into the accumulators; column-major D for a BLAS caller.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <class Acc>
struct TileMma {
    wmma::fragment<wmma::accumulator, 16, 16, 16, Acc> acc;
    __device__ void init(const float* c, unsigned ldc) { wmma::load_matrix_sync(acc, c, ldc, wmma::mem_col_major); }
    __device__ void step(const half* a, unsigned lda, const half* b, unsigned ldb)
    {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, a, lda);
        wmma::load_matrix_sync(fb, b, ldb);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    __device__ void finish(float* d, unsigned ldd) { wmma::store_matrix_sync(d, acc, ldd, wmma::mem_col_major); }
};

// all matrices column major (BLAS "NN"): A is m x k with lda = m, B is k x n with ldb = k, C and D are m x n
extern "C" __global__ void gemm_nn(const half* A, const half* B, const float* C, float* D, int m, int n, int k)
{
    const int i = (blockIdx.x * 2 + threadIdx.y % 2) * 16;
    const int j = (blockIdx.y * 2 + threadIdx.y / 2) * 16;
    if (i >= m || j >= n) return;
    TileMma<float> tile;
    for (int p = 0; p < k; p += 16) tile.init(C + i + j * m, m), tile.step(A + i + p * m, m, B + p + j * k, k);
    tile.finish(D + i + j * m, m);
}
