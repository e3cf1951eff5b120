// Which tiles are computed by W warps of T tiles? Run: wmmadiag probe coverage
#include <mma.h>
using namespace nvcuda;
__device__ void tile(const half* A, const half* B, float* D, int t) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::fill_fragment(d, 0.0f);
    wmma::load_matrix_sync(a, A + t * 256, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(d, a, b, d);
    wmma::store_matrix_sync(D + t * 256, d, 16, wmma::mem_row_major);
}
extern "C" __global__ void one_each(const half* A, const half* B, float* D, int tiles) {
    int warp = threadIdx.x / 32;
    if (warp < tiles) tile(A, B, D, warp);
}
extern "C" __global__ void stride(const half* A, const half* B, float* D, int tiles) {
    for (int t = threadIdx.x / 32; t < tiles; t += blockDim.x / 32) tile(A, B, D, t);
}
