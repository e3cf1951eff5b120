// kernel: tile
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void tile(const half *a, const half *b, float *c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);  // HERE
  wmma::load_matrix_sync(fb, b, 16);  // HERE
  wmma::mma_sync(fc, fa, fb, fc);  // HERE
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);  // HERE
}
extern "C" void launch_tile(const void *a, const void *b, void *c, cudaStream_t stream) {
  tile<<<1, 32, 0, stream>>>((const half *)a, (const half *)b, (float *)c);
}
extern "C" {
int version(void);
int version(void) { return 3; }
void launch_twice(float *p) {
  for (int i = 0; i < 2; i++) { launch_tile(p, p, p, 0); }
}
}
