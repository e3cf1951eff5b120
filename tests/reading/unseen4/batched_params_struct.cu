// Strided batched GEMM, arguments in one struct, dispatch over the tile.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdexcept>

struct BatchedGemmParams {
    const half *A;
    const half *B;
    half *C;
    int m, n, k;
    int lda, ldb, ldc;
    long long strideA, strideB, strideC;
    int batch;
};

template <int kTileM, int kTileN>
__global__ void batched_gemm_kernel(const BatchedGemmParams p) {
    using namespace nvcuda;
    constexpr int kWarpsN = kTileN / 16;
    const int batch = blockIdx.z;
    const half *A = p.A + batch * p.strideA;
    const half *B = p.B + batch * p.strideB;
    half *C = p.C + batch * p.strideC;
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.y * kTileM + (warp / kWarpsN) * 16;
    const int col = blockIdx.x * kTileN + (warp % kWarpsN) * 16;
    if (row >= p.m || col >= p.n) return;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc;
    wmma::fill_fragment(acc, __float2half(0.f));
    for (int k = 0; k < p.k; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, A + row * p.lda + k, p.lda);
        wmma::load_matrix_sync(fb, B + k * p.ldb + col, p.ldb);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(C + row * p.ldc + col, acc, p.ldc, wmma::mem_row_major);
}

template <int kTileM, int kTileN>
void launch(const BatchedGemmParams &params, cudaStream_t stream) {
    dim3 grid((params.n + kTileN - 1) / kTileN, (params.m + kTileM - 1) / kTileM, params.batch);
    dim3 block(kTileM / 16 * (kTileN / 16) * 32);
    batched_gemm_kernel<kTileM, kTileN><<<grid, block, 0, stream>>>(params);
}

void batched_hgemm(const half *A, const half *B, half *C, int m, int n, int k, int batch, cudaStream_t stream) {
    if (m % 16 != 0 || n % 16 != 0 || k % 16 != 0) throw std::runtime_error("sizes must be multiples of 16");
    BatchedGemmParams p;
    p.A = A;
    p.B = B;
    p.C = C;
    p.m = m;
    p.n = n;
    p.k = k;
    p.lda = k;
    p.ldb = n;
    p.ldc = n;
    p.strideA = (long long)m * k;
    p.strideB = (long long)k * n;
    p.strideC = (long long)m * n;
    p.batch = batch;
    if (n >= 64)
        launch<32, 64>(p, stream);
    else
        launch<32, 32>(p, stream);
}
