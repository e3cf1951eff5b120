// Split-K half GEMM: every z-slice writes its partial sums, a second kernel adds them up.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

static constexpr int TM = 32;
static constexpr int TN = 32;
static constexpr int TK = 16;

__global__ void splitk_partial(const __half *A, const __half *B, float *partial, int M, int N, int K, int k_per_split) {
    using namespace nvcuda;
    const int warp = threadIdx.x >> 5;
    const int m0 = blockIdx.x * TM + (warp & 1) * 16;
    const int n0 = blockIdx.y * TN + (warp >> 1) * 16;
    const int k_begin = blockIdx.z * k_per_split;
    const int k_end = min(K, k_begin + k_per_split);
    if (m0 >= M || n0 >= N) return;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = k_begin; k < k_end; k += TK) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + m0 * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + n0, N);
        wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(partial + (size_t)blockIdx.z * M * N + m0 * N + n0, acc, N, wmma::mem_row_major);
}

__global__ void splitk_reduce(const float *partial, __half *C, int MN, int splits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= MN) return;
    float s = 0.f;
    for (int z = 0; z < splits; ++z) s += partial[(size_t)z * MN + i];
    C[i] = __float2half(s);
}

extern "C" int hgemm_splitk(const void *a, const void *b, void *c, void *workspace, int m, int n, int k, int splits,
                            cudaStream_t stream) {
    if (m % 16 || n % 16 || k % 16) return -1;
    int k_per_split = ((k + splits - 1) / splits + TK - 1) / TK * TK;
    dim3 grid((m + TM - 1) / TM, (n + TN - 1) / TN, splits);
    splitk_partial<<<grid, 128, 0, stream>>>((const __half *)a, (const __half *)b, (float *)workspace, m, n, k,
                                             k_per_split);
    int mn = m * n;
    splitk_reduce<<<(mn + 255) / 256, 256, 0, stream>>>((const float *)workspace, (__half *)c, mn, splits);
    return cudaGetLastError() == cudaSuccess ? 0 : -2;
}
