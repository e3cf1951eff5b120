/**
 * bench_splitk_batched_bf16.cu
 *
 * Strided batched BF16 GEMM with split-K for "skinny" problems
 * (decode projections: M is small, K is large, too few output tiles to fill the chip).
 *
 *   C[b] = alpha * A[b] * B[b] + beta * C[b]
 *   A: batch x M x K, row major    B: batch x K x N, row major    C: batch x M x N float
 *
 * Two variants:
 *   (1) SplitKAtomic   : every slice adds its part with atomicAdd, C scaled by beta before
 *   (2) SplitKWorkspace: every slice writes to a workspace, a second kernel sums in a fixed order
 *
 * M % 64 == 0, N % 64 == 0, K % 32 == 0, sm_80+
 */
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>

namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

#define CUDA_TRY(expr)                                                               \
    do {                                                                             \
        cudaError_t status__ = (expr);                                               \
        if (status__ != cudaSuccess)                                                 \
            throw std::runtime_error(std::string(#expr " failed: ") +                \
                                     cudaGetErrorString(status__));                  \
    } while (false)

// Managed memory so that the host reference can just index it.
template <typename T>
class ManagedBuffer {
public:
    explicit ManagedBuffer(size_t count) : count_(count) {
        CUDA_TRY(cudaMallocManaged(&ptr_, count * sizeof(T)));
    }
    ~ManagedBuffer() { cudaFree(ptr_); }
    ManagedBuffer(const ManagedBuffer&) = delete;
    ManagedBuffer& operator=(const ManagedBuffer&) = delete;
    T* data() { return ptr_; }
    T& operator[](size_t i) { return ptr_[i]; }
    size_t size() const { return count_; }

private:
    T* ptr_ = nullptr;
    size_t count_;
};

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kThreads = 128;  // 4 warps, 2 x 2, 32 x 32 each
constexpr int kSkewBf16 = 8;

struct SliceRange {
    int begin;  // in tiles of kTileK
    int end;
};

__host__ __device__ inline SliceRange slice_range(int k_tiles, int splits, int slice) {
    const int per = (k_tiles + splits - 1) / splits;
    SliceRange r;
    r.begin = slice * per;
    r.end = r.begin + per;
    if (r.begin > k_tiles) r.begin = k_tiles;
    if (r.end > k_tiles) r.end = k_tiles;
    return r;
}

// The part of one slice of one 64x64 tile, in fragments
struct WarpTile {
    fragment<accumulator, 16, 16, 16, float> acc[2][2];
};

__device__ __forceinline__ void compute_slice(WarpTile& wt, const __nv_bfloat16* A, const __nv_bfloat16* B,
                                              int N, int K, int tile_m, int tile_n, SliceRange range) {
    __shared__ __nv_bfloat16 As[kTileM][kTileK + kSkewBf16];
    __shared__ __nv_bfloat16 Bs[kTileK][kTileN + kSkewBf16];

    const int warp = threadIdx.x / 32;
    const int warp_row = (warp / 2) * 32;
    const int warp_col = (warp % 2) * 32;

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) nvcuda::wmma::fill_fragment(wt.acc[i][j], 0.0f);

    for (int t = range.begin; t < range.end; ++t) {
        const int k0 = t * kTileK;
        // A: 64 x 32 = 256 vectors of 8;  B: 32 x 64 = 256 vectors of 8
        for (int v = threadIdx.x; v < 256; v += kThreads) {
            const int ar = v / 4, ac = (v % 4) * 8;
            *reinterpret_cast<uint4*>(&As[ar][ac]) =
                *reinterpret_cast<const uint4*>(&A[static_cast<size_t>(tile_m + ar) * K + k0 + ac]);
            const int br = v / 8, bc = (v % 8) * 8;
            *reinterpret_cast<uint4*>(&Bs[br][bc]) =
                *reinterpret_cast<const uint4*>(&B[static_cast<size_t>(k0 + br) * N + tile_n + bc]);
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < kTileK; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a[2];
            fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> b[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                nvcuda::wmma::load_matrix_sync(a[i], &As[warp_row + 16 * i][kk], kTileK + kSkewBf16);
                nvcuda::wmma::load_matrix_sync(b[i], &Bs[kk][warp_col + 16 * i], kTileN + kSkewBf16);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j) nvcuda::wmma::mma_sync(wt.acc[i][j], a[i], b[j], wt.acc[i][j]);
        }
        __syncthreads();
    }
}

// blockIdx.z = batch * splits + slice
__global__ void splitk_workspace_kernel(const __nv_bfloat16* A, const __nv_bfloat16* B, float* workspace, int M,
                                        int N, int K, int batch_count, int splits) {
    const int batch = blockIdx.z / splits;
    const int slice = blockIdx.z % splits;
    const int tile_m = blockIdx.y * kTileM;
    const int tile_n = blockIdx.x * kTileN;

    WarpTile wt;
    compute_slice(wt, A + static_cast<size_t>(batch) * M * K, B + static_cast<size_t>(batch) * K * N, N, K, tile_m,
                  tile_n, slice_range(K / kTileK, splits, slice));

    // workspace: [splits][batch][M][N]; an empty slice writes zeros
    float* dst = workspace + (static_cast<size_t>(slice) * batch_count + batch) * M * N;
    const int warp = threadIdx.x / 32;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const int r = tile_m + (warp / 2) * 32 + 16 * i;
            const int c = tile_n + (warp % 2) * 32 + 16 * j;
            nvcuda::wmma::store_matrix_sync(dst + static_cast<size_t>(r) * N + c, wt.acc[i][j], N,
                                            nvcuda::wmma::mem_row_major);
        }
}

__global__ void splitk_reduce_kernel(const float* workspace, float* C, size_t total, int splits, float alpha,
                                     float beta) {
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < total; i += stride) {
        float sum = 0.0f;
        for (int s = 0; s < splits; ++s) sum += workspace[s * total + i];
        // beta == 0 must not read C, it may hold NaNs
        C[i] = beta == 0.0f ? alpha * sum : alpha * sum + beta * C[i];
    }
}

__global__ void scale_kernel(float* C, size_t total, float beta) {
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < total) C[i] = beta == 0.0f ? 0.0f : beta * C[i];
}

__global__ void splitk_atomic_kernel(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K,
                                     int splits, float alpha) {
    __shared__ float Cs[kTileM][kTileN + 4];
    const int batch = blockIdx.z / splits;
    const int slice = blockIdx.z % splits;
    const int tile_m = blockIdx.y * kTileM;
    const int tile_n = blockIdx.x * kTileN;

    WarpTile wt;
    compute_slice(wt, A + static_cast<size_t>(batch) * M * K, B + static_cast<size_t>(batch) * K * N, N, K, tile_m,
                  tile_n, slice_range(K / kTileK, splits, slice));

    const int warp = threadIdx.x / 32;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            nvcuda::wmma::store_matrix_sync(&Cs[(warp / 2) * 32 + 16 * i][(warp % 2) * 32 + 16 * j], wt.acc[i][j],
                                            kTileN + 4, nvcuda::wmma::mem_row_major);
    __syncthreads();

    float* dst = C + static_cast<size_t>(batch) * M * N;
    for (int e = threadIdx.x; e < kTileM * kTileN; e += kThreads) {
        const int r = e / kTileN;
        const int c = e % kTileN;
        atomicAdd(&dst[static_cast<size_t>(tile_m + r) * N + tile_n + c], alpha * Cs[r][c]);
    }
}

struct Problem {
    int batch, M, N, K;
};

void run_workspace(const Problem& p, int splits, ManagedBuffer<__nv_bfloat16>& A, ManagedBuffer<__nv_bfloat16>& B,
                   ManagedBuffer<float>& C, ManagedBuffer<float>& ws, float alpha, float beta) {
    const dim3 grid(p.N / kTileN, p.M / kTileM, p.batch * splits);
    splitk_workspace_kernel<<<grid, kThreads>>>(A.data(), B.data(), ws.data(), p.M, p.N, p.K, p.batch, splits);
    const size_t total = static_cast<size_t>(p.batch) * p.M * p.N;
    splitk_reduce_kernel<<<static_cast<unsigned>((total + 255) / 256), 256>>>(ws.data(), C.data(), total, splits,
                                                                             alpha, beta);
    CUDA_TRY(cudaGetLastError());
}

void run_atomic(const Problem& p, int splits, ManagedBuffer<__nv_bfloat16>& A, ManagedBuffer<__nv_bfloat16>& B,
                ManagedBuffer<float>& C, float alpha, float beta) {
    const size_t total = static_cast<size_t>(p.batch) * p.M * p.N;
    scale_kernel<<<static_cast<unsigned>((total + 255) / 256), 256>>>(C.data(), total, beta);
    const dim3 grid(p.N / kTileN, p.M / kTileM, p.batch * splits);
    splitk_atomic_kernel<<<grid, kThreads>>>(A.data(), B.data(), C.data(), p.M, p.N, p.K, splits, alpha);
    CUDA_TRY(cudaGetLastError());
}

template <typename Fn>
float benchmark(Fn&& fn, int iterations) {
    cudaEvent_t start, stop;
    CUDA_TRY(cudaEventCreate(&start));
    CUDA_TRY(cudaEventCreate(&stop));
    fn();
    CUDA_TRY(cudaEventRecord(start));
    for (int i = 0; i < iterations; ++i) fn();
    CUDA_TRY(cudaEventRecord(stop));
    CUDA_TRY(cudaEventSynchronize(stop));
    float ms = 0.0f;
    CUDA_TRY(cudaEventElapsedTime(&ms, start, stop));
    CUDA_TRY(cudaEventDestroy(start));
    CUDA_TRY(cudaEventDestroy(stop));
    return ms / iterations;
}

double max_abs_diff(ManagedBuffer<float>& x, const float* ref) {
    double d = 0;
    for (size_t i = 0; i < x.size(); ++i) d = std::max(d, static_cast<double>(std::fabs(x[i] - ref[i])));
    return d;
}

}  // namespace

int main() {
    try {
        const Problem p{3, 64, 256, 2080};  // 65 k tiles: not divisible by the splits
        const float alpha = 0.5f, beta = 2.0f;
        const int max_splits = 8;

        ManagedBuffer<__nv_bfloat16> A(static_cast<size_t>(p.batch) * p.M * p.K);
        ManagedBuffer<__nv_bfloat16> B(static_cast<size_t>(p.batch) * p.K * p.N);
        ManagedBuffer<float> C(static_cast<size_t>(p.batch) * p.M * p.N);
        ManagedBuffer<float> C0(C.size()), ref(C.size()), ws(C.size() * max_splits);

        std::mt19937 rng(7);
        std::uniform_real_distribution<float> u(-1.0f, 1.0f);
        for (size_t i = 0; i < A.size(); ++i) A[i] = __float2bfloat16(u(rng));
        for (size_t i = 0; i < B.size(); ++i) B[i] = __float2bfloat16(u(rng));
        for (size_t i = 0; i < C.size(); ++i) C0[i] = u(rng);

        for (int b = 0; b < p.batch; ++b)
            for (int m = 0; m < p.M; ++m)
                for (int n = 0; n < p.N; ++n) {
                    float s = 0;
                    for (int k = 0; k < p.K; ++k)
                        s += __bfloat162float(A[(static_cast<size_t>(b) * p.M + m) * p.K + k]) *
                             __bfloat162float(B[(static_cast<size_t>(b) * p.K + k) * p.N + n]);
                    const size_t i = (static_cast<size_t>(b) * p.M + m) * p.N + n;
                    ref[i] = alpha * s + beta * C0[i];
                }

        std::cout << std::fixed << std::setprecision(4);
        for (int splits : {1, 2, 4, 8}) {
            auto reset = [&] {
                CUDA_TRY(cudaDeviceSynchronize());
                for (size_t i = 0; i < C.size(); ++i) C[i] = C0[i];
            };
            reset();
            run_workspace(p, splits, A, B, C, ws, alpha, beta);
            CUDA_TRY(cudaDeviceSynchronize());
            const double e1 = max_abs_diff(C, ref.data());
            reset();
            run_atomic(p, splits, A, B, C, alpha, beta);
            CUDA_TRY(cudaDeviceSynchronize());
            const double e2 = max_abs_diff(C, ref.data());
            const float t1 = benchmark([&] { run_workspace(p, splits, A, B, C, ws, alpha, 0.0f); }, 20);
            const float t2 = benchmark([&] { run_atomic(p, splits, A, B, C, alpha, 0.0f); }, 20);
            std::cout << "splits " << splits << "  workspace " << t1 << " ms (err " << e1 << ")  atomic " << t2
                      << " ms (err " << e2 << ")\n";
        }
    } catch (const std::exception& e) {
        std::cerr << e.what() << std::endl;
        return 1;
    }
    return 0;
}
