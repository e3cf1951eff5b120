// How is Q·Kᵀ formed? K as it lies (rows are keys) and transposed, read both ways. Run: wmmadiag probe transpose
#include <mma.h>
using namespace nvcuda;
template <class Layout>
__device__ void scores(const half* Q, const half* K, int ldm, float* S) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, Layout> k;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.0f);
    wmma::load_matrix_sync(q, Q, 16);
    wmma::load_matrix_sync(k, K, ldm);
    wmma::mma_sync(s, q, k, s);
    wmma::store_matrix_sync(S, s, 16, wmma::mem_row_major);
}
extern "C" __global__ void transpose(const half* Q, const half* K, float* S) {
    __shared__ __align__(32) half plain[16 * 24], turned[16 * 24];
    for (int i = threadIdx.x; i < 256; i += 32) {
        plain[i / 16 * 24 + i % 16] = K[i];
        turned[i % 16 * 24 + i / 16] = K[i];
    }
    __syncthreads();
    scores<wmma::col_major>(Q, plain, 24, S);
    scores<wmma::row_major>(Q, turned, 24, S + 256);
    scores<wmma::row_major>(Q, plain, 24, S + 512);
    scores<wmma::col_major>(Q, turned, 24, S + 768);
}
