#include <cstdio>
#include <mma.h>
using namespace nvcuda;
__global__ void wmma_ker(half *a, half *b, float *c) {
   wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a_frag;
   wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
   wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag;
   wmma::fill_fragment(c_frag, 0.0f);
   wmma::load_matrix_sync(a_frag, a, 16);
   wmma::load_matrix_sync(b_frag, b, 16);
   wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
   wmma::store_matrix_sync(c, c_frag, 16, wmma::mem_row_major);
}
int main() {
  half *da, *db; float *dc;
  cudaMalloc(&da, 256 * sizeof(half)); cudaMalloc(&db, 256 * sizeof(half)); cudaMalloc(&dc, 256 * sizeof(float));
  wmma_ker<<<1, 32>>>(da, db, dc);
  cudaDeviceSynchronize();
}
