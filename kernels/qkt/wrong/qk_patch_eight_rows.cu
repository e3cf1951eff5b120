// Q K^T for any head dim: whole slices straight from global memory, the last, short one through a zero padded patch.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;

extern "C" __global__ void __launch_bounds__(32) qk_any(const half* q, const half* k, float* s, int nq, int nk, int dim, int ld)
{
    __shared__ __align__(32) half patch[2][16][8];
    const int tq = blockIdx.y * 16, tk = blockIdx.x * 16;
    const half* qp = q + ((long)blockIdx.z * nq + tq) * ld;
    const half* kp = k + ((long)blockIdx.z * nk + tk) * ld;
    fragment<accumulator, 16, 16, 16, float> acc;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fill_fragment(acc, 0.f);
    int d = 0;
    for (; d + 16 <= dim; d += 16) {
        load_matrix_sync(fa, qp + d, ld);
        load_matrix_sync(fb, kp + d, ld);
        mma_sync(acc, fa, fb, acc);
    }
    if (d < dim) {
        for (int i = threadIdx.x; i < 128; i += 32) {
            const int r = i / 8, c = i % 8;
            patch[0][r][c] = d + c < dim ? qp[r * ld + d + c] : __float2half(0.f);
            patch[1][r][c] = d + c < dim ? kp[r * ld + d + c] : __float2half(0.f);
        }
        __syncwarp();
        load_matrix_sync(fa, &patch[0][0][0], 8);
        load_matrix_sync(fb, &patch[1][0][0], 8);
        mma_sync(acc, fa, fb, acc);
    }
    store_matrix_sync(s + ((long)blockIdx.z * nq + tq) * nk + tk, acc, nk, mem_row_major);
}
