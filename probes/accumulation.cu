// What becomes of an accumulator over k-steps, and over tiles? A is all ones, B holds the k-step's number plus one.
// Run: wmmadiag probe accumulation
#include <mma.h>
using namespace nvcuda;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
__device__ void step(Sum& d, const half* A, const half* B, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, A + k * 16, 64);
    wmma::load_matrix_sync(b, B + k * 256, 16);
    wmma::mma_sync(d, a, b, d);
}
extern "C" __global__ void accumulation(const half* A, const half* B, float* D) {
    __shared__ __align__(32) float O[256];
    Sum d;
    wmma::fill_fragment(d, 0.0f);  // 0: zeroed once
    for (int k = 0; k < 4; ++k) step(d, A, B, k);
    wmma::store_matrix_sync(D, d, 16, wmma::mem_row_major);
    for (int k = 0; k < 4; ++k) {  // 1: zeroed in the loop
        wmma::fill_fragment(d, 0.0f);
        step(d, A, B, k);
    }
    wmma::store_matrix_sync(D + 256, d, 16, wmma::mem_row_major);
    wmma::fill_fragment(d, 0.0f);  // 2: zeroed once, used for two tiles
    for (int tile = 0; tile < 2; ++tile)
        for (int k = 0; k < 4; ++k) step(d, A, B, k);
    wmma::store_matrix_sync(D + 512, d, 16, wmma::mem_row_major);
    for (int mode = 3; mode < 5; ++mode) {  // tiles into shared memory; 3: load, add, store; 4: store
        for (int i = threadIdx.x; i < 256; i += 32) O[i] = 0;
        __syncthreads();
        for (int k = 0; k < 4; ++k) {
            if (mode == 3) wmma::load_matrix_sync(d, O, 16, wmma::mem_row_major);
            else wmma::fill_fragment(d, 0.0f);
            step(d, A, B, k);
            wmma::store_matrix_sync(O, d, 16, wmma::mem_row_major);
            __syncthreads();
        }
        for (int i = threadIdx.x; i < 256; i += 32) D[mode * 256 + i] = O[i];
        __syncthreads();
    }
}
