// What does an f16 accumulator lose against an f32 one? Run: wmmadiag probe half-sum
#include <mma.h>
using namespace nvcuda;
template <class Total>
__device__ void sum(const half* A, const half* B, int again, int steps, Total* D) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, Total> d;
    wmma::fill_fragment(d, (Total)0.0f);
    for (int k = 0; k < steps; ++k) {
        wmma::load_matrix_sync(a, A + (again ? 0 : k * 256), 16);
        wmma::load_matrix_sync(b, B + (again ? 0 : k * 256), 16);
        wmma::mma_sync(d, a, b, d);
    }
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
}
extern "C" __global__ void half_sum(const half* A, const half* B, int again, int steps, float* wide, half* narrow) {
    sum<float>(A, B, again, steps, wide);
    sum<half>(A, B, again, steps, narrow);
}
