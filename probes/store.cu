// Where can a fragment be stored to? Run: wmmadiag probe store
#include <mma.h>
using namespace nvcuda;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
__device__ void compute(Sum& d, const half* A, const half* B) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fill_fragment(d, 0.0f);
    wmma::load_matrix_sync(a, A, 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(d, a, b, d);
}
extern "C" __global__ void to_global(const half* A, const half* B, float* D) {
    Sum d;
    compute(d, A, B);
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
}
extern "C" __global__ void to_shared(const half* A, const half* B, float* D) {
    __shared__ __align__(32) float s[256];
    Sum d;
    compute(d, A, B);
    wmma::store_matrix_sync(s, d, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 32) D[i] = s[i];
}
extern "C" __global__ void to_local(const half* A, const half* B, float* D) {
    float mine[256];  // each thread has its own
    Sum d;
    compute(d, A, B);
    wmma::store_matrix_sync(mine, d, 16, wmma::mem_row_major);
    for (int i = threadIdx.x; i < 256; i += 32) D[i] = mine[i];
}
