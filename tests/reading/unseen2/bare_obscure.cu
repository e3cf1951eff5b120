#include <mma.h>
using namespace nvcuda;

// one warp per 16x16 tile of the result
__global__ void tensorop(half *in1, half *in2, float *res, int rows, int cols, int inner) {
    int wx = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int wy = blockIdx.y * blockDim.y + threadIdx.y;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f1;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> f2;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f3;
    wmma::fill_fragment(f3, 0.0f);
    for (int i = 0; i < inner; i += 16) {
        int r = wx * 16, c = wy * 16;
        if (r < rows && c < cols && i < inner) {
            wmma::load_matrix_sync(f1, in1 + r * inner + i, inner);
            wmma::load_matrix_sync(f2, in2 + i * cols + c, cols);
            wmma::mma_sync(f3, f1, f2, f3);
        }
    }
    int r = wx * 16, c = wy * 16;
    if (r < rows && c < cols)
        wmma::store_matrix_sync(res + r * cols + c, f3, cols, wmma::mem_row_major);
}
