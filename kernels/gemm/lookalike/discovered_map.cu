// Scales the rows of D by a vector inside the fragments. The map of fragment elements is found at run time:
// a tile that holds its own row numbers is loaded into an accumulator, so nothing about lanes is assumed.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
using Acc = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
extern "C" __global__ void gemm_by_rows(const half* a, const half* b, float* d, int m, int n, int k, float alpha)
{
    __shared__ __align__(32) float index[16 * 24];
    for (int i = threadIdx.x; i < 16 * 24; i += 32) index[i] = (float)(i / 24);
    __syncwarp();
    Acc rows, acc;
    wmma::load_matrix_sync(rows, index, 24, wmma::mem_row_major);
    wmma::fill_fragment(acc, 0.f);
    const int r = blockIdx.y * 16, c = blockIdx.x * 16;
    for (int p = 0; p < k; p += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, a + r * k + p, k);
        wmma::load_matrix_sync(fb, b + p * n + c, n);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    for (int e = 0; e < acc.num_elements; ++e) acc.x[e] *= rows.x[e] < 16.f ? alpha : 0.f;
    // columns by the same trick, elements written one by one
    __syncwarp();
    for (int i = threadIdx.x; i < 16 * 24; i += 32) index[i] = (float)(i % 24);
    __syncwarp();
    Acc cols;
    wmma::load_matrix_sync(cols, index, 24, wmma::mem_row_major);
    for (int e = 0; e < acc.num_elements; ++e) {
        const int rr = r + (int)rows.x[e], cc = c + (int)cols.x[e];
        if (!(rr >= m) && !(cc >= n)) d[(size_t)rr * n + cc] = acc.x[e];
    }
}
