/* C = alpha * op(A) * op(B) + beta * C, half in and out, any size: edges go through shared memory.
 * A is M x K (lda), B is K x N (ldb), C is M x N (ldc), all row-major. 8 warps, each computing two 16x16 tiles of a
 * 64x64 block. */
#include <cuda_fp16.h>
#include <mma.h>

#define BS 64
#define KS 16

__global__ __launch_bounds__(256, 2)
void gemm_edges(int M, int N, int K, half alpha, const half *A, int lda, const half *B, int ldb, half beta, half *C, int ldc)
{
    using namespace nvcuda;
    __shared__ half As[BS * KS];
    __shared__ half Bs[KS * BS];
    __shared__ float Cs[BS * BS];

    const int bx = blockIdx.x * BS, by = blockIdx.y * BS;
    const int tid = threadIdx.x, warp = tid / 32;
    const int tm = warp / 2, tn = (warp % 2) * 2;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc0, acc1;
    wmma::fill_fragment(acc0, 0.0f);
    wmma::fill_fragment(acc1, 0.0f);

    for (int k = 0; k < K; k += KS) {
        for (int i = tid; i < BS * KS; i += 256) {
            int r = by + i / KS, c = k + i % KS;
            As[i] = r < M && c < K ? A[(long)r * lda + c] : half(0);
            r = k + i / BS; c = bx + i % BS;
            Bs[i] = r < K && c < N ? B[(long)r * ldb + c] : half(0);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b0, b1;
        wmma::load_matrix_sync(a, As + tm * 16 * KS, KS);
        wmma::load_matrix_sync(b0, Bs + tn * 16, BS);
        wmma::load_matrix_sync(b1, Bs + tn * 16 + 16, BS);
        wmma::mma_sync(acc0, a, b0, acc0);
        wmma::mma_sync(acc1, a, b1, acc1);
        __syncthreads();
    }
    wmma::store_matrix_sync(Cs + tm * 16 * BS + tn * 16, acc0, BS, wmma::mem_row_major);
    wmma::store_matrix_sync(Cs + tm * 16 * BS + tn * 16 + 16, acc1, BS, wmma::mem_row_major);
    __syncthreads();
    for (int i = tid; i < BS * BS; i += 256) {
        int r = by + i / BS, c = bx + i % BS;
        if (r < M && c < N) {
            half *p = C + (long)r * ldc + c;
            float v = __half2float(alpha) * Cs[i];
            if (__half2float(beta) != 0.0f) v += __half2float(beta) * __half2float(*p);
            *p = __float2half(v);
        }
    }
}
