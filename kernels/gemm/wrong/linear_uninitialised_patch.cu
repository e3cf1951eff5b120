#include <cuda_bf16.h>
#include <mma.h>
/* y = x W^T, any number of rows (batch), features multiples of 16.  bf16 weights. Each warp one 16x16 tile of y. */
using namespace nvcuda;
typedef __nv_bfloat16 T;

__global__ void linear_fwd(const T* x, const T* w, float* y, int rows, int in_features, int out_features)
{
    __shared__ __align__(32) T x_pad[16 * 16];
    __shared__ __align__(32) float y_pad[16 * 16];
    const int r0 = blockIdx.x * 16, c0 = blockIdx.y * 16;
    const bool whole = r0 + 16 <= rows;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> xf;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> wf;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> yf;
    wmma::fill_fragment(yf, 0.0f);
    for (int k = 0; k < in_features; k += 16) {
        if (whole) {
            wmma::load_matrix_sync(xf, x + r0 * in_features + k, in_features);
        } else {
            __syncwarp();
            for (int i = threadIdx.x; i < 16; i += 32)
                x_pad[i] = r0 + i / 16 < rows ? x[(r0 + i / 16) * in_features + k + i % 16] : T(0.0f);
            __syncwarp();
            wmma::load_matrix_sync(xf, x_pad, 16);
        }
        wmma::load_matrix_sync(wf, w + c0 * in_features + k, in_features);
        wmma::mma_sync(yf, xf, wf, yf);
    }
    if (whole) {
        wmma::store_matrix_sync(y + r0 * out_features + c0, yf, out_features, wmma::mem_row_major);
        return;
    }
    wmma::store_matrix_sync(y_pad, yf, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        if (r0 + i / 16 < rows) y[(r0 + i / 16) * out_features + c0 + i % 16] = y_pad[i];
}
