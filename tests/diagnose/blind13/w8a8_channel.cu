/*
 * W8A8 GEMM: per-token scales for the activations, per-channel scales for the weights, optional bias.
 * Tiles of 64 x 64 x 64, two stages of cp.async.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

namespace cutlite
{
using namespace nvcuda;

struct W8A8Params
{
    int8_t const* act;       // [m, k]
    int8_t const* weight;    // [n, k]
    float const* tokenScale; // [m]
    float const* chanScale;  // [n]
    half const* bias;        // [n]
    half* out;               // [m, n]
    int m, n, k;
};

__device__ __forceinline__ void cpAsync16(void* dst, void const* src, bool pred)
{
    uint32_t const smem = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    int const bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void cpCommit()
{
    asm volatile("cp.async.commit_group;\n" ::);
}

template <int N>
__device__ __forceinline__ void cpWait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

template <int TileM, int TileN, int TileK>
__device__ void loadStage(W8A8Params const& p, int8_t* sA, int8_t* sB, int m0, int n0, int k0)
{
    constexpr int kLd = TileK + 16;
    constexpr int kVecs = TileK / 16;
    for (int v = threadIdx.x; v < TileM * kVecs; v += blockDim.x)
    {
        int const row = v / kVecs, col = v % kVecs * 16;
        bool const ok = m0 + row < p.m && k0 + col < p.k;
        cpAsync16(sA + row * kLd + col, ok ? p.act + (int64_t) (m0 + row) * p.k + k0 + col : p.act, ok);
    }
    for (int v = threadIdx.x; v < TileN * kVecs; v += blockDim.x)
    {
        int const row = v / kVecs, col = v % kVecs * 16;
        bool const ok = n0 + row < p.n && k0 + col < p.k;
        cpAsync16(sB + row * kLd + col, ok ? p.weight + (int64_t) (n0 + row) * p.k + k0 + col : p.weight, ok);
    }
}

template <int TileM, int TileN, int TileK, bool HasBias>
__global__ void __launch_bounds__(128) w8a8GemmKernel(W8A8Params const p)
{
    constexpr int kLd = TileK + 16;
    constexpr int kFragM = TileM / 32, kFragN = TileN / 32;
    __shared__ __align__(128) int8_t sA[2][TileM * kLd];
    __shared__ __align__(128) int8_t sB[2][TileN * kLd];
    __shared__ __align__(128) int sC[4][16 * 16];

    int const warpId = threadIdx.x >> 5, laneId = threadIdx.x & 31;
    int const warpM = warpId >> 1, warpN = warpId & 1;
    int const m0 = blockIdx.y * TileM, n0 = blockIdx.x * TileN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[kFragM][kFragN];
    for (int i = 0; i < kFragM; ++i)
        for (int j = 0; j < kFragN; ++j)
            wmma::fill_fragment(acc[i][j], 0);

    int const numSteps = (p.k + TileK - 1) / TileK;
    loadStage<TileM, TileN, TileK>(p, sA[0], sB[0], m0, n0, 0);
    cpCommit();

    for (int step = 0; step < numSteps; ++step)
    {
        int const cur = step & 1;
        if (step + 1 < numSteps)
        {
            loadStage<TileM, TileN, TileK>(p, sA[cur ^ 1], sB[cur ^ 1], m0, n0, (step + 1) * TileK);
        }
        cpCommit();
        cpWait<1>();
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < TileK; kk += 16)
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a[kFragM];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b[kFragN];
            for (int i = 0; i < kFragM; ++i)
                wmma::load_matrix_sync(a[i], sA[cur] + (warpM * kFragM + i) * 16 * kLd + kk, kLd);
            for (int j = 0; j < kFragN; ++j)
                wmma::load_matrix_sync(b[j], sB[cur] + (warpN * kFragN + j) * 16 * kLd + kk, kLd);
            for (int i = 0; i < kFragM; ++i)
                for (int j = 0; j < kFragN; ++j)
                    wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }

    // dequantise one 16 x 16 tile after the other
    for (int i = 0; i < kFragM; ++i)
    {
        for (int j = 0; j < kFragN; ++j)
        {
            wmma::store_matrix_sync(sC[warpId], acc[i][j], 16, wmma::mem_row_major);
            __syncwarp();
            int const tileRow = m0 + (warpM * kFragM + i) * 16, tileCol = n0 + (warpN * kFragN + j) * 16;
            for (int e = laneId; e < 256; e += 32)
            {
                int const row = tileRow + e / 16, col = tileCol + e % 16;
                if (row < p.m && col < p.n)
                {
                    float value = float(sC[warpId][e]) * p.tokenScale[row] * p.chanScale[col];
                    if constexpr (HasBias)
                        value += __half2float(p.bias[col]);
                    p.out[(int64_t) row * p.n + col] = __float2half_rn(value);
                }
            }
            __syncwarp();
        }
    }
}

template __global__ void w8a8GemmKernel<64, 64, 64, true>(W8A8Params const);
} // namespace cutlite
