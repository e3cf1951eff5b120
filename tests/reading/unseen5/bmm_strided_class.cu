// Strided batched half GEMM, wrapped in a small class that owns its stream.
#pragma once
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdexcept>
#include <string>

namespace tc {

namespace detail {

inline void throwOnError(cudaError_t e, const char* what) {
    if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

constexpr unsigned kWarp = 32;
constexpr unsigned kTile = 16;
constexpr unsigned kWarpsX = 4;
constexpr unsigned kWarpsY = 2;

// op(A) is m x k, op(B) is k x n. One warp computes one 16 x 16 tile of C.
__global__ void bmmKernel(const __half* A, const __half* B, float* C, unsigned m, unsigned n, unsigned k,
                          unsigned lda, unsigned ldb, unsigned ldc, long long strideA, long long strideB,
                          long long strideC, float alpha, float beta) {
    using namespace nvcuda;
    const unsigned tileCol = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
    const unsigned tileRow = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned row = tileRow * kTile, col = tileCol * kTile;
    if (row >= m || col >= n) return;

    const __half* a = A + blockIdx.z * strideA;
    const __half* b = B + blockIdx.z * strideB;
    float* c = C + blockIdx.z * strideC;

    wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (unsigned i = 0; i < k; i += kTile) {
        wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, __half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, __half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, a + row * lda + i, lda);
        wmma::load_matrix_sync(fb, b + i * ldb + col, ldb);
        wmma::mma_sync(acc, fa, fb, acc);
    }

    wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> old;
    wmma::load_matrix_sync(old, c + row * ldc + col, ldc, wmma::mem_row_major);
#pragma unroll
    for (int i = 0; i < old.num_elements; ++i) old.x[i] = alpha * acc.x[i] + beta * old.x[i];
    wmma::store_matrix_sync(c + row * ldc + col, old, ldc, wmma::mem_row_major);
}

}  // namespace detail

class BatchedGemm {
public:
    BatchedGemm(int m, int n, int k, int batch) : m_(m), n_(n), k_(k), batch_(batch) {
        if (m % 16 || n % 16 || k % 16) throw std::invalid_argument("m, n and k must be multiples of 16");
        detail::throwOnError(cudaStreamCreate(&stream_), "cudaStreamCreate");
    }
    ~BatchedGemm() { cudaStreamDestroy(stream_); }
    BatchedGemm(const BatchedGemm&) = delete;
    BatchedGemm& operator=(const BatchedGemm&) = delete;

    void run(const __half* A, const __half* B, float* C, float alpha = 1.0f, float beta = 0.0f) const {
        const dim3 block(detail::kWarp * detail::kWarpsX, detail::kWarpsY);
        const dim3 grid(divUp(n_, detail::kTile * detail::kWarpsX), divUp(m_, detail::kTile * detail::kWarpsY), batch_);
        detail::bmmKernel<<<grid, block, 0, stream_>>>(A, B, C, m_, n_, k_, k_, n_, n_, (long long)m_ * k_,
                                                       (long long)k_ * n_, (long long)m_ * n_, alpha, beta);
        detail::throwOnError(cudaGetLastError(), "bmmKernel");
    }

    void synchronize() const { detail::throwOnError(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

private:
    static unsigned divUp(unsigned a, unsigned b) { return (a + b - 1) / b; }
    int m_, n_, k_, batch_;
    cudaStream_t stream_;
};

}  // namespace tc
