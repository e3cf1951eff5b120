#include <cuda_fp16.h>
#include <mma.h>
// all-half GEMM (fp16 accumulators), A stored K x M (column major), wide 32x8 fragments
using namespace nvcuda::wmma;
typedef fragment<matrix_a, 32, 8, 16, half, row_major> FragA;
typedef fragment<matrix_b, 32, 8, 16, half, row_major> FragB;
typedef fragment<accumulator, 32, 8, 16, half> FragC;

extern "C" __global__ void tn_gemm_h(const half *A, const half *B, half *C, int M, int N, int K)
{
    int wid = (threadIdx.x >> 5) + blockIdx.x * (blockDim.x >> 5);
    int tiles_n = N / 8;
    int tm = wid / tiles_n, tn = wid % tiles_n;
    if (tm >= M / 32) return;

    FragC acc;
    fill_fragment(acc, __float2half(0.0f));
    const half *a = A + tm * 32;
    const half *b = B + tn * 8;
    for (int k = 0; k < K; k += 16, a += 16 * M, b += 16 * N) {
        FragA fa; FragB fb;
        load_matrix_sync(fa, a, M);
        load_matrix_sync(fb, b, N);
        mma_sync(acc, fa, fb, acc);
    }
    store_matrix_sync(C + tm * 32 * N + tn * 8, acc, N, mem_row_major);
}
