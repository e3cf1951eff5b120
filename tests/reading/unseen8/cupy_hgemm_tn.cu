// loaded with cupy.RawModule; C = A^T B, A is [K, M], B is [K, N], both row-major. 128 threads, 64x64 of C per block.
#include <mma.h>
#include <cuda_fp16.h>

extern "C" __global__ __launch_bounds__(128)
void hgemm_tn(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C,
              const int M, const int N, const int K)
{
    using namespace nvcuda;
    __shared__ __align__(16) __half As[16][64 + 8];   // k, m
    __shared__ __align__(16) __half Bs[16][64 + 8];   // k, n

    const int tid = threadIdx.x;
    const int wid = tid / 32;
    const int bm = blockIdx.y * 64;
    const int bn = blockIdx.x * 64;
    const int k_of_thread = tid / 8;
    const int v_of_thread = (tid % 8) * 8;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) wmma::fill_fragment(c[j], 0.0f);

    for (int k = 0; k < K; k += 16) {
        *(uint4*)&As[k_of_thread][v_of_thread] = *(const uint4*)&A[(size_t)(k + k_of_thread) * M + bm + v_of_thread];
        *(uint4*)&Bs[k_of_thread][v_of_thread] = *(const uint4*)&B[(size_t)(k + k_of_thread) * N + bn + v_of_thread];
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::col_major> a;
        wmma::load_matrix_sync(a, &As[0][wid * 16], 72);
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::load_matrix_sync(b, &Bs[0][j * 16], 72);
            wmma::mma_sync(c[j], a, b, c[j]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j)
        wmma::store_matrix_sync(&C[(size_t)(bm + wid * 16) * N + bn + j * 16], c[j], N, wmma::mem_row_major);
}
