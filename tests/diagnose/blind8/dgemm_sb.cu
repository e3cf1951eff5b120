// Double precision strided-batched GEMM on DMMA (m8n8k4), column-major as in BLAS:
//     C[i] = alpha * A[i] * B[i] + beta * C[i],  A: M x K, B: K x N, C: M x N
// Tiles of A and B travel by cp.async, 8 bytes each (no alignment is asked of lda, ldb), in STAGES buffers.
#include <cuda_runtime.h>
#include <mma.h>

namespace dg {

constexpr int kTileM = 32;
constexpr int kTileN = 32;
constexpr int kTileK = 8;
constexpr int kStages = 3;
constexpr int kThreads = 128;
constexpr int kLdA = kTileM + 4;    // As[k][m]
constexpr int kLdB = kTileK + 4;    // Bs[n][k]
constexpr int kLdC = kTileM + 4;    // Cs[n][m]

using FragA = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 8, 8, 4, double, nvcuda::wmma::col_major>;
using FragB = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 8, 8, 4, double, nvcuda::wmma::col_major>;
using FragC = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 4, double>;

struct Pipe {
    double a[kStages][kTileK][kLdA];
    double b[kStages][kTileN][kLdB];
};

union Shared {
    Pipe pipe;
    double c[kTileN][kLdC];
};

__device__ __forceinline__ void copy8(double *dst, const double *src, bool valid)
{
    const unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(d), "l"(src), "r"(valid ? 8 : 0));
}

__device__ __forceinline__ void load_a(double (*as)[kLdA], const double *A, long lda, int m0, int k0, int M, int K)
{
    for (int i = threadIdx.x; i < kTileK * kTileM; i += kThreads) {
        const int m = i % kTileM, k = i / kTileM;
        const bool valid = m0 + m < M && k0 + k < K;
        copy8(&as[k][m], valid ? A + (m0 + m) + (k0 + k) * lda : A, valid);
    }
}

__device__ __forceinline__ void load_b(double (*bs)[kLdB], const double *B, long ldb, int k0, int n0, int K, int N)
{
    for (int i = threadIdx.x; i < kTileN * kTileK; i += kThreads) {
        const int k = i % kTileK, n = i / kTileK;
        const bool valid = k0 + k < K && n0 + n < N;
        copy8(&bs[n][k], valid ? B + (k0 + k) + (n0 + n) * ldb : B, valid);
    }
}

__global__ void __launch_bounds__(kThreads)
dgemm_strided_batched(int M, int N, int K, double alpha, const double *A, int lda, long strideA, const double *B, int ldb, long strideB,
                      double beta, double *C, int ldc, long strideC)
{
    __shared__ Shared sh;
    const int warp = threadIdx.x / 32;
    const int wm = warp % 2, wn = warp / 2;
    const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;

    FragC acc[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(acc[i][j], 0.0);

    const int steps = (K + kTileK - 1) / kTileK;
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < steps) {
            load_a(sh.pipe.a[s], A, lda, m0, s * kTileK, M, K);
            load_b(sh.pipe.b[s], B, ldb, s * kTileK, n0, K, N);
        }
        asm volatile("cp.async.commit_group;");
    }

    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
        __syncthreads();

        const int ahead = step + kStages - 1;
        if (ahead < steps) {
            load_a(sh.pipe.a[ahead % kStages], A, lda, m0, ahead * kTileK, M, K);
            load_b(sh.pipe.b[ahead % kStages], B, ldb, ahead * kTileK, n0, K, N);
        }
        asm volatile("cp.async.commit_group;");

        const int now = step % kStages;
#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 4) {
            FragA a[2];
            FragB b[2];
            for (int i = 0; i < 2; ++i) nvcuda::wmma::load_matrix_sync(a[i], &sh.pipe.a[now][kk][wm * 16 + i * 8], kLdA);
            for (int j = 0; j < 2; ++j) nvcuda::wmma::load_matrix_sync(b[j], &sh.pipe.b[now][wn * 16 + j * 8][kk], kLdB);
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) nvcuda::wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
    }

    // the pipeline's memory becomes the tile of C
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            nvcuda::wmma::store_matrix_sync(&sh.c[wn * 16 + j * 8][wm * 16 + i * 8], acc[i][j], kLdC, nvcuda::wmma::mem_col_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
        const int m = i % kTileM, n = i / kTileM;
        if (m0 + m < M && n0 + n < N) {
            double *c = C + (m0 + m) + (long)(n0 + n) * ldc;
            double v = alpha * sh.c[n][m];
            if (beta != 0.0) v += beta * *c;
            *c = v;
        }
    }
}

}  // namespace dg

cudaError_t dgemm_batched(int M, int N, int K, double alpha, const double *A, int lda, long sa, const double *B, int ldb, long sb,
                          double beta, double *C, int ldc, long sc, int batch, cudaStream_t stream)
{
    dim3 grid((M + dg::kTileM - 1) / dg::kTileM, (N + dg::kTileN - 1) / dg::kTileN, batch);
    dg::dgemm_strided_batched<<<grid, dg::kThreads, 0, stream>>>(M, N, K, alpha, A, lda, sa, B, ldb, sb, beta, C, ldc, sc);
    return cudaGetLastError();
}
