// Grouped GEMM for a mixture of experts.
//
// The tokens have been sorted by expert; expert e owns the rows
// [offsets[e], offsets[e + 1]) of x and multiplies them by its own W[e].
//
//   x        bf16 [T, K]
//   weights  bf16 [E, K, N]
//   offsets  int32 [E + 1]   on the device: there is no host sync
//   out      bf16 [T, N]
//
// The grid is launched for the worst case; blocks without rows leave at once.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <stdexcept>

template <typename T>
struct GroupedGemmProblem {
    const T *x;
    const T *weights;
    const int32_t *offsets;
    T *out;
    int32_t n;
    int32_t k;
};

template <int TileM, int TileN, int TileK>
class GroupedGemm {
public:
    static_assert(TileM % 32 == 0 && TileN % 32 == 0 && TileK % 16 == 0, "tile shape");
    static constexpr int kThreads = (TileM / 32) * (TileN / 32) * 32;
    static constexpr int kLdX = TileK + 8;
    static constexpr int kLdW = TileN + 8;
    static constexpr int kLdO = TileN + 8;

    union SharedMemory {
        struct {
            __nv_bfloat16 x[TileM * kLdX];
            __nv_bfloat16 w[TileK * kLdW];
        };
        float out[TileM * kLdO];
    };

    static __device__ void run(const GroupedGemmProblem<__nv_bfloat16> &p, SharedMemory &smem) {
        namespace wmma = nvcuda::wmma;
        const int expert = blockIdx.z;
        const int begin = p.offsets[expert], end = p.offsets[expert + 1];
        const int row0 = begin + blockIdx.x * TileM;
        if (row0 >= end) return;
        const int col0 = blockIdx.y * TileN;
        const __nv_bfloat16 *w = p.weights + static_cast<int64_t>(expert) * p.k * p.n;

        const int warp = threadIdx.x / 32;
        const int wm = warp % (TileM / 32) * 32;
        const int wn = warp / (TileM / 32) * 32;

        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
        for (int i = 0; i < 4; ++i) wmma::fill_fragment(acc[i >> 1][i & 1], 0.f);

        for (int k0 = 0; k0 < p.k; k0 += TileK) {
            for (int i = threadIdx.x; i < TileM * TileK; i += kThreads) {
                const int r = i / TileK, c = i % TileK;
                smem.x[r * kLdX + c] = row0 + r < end && k0 + c < p.k
                                           ? p.x[static_cast<int64_t>(row0 + r) * p.k + k0 + c]
                                           : __float2bfloat16(0.f);
            }
            for (int i = threadIdx.x; i < TileK * TileN; i += kThreads) {
                const int r = i / TileN, c = i % TileN;
                smem.w[r * kLdW + c] = k0 + r < p.k && col0 + c < p.n
                                           ? w[static_cast<int64_t>(k0 + r) * p.n + col0 + c]
                                           : __float2bfloat16(0.f);
            }
            __syncthreads();
            for (int kk = 0; kk < TileK; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a[2];
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b[2];
                for (int i = 0; i < 2; ++i) {
                    wmma::load_matrix_sync(a[i], smem.x + (wm + i * 16) * kLdX + kk, kLdX);
                    wmma::load_matrix_sync(b[i], smem.w + kk * kLdW + wn + i * 16, kLdW);
                }
                for (int i = 0; i < 4; ++i)
                    wmma::mma_sync(acc[i >> 1][i & 1], a[i >> 1], b[i & 1], acc[i >> 1][i & 1]);
            }
            __syncthreads();
        }

        for (int i = 0; i < 4; ++i)
            wmma::store_matrix_sync(smem.out + (wm + (i >> 1) * 16) * kLdO + wn + (i & 1) * 16, acc[i >> 1][i & 1],
                                    kLdO, wmma::mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < TileM * TileN; i += kThreads) {
            const int r = i / TileN, c = i % TileN;
            if (row0 + r < end && col0 + c < p.n)
                p.out[static_cast<int64_t>(row0 + r) * p.n + col0 + c] = __float2bfloat16(smem.out[r * kLdO + c]);
        }
    }
};

template <class Gemm>
__global__ void grouped_gemm_kernel(GroupedGemmProblem<__nv_bfloat16> problem) {
    __shared__ __align__(128) typename Gemm::SharedMemory smem;
    Gemm::run(problem, smem);
}

void moe_grouped_gemm(const void *x, const void *weights, const int32_t *offsets, void *out, int tokens, int experts,
                      int n, int k, cudaStream_t stream) {
    using Gemm = GroupedGemm<64, 64, 32>;
    GroupedGemmProblem<__nv_bfloat16> problem{reinterpret_cast<const __nv_bfloat16 *>(x),
                                              reinterpret_cast<const __nv_bfloat16 *>(weights), offsets,
                                              reinterpret_cast<__nv_bfloat16 *>(out), n, k};
    // an expert may receive every token
    const dim3 grid((tokens + 63) / 64, (n + 63) / 64, experts);
    grouped_gemm_kernel<Gemm><<<grid, Gemm::kThreads, 0, stream>>>(problem);
    if (cudaGetLastError() != cudaSuccess) throw std::runtime_error("grouped_gemm_kernel launch failed");
}
