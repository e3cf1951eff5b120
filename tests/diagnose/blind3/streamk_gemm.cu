#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <algorithm>
#include <cstdint>
#include <stdexcept>

// Stream-K: the multiply-accumulate iterations of all output tiles are dealt out evenly over a fixed number of blocks.
// A tile that one block makes alone is stored; the others are summed up with atomics, so C has to be cleared before.
//
// C (M x N, float) = A (M x K) * B (N x K)^T

namespace streamk {

struct GemmParams {
    const __half* A;
    const __half* B;
    float* C;
    int M, N, K;
    int lda, ldb, ldc;
    int tiles_n;
    int iters_per_tile;
    int total_iters;
    int iters_per_block;
};

template <int BLOCK_M, int BLOCK_N, int BLOCK_K>
struct Shape {
    static constexpr int kM = BLOCK_M;
    static constexpr int kN = BLOCK_N;
    static constexpr int kK = BLOCK_K;
    static constexpr int kSkew = 8;
    static constexpr int kLd = BLOCK_K + kSkew;
    static constexpr int kWarpsM = BLOCK_M / 16;
    static constexpr int kWarpsN = BLOCK_N / 32;
    static constexpr int kThreads = kWarpsM * kWarpsN * 32;
};

template <typename S>
struct SharedStorage {
    union {
        struct {
            __half A[S::kM][S::kLd];
            __half B[S::kN][S::kLd];
        } operands;
        float C[S::kM][S::kN + 4];
    };
};

template <typename S, int ROWS>
__device__ void load_tile(__half (*dst)[S::kLd], const __half* src, int ld, int row0, int rows, int k0, int k_end) {
    for (int i = threadIdx.x; i < ROWS * S::kK; i += S::kThreads) {
        int r = i / S::kK, c = i % S::kK;
        bool inside = row0 + r < rows && k0 + c < k_end;
        dst[r][c] = inside ? src[int64_t(row0 + r) * ld + k0 + c] : __half(0.0f);
    }
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads) gemm_streamk(GemmParams p) {
    using namespace nvcuda;
    __shared__ __align__(128) SharedStorage<S> smem;

    const int warp = threadIdx.x / 32;
    const int wm = warp / S::kWarpsN;
    const int wn = warp % S::kWarpsN;

    int iter = blockIdx.x * p.iters_per_block;
    const int iter_end = min(iter + p.iters_per_block, p.total_iters);

    while (iter < iter_end) {
        const int tile = iter / p.iters_per_tile;
        const int first = iter - tile * p.iters_per_tile;
        const int last = min(p.iters_per_tile, first + iter_end - iter);
        const int row0 = tile / p.tiles_n * S::kM;
        const int col0 = tile % p.tiles_n * S::kN;

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
        for (auto& f : acc) wmma::fill_fragment(f, 0.0f);

        for (int it = first; it < last; ++it) {
            load_tile<S, S::kM>(smem.operands.A, p.A, p.lda, row0, p.M, it * S::kK, p.K);
            load_tile<S, S::kN>(smem.operands.B, p.B, p.ldb, col0, p.N, it * S::kK, p.K);
            __syncthreads();
            for (int k = 0; k < S::kK; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
                wmma::load_matrix_sync(a, &smem.operands.A[wm * 16][k], S::kLd);
                for (int j = 0; j < 2; ++j) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
                    wmma::load_matrix_sync(b, &smem.operands.B[wn * 32 + j * 16][k], S::kLd);
                    wmma::mma_sync(acc[j], a, b, acc[j]);
                }
            }
            __syncthreads();
        }

        // the accumulators lie where the operands were
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(&smem.C[wm * 16][wn * 32 + j * 16], acc[j], S::kN + 4, wmma::mem_row_major);
        __syncthreads();
        const bool alone = first == 0 && last == p.iters_per_tile;
        for (int i = threadIdx.x; i < S::kM * S::kN; i += S::kThreads) {
            int r = i / S::kN, c = i % S::kN;
            if (row0 + r < p.M && col0 + c < p.N) {
                float* out = p.C + int64_t(row0 + r) * p.ldc + col0 + c;
                if (alone)
                    *out = smem.C[r][c];
                else
                    atomicAdd(out, smem.C[r][c]);
            }
        }
        __syncthreads();
        iter += last - first;
    }
}

using DefaultShape = Shape<32, 64, 32>;

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

void gemm(const __half* A, const __half* B, float* C, int M, int N, int K, int blocks, cudaStream_t stream) {
    using S = DefaultShape;
    GemmParams p;
    p.A = A;
    p.B = B;
    p.C = C;
    p.M = M;
    p.N = N;
    p.K = K;
    p.lda = K;
    p.ldb = K;
    p.ldc = N;
    p.tiles_n = ceil_div(N, S::kN);
    p.iters_per_tile = ceil_div(K, S::kK);
    p.total_iters = ceil_div(M, S::kM) * p.tiles_n * p.iters_per_tile;
    p.iters_per_block = ceil_div(p.total_iters, blocks);
    cudaMemsetAsync(C, 0, sizeof(float) * M * N, stream);
    gemm_streamk<S><<<blocks, S::kThreads, 0, stream>>>(p);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err));
}

}  // namespace streamk

void run_streamk(const __half* A, const __half* B, float* C, int M, int N, int K, cudaStream_t stream) {
    int device, sms;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    streamk::gemm(A, B, C, M, N, K, sms, stream);
}
