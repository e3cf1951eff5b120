// README example: the smallest tensor core program. One warp multiplies one 16x16 tile.
//   hello_wmma<<<1, 32>>>(d_a, d_b, d_c);
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;

__global__ void hello_wmma(const half* A, const half* B, float* C) {
  fragment<matrix_a, 16, 16, 16, half, col_major> fa;
  fragment<matrix_b, 16, 16, 16, half, row_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;

  fill_fragment(fc, 0.0f);            // C = 0
  load_matrix_sync(fa, A, 16);
  load_matrix_sync(fb, B, 16);
  mma_sync(fc, fa, fb, fc);           // C += A * B
  store_matrix_sync(C, fc, 16, mem_row_major);
}
