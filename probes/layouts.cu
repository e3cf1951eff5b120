// What do row_major and col_major read, for each leading dimension and base? Run: wmmadiag probe layouts
#include <mma.h>
using namespace nvcuda;
template <class Layout>
__device__ void read(const half* from, int ldm, const half* one, float* D) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, Layout> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::fill_fragment(d, 0.0f);
    wmma::load_matrix_sync(a, from, ldm);
    wmma::load_matrix_sync(b, one, 16);
    wmma::mma_sync(d, a, b, d);  // A times the identity: what the fragment holds
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
}
extern "C" __global__ void layouts(const half* X, const half* one, float* D, int offset, int ldm, int col, int shared) {
    __shared__ __align__(32) half s[1024];
    for (int i = threadIdx.x; i < 1024; i += 32) s[i] = X[i];
    __syncthreads();
    // Spelled out, so that the compiler sees which memory each load reads: the rules differ.
    if (shared && col) read<wmma::col_major>(s + offset, ldm, one, D);
    else if (shared) read<wmma::row_major>(s + offset, ldm, one, D);
    else if (col) read<wmma::col_major>(X + offset, ldm, one, D);
    else read<wmma::row_major>(X + offset, ldm, one, D);
}
