// Does one warp's 16x16x16 product equal scalar code, and which product is it? Run: wmmadiag probe product
#include <mma.h>
using namespace nvcuda;
template <class Layout>
__device__ void tile(const half* A, const half* B, float* D) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, Layout> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::fill_fragment(d, 0.0f);
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(d, a, b, d);
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
}
extern "C" __global__ void product(const half* A, const half* B, float* row, float* col, float* scalar) {
    tile<wmma::row_major>(A, B, row);
    tile<wmma::col_major>(A, B, col);
    for (int e = threadIdx.x; e < 256; e += 32) {
        float sum = 0;
        for (int k = 0; k < 16; ++k) sum += __half2float(A[e / 16 * 16 + k]) * __half2float(B[k * 16 + e % 16]);
        scalar[e] = sum;
    }
}
