// Copyright (c) the authors. Licensed under the Apache License, Version 2.0.
//
// Linear layer for SM80+:  Y = act(X * W + bias)
//   X [M, K] half, row-major (activations, any M)
//   W [K, N] half, row-major (weights as exported; K % 8 == 0, N % 8 == 0)
// Multistage cp.async pipeline, XOR-swizzled shared memory, ldmatrix, mma.m16n8k16 with fp32 accumulation.

#include <cstdint>
#include <cuda_fp16.h>

namespace engine {
namespace kernels {

enum class Act { kIdentity, kRelu, kGeluTanh, kSilu };

template <Act A>
struct Activation;

template <>
struct Activation<Act::kIdentity> {
    static __device__ __forceinline__ float apply(float x) { return x; }
};
template <>
struct Activation<Act::kRelu> {
    static __device__ __forceinline__ float apply(float x) { return fmaxf(x, 0.f); }
};
template <>
struct Activation<Act::kGeluTanh> {
    static __device__ __forceinline__ float apply(float x)
    {
        const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
        return 0.5f * x * (1.f + tanhf(inner));
    }
};
template <>
struct Activation<Act::kSilu> {
    static __device__ __forceinline__ float apply(float x) { return x / (1.f + __expf(-x)); }
};

// ---------------------------------------------------------------------------------------------------------------
// PTX wrappers
// ---------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t smem_addr(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async_16B_zfill(void* dst, const void* src, bool pred)
{
    const int src_bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_addr(dst)), "l"(src), "r"(src_bytes));
}

__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }

template <int N>
__device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(p)));
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_addr(p)));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Element (r, c) of a tile with kCols halves per row; 16-byte chunks of a row are permuted so that the eight rows of an
// ldmatrix phase fall into different banks.
template <int kCols>
struct SwizzledTile {
    static constexpr int kChunks = kCols / 8;
    static constexpr int kRowsPerLine = kChunks >= 8 ? 1 : 8 / kChunks;

    static __device__ __forceinline__ int offset(int r, int c)
    {
        const int chunk = (c / 8) ^ ((r / kRowsPerLine) % kChunks);
        return r * kCols + chunk * 8;
    }
};

// ---------------------------------------------------------------------------------------------------------------

template <int CtaM_, int CtaN_, int CtaK_, int WarpM_, int WarpN_, int Stages_>
struct LinearConfig {
    static constexpr int CtaM = CtaM_, CtaN = CtaN_, CtaK = CtaK_;
    static constexpr int WarpM = WarpM_, WarpN = WarpN_;
    static constexpr int Stages = Stages_;
    static constexpr int WarpsM = CtaM / WarpM, WarpsN = CtaN / WarpN;
    static constexpr int Threads = WarpsM * WarpsN * 32;
    static constexpr int TilesM = WarpM / 16, TilesN = WarpN / 8;
    static constexpr int SizeA = CtaM * CtaK, SizeB = CtaK * CtaN;
    static constexpr int SmemBytes = Stages * (SizeA + SizeB) * sizeof(half);
};

using Config64x64 = LinearConfig<64, 64, 32, 32, 32, 3>;

template <class Cfg, Act kAct>
__global__ void __launch_bounds__(Cfg::Threads)
linear_bias_act(half* __restrict__ Y, const half* __restrict__ X, const half* __restrict__ W,
                const half* __restrict__ bias, int M, int N, int K)
{
    using SwzA = SwizzledTile<Cfg::CtaK>;
    using SwzB = SwizzledTile<Cfg::CtaN>;

    extern __shared__ __align__(128) half smem[];
    half* smem_a = smem;
    half* smem_b = smem + Cfg::Stages * Cfg::SizeA;

    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int warp_m = warp % Cfg::WarpsM, warp_n = warp / Cfg::WarpsM;
    const int cta_m = blockIdx.y * Cfg::CtaM, cta_n = blockIdx.x * Cfg::CtaN;

    auto fetch = [&](int stage, int kt) {
        half* sa = smem_a + stage * Cfg::SizeA;
        half* sb = smem_b + stage * Cfg::SizeB;
        const int k0 = kt * Cfg::CtaK;
#pragma unroll
        for (int i = tid; i < Cfg::SizeA / 8; i += Cfg::Threads) {
            const int r = i / SwzA::kChunks, c = i % SwzA::kChunks * 8;
            const bool pred = cta_m + r < M && k0 + c < K;
            cp_async_16B_zfill(sa + SwzA::offset(r, c), pred ? X + (size_t)(cta_m + r) * K + k0 + c : X, pred);
        }
#pragma unroll
        for (int i = tid; i < Cfg::SizeB / 8; i += Cfg::Threads) {
            const int r = i / SwzB::kChunks, c = i % SwzB::kChunks * 8;
            const bool pred = k0 + r < K && cta_n + c < N;
            cp_async_16B_zfill(sb + SwzB::offset(r, c), pred ? W + (size_t)(k0 + r) * N + cta_n + c : W, pred);
        }
    };

    float acc[Cfg::TilesM][Cfg::TilesN][4] = {};
    const int k_tiles = (K + Cfg::CtaK - 1) / Cfg::CtaK;

    // prologue
#pragma unroll
    for (int s = 0; s < Cfg::Stages - 1; ++s) {
        if (s < k_tiles) {
            fetch(s, s);
        }
        cp_async_fence();
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        cp_async_wait<Cfg::Stages - 2>();
        __syncthreads();

        const int next = kt + Cfg::Stages - 1;
        if (next < k_tiles) {
            fetch(next % Cfg::Stages, next);
        }
        cp_async_fence();

        const half* sa = smem_a + kt % Cfg::Stages * Cfg::SizeA;
        const half* sb = smem_b + kt % Cfg::Stages * Cfg::SizeB;
#pragma unroll
        for (int k = 0; k < Cfg::CtaK; k += 16) {
            uint32_t frag_a[Cfg::TilesM][4];
            uint32_t frag_b[Cfg::TilesN / 2][4];
#pragma unroll
            for (int i = 0; i < Cfg::TilesM; ++i) {
                const int row = warp_m * Cfg::WarpM + i * 16 + lane % 16;
                const int col = k + lane / 16 * 8;
                ldsm_x4(frag_a[i], sa + SwzA::offset(row, col));
            }
#pragma unroll
            for (int j = 0; j < Cfg::TilesN / 2; ++j) {
                const int krow = k + lane % 16;
                const int ncol = warp_n * Cfg::WarpN + j * 16 + lane / 16 * 8;
                ldsm_x4_t(frag_b[j], sb + SwzB::offset(krow, ncol));
            }
#pragma unroll
            for (int i = 0; i < Cfg::TilesM; ++i)
#pragma unroll
                for (int j = 0; j < Cfg::TilesN; ++j)
                    mma_16816(acc[i][j], frag_a[i], frag_b[j / 2][j % 2 * 2], frag_b[j / 2][j % 2 * 2 + 1]);
        }
    }

    // epilogue
#pragma unroll
    for (int j = 0; j < Cfg::TilesN; ++j) {
        const int n = cta_n + warp_n * Cfg::WarpN + j * 8 + lane % 4 * 2;
        if (n >= N) {
            continue;
        }
        const float b0 = bias ? __half2float(bias[n]) : 0.f;
        const float b1 = bias ? __half2float(bias[n + 1]) : 0.f;
#pragma unroll
        for (int i = 0; i < Cfg::TilesM; ++i) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int m = cta_m + warp_m * Cfg::WarpM + i * 16 + h * 8 + lane / 4;
                if (m < M) {
                    const float y0 = Activation<kAct>::apply(acc[i][j][h * 2] + b0);
                    const float y1 = Activation<kAct>::apply(acc[i][j][h * 2 + 1] + b1);
                    *reinterpret_cast<half2*>(Y + (size_t)m * N + n) = __floats2half2_rn(y0, y1);
                }
            }
        }
    }
}

template <Act kAct>
void invokeLinear(half* Y, const half* X, const half* W, const half* bias, int M, int N, int K, cudaStream_t st)
{
    using Cfg = Config64x64;
    dim3 grid((N + Cfg::CtaN - 1) / Cfg::CtaN, (M + Cfg::CtaM - 1) / Cfg::CtaM);
    linear_bias_act<Cfg, kAct><<<grid, Cfg::Threads, Cfg::SmemBytes, st>>>(Y, X, W, bias, M, N, K);
}

template void invokeLinear<Act::kGeluTanh>(half*, const half*, const half*, const half*, int, int, int, cudaStream_t);
template void invokeLinear<Act::kSilu>(half*, const half*, const half*, const half*, int, int, int, cudaStream_t);

} // namespace kernels
} // namespace engine
