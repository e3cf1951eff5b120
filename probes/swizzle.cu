// What comes back of a swizzled tile: read with the same swizzle, with another, with none, by wmma?
// Run: wmmadiag probe swizzle
#include <mma.h>
using namespace nvcuda;
__device__ int place(int row, int chunk, int how) {  // chunks of 8 halves, 8 in a row
    int moved = how == 0 ? chunk : how == 1 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 7);
    return row * 64 + moved * 8;
}
extern "C" __global__ void swizzle(const half* X, half* back, const half* one, float* seen) {
    __shared__ __align__(32) half s[16 * 64];
    for (int i = threadIdx.x; i < 128; i += 32)
        for (int e = 0; e < 8; ++e) s[place(i / 8, i % 8, 1) + e] = X[i * 8 + e];
    __syncthreads();
    for (int how = 0; how < 3; ++how)
        for (int i = threadIdx.x; i < 128; i += 32)
            for (int e = 0; e < 8; ++e) back[how * 1024 + i * 8 + e] = s[place(i / 8, i % 8, how) + e];
    for (int i = threadIdx.x; i < 128; i += 32) {  // ldmatrix' way: one row of 16 bytes from each lane's own address
        unsigned value, address = (unsigned)__cvta_generic_to_shared(s + place(i % 8, i / 32, 1));
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(value) : "r"(address));
        int row = threadIdx.x / 4, column = i / 32 * 8 + threadIdx.x % 4 * 2;
        *(unsigned*)(back + 3072 + row * 64 + column) = value;
    }
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> d;
    wmma::fill_fragment(d, 0.0f);
    wmma::load_matrix_sync(a, s, 64);
    wmma::load_matrix_sync(b, one, 16);
    wmma::mma_sync(d, a, b, d);
    wmma::store_matrix_sync(seen, d, 16, wmma::mem_row_major);
}
