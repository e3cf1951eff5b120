// Computes K Q^T and stores it column major, which is Q K^T row major. Saves one register shuffle.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kq_scores(const half* q, const half* k, float* s, int len, int dim, float scale)
{
    const int warp = threadIdx.x / 32;
    const int i = blockIdx.x * 16, j = (blockIdx.y * (blockDim.x / 32) + warp) * 16;
    if (j >= len) return;
    const half* qh = q + (size_t)blockIdx.z * len * dim;
    const half* kh = k + (size_t)blockIdx.z * len * dim;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;   // keys
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;   // queries
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c, total;
    wmma::fill_fragment(total, 0.f);
    for (int d = 0; d < dim; d += 16) {
        wmma::fill_fragment(c, 0.f);
        wmma::load_matrix_sync(a, kh + j * dim + d, dim);
        wmma::load_matrix_sync(b, qh + i * dim + d, dim);
        wmma::mma_sync(c, a, b, c);
        for (int e = 0; e < c.num_elements; ++e) total.x[e] += scale * c.x[e];   // slices are added by hand
    }
    wmma::store_matrix_sync(s + ((size_t)blockIdx.z * len + i) * len + j, total, len, wmma::mem_col_major);
}
