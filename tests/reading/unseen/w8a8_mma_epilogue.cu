// W8A8 linear layer (SmoothQuant-like): int8 x int8 -> int32, dequantised in the
// epilogue with one scale per token and one per output channel, fp16 result.
//
//   out[m, n] = half( acc[m, n] * act_scale[m] * w_scale[n] )
//
// weights are stored [out_features, in_features].
#pragma once
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace w8a8 {

template <int BM_, int BN_, int BK_, int WARPS_M_, int WARPS_N_>
struct GemmConfig {
    static constexpr int BM = BM_;
    static constexpr int BN = BN_;
    static constexpr int BK = BK_;              // in int8 elements
    static constexpr int WARPS_M = WARPS_M_;
    static constexpr int WARPS_N = WARPS_N_;
    static constexpr int THREADS = WARPS_M * WARPS_N * 32;
    static constexpr int WM = BM / WARPS_M;
    static constexpr int WN = BN / WARPS_N;
    static constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 32;
    static constexpr int TM = WM / MMA_M;
    static constexpr int TN = WN / MMA_N;
    static constexpr int PITCH = BK + 16;       // keeps rows 16B aligned, spreads banks
    static_assert(BK % MMA_K == 0, "BK must be a multiple of 32");
};

using DefaultConfig = GemmConfig<64, 64, 64, 2, 2>;

namespace detail {
__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t lds32(const int8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }
}  // namespace detail

template <class Cfg>
__global__ void __launch_bounds__(Cfg::THREADS)
w8a8_gemm_kernel(const int8_t* __restrict__ act, const int8_t* __restrict__ weight,
                 const float* __restrict__ act_scale, const float* __restrict__ w_scale,
                 half* __restrict__ out, int m, int n, int k) {
    __shared__ __align__(16) int8_t s_act[Cfg::BM * Cfg::PITCH];
    __shared__ __align__(16) int8_t s_w[Cfg::BN * Cfg::PITCH];

    const int lane = threadIdx.x & 31;
    const int warp_id = threadIdx.x >> 5;
    const int warp_m = (warp_id / Cfg::WARPS_N) * Cfg::WM;
    const int warp_n = (warp_id % Cfg::WARPS_N) * Cfg::WN;
    const int block_m = blockIdx.y * Cfg::BM;
    const int block_n = blockIdx.x * Cfg::BN;
    const int group = lane >> 2;     // 0..7
    const int quad = lane & 3;       // 0..3

    int acc[Cfg::TM][Cfg::TN][4] = {};

    for (int k0 = 0; k0 < k; k0 += Cfg::BK) {
        constexpr int vec_per_row = Cfg::BK / 16;
        for (int i = threadIdx.x; i < Cfg::BM * vec_per_row; i += Cfg::THREADS) {
            const int row = i / vec_per_row, col = i % vec_per_row * 16;
            int4 v = make_int4(0, 0, 0, 0);
            if (block_m + row < m && k0 + col < k)
                v = __ldg(reinterpret_cast<const int4*>(act + static_cast<int64_t>(block_m + row) * k + k0 + col));
            *reinterpret_cast<int4*>(s_act + row * Cfg::PITCH + col) = v;
        }
        for (int i = threadIdx.x; i < Cfg::BN * vec_per_row; i += Cfg::THREADS) {
            const int row = i / vec_per_row, col = i % vec_per_row * 16;
            int4 v = make_int4(0, 0, 0, 0);
            if (block_n + row < n && k0 + col < k)
                v = __ldg(reinterpret_cast<const int4*>(weight + static_cast<int64_t>(block_n + row) * k + k0 + col));
            *reinterpret_cast<int4*>(s_w + row * Cfg::PITCH + col) = v;
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < Cfg::BK; kk += Cfg::MMA_K) {
            uint32_t a[Cfg::TM][4], b[Cfg::TN][2];
#pragma unroll
            for (int i = 0; i < Cfg::TM; ++i) {
                const int8_t* p = s_act + (warp_m + i * 16 + group) * Cfg::PITCH + kk + quad * 4;
                a[i][0] = detail::lds32(p);
                a[i][1] = detail::lds32(p + 8 * Cfg::PITCH);
                a[i][2] = detail::lds32(p + 16);
                a[i][3] = detail::lds32(p + 8 * Cfg::PITCH + 16);
            }
#pragma unroll
            for (int j = 0; j < Cfg::TN; ++j) {
                const int8_t* p = s_w + (warp_n + j * 8 + group) * Cfg::PITCH + kk + quad * 4;
                b[j][0] = detail::lds32(p);
                b[j][1] = detail::lds32(p + 16);
            }
#pragma unroll
            for (int i = 0; i < Cfg::TM; ++i)
#pragma unroll
                for (int j = 0; j < Cfg::TN; ++j) detail::mma_s8(acc[i][j], a[i], b[j]);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < Cfg::TM; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = block_m + warp_m + i * 16 + group + h * 8;
            if (row >= m) continue;
            const float sa = act_scale[row];
#pragma unroll
            for (int j = 0; j < Cfg::TN; ++j) {
                const int col = block_n + warp_n + j * 8 + quad * 2;
                if (col < n) out[static_cast<int64_t>(row) * n + col] = __float2half(acc[i][j][2 * h] * sa * w_scale[col]);
                if (col + 1 < n)
                    out[static_cast<int64_t>(row) * n + col + 1] = __float2half(acc[i][j][2 * h + 1] * sa * w_scale[col + 1]);
            }
        }
    }
}

template <class Cfg = DefaultConfig>
inline cudaError_t w8a8_linear(const int8_t* act, const int8_t* weight, const float* act_scale, const float* w_scale,
                               half* out, int m, int n, int k, cudaStream_t stream = nullptr) {
    if (k % 16 != 0) return cudaErrorInvalidValue;
    const dim3 grid((n + Cfg::BN - 1) / Cfg::BN, (m + Cfg::BM - 1) / Cfg::BM);
    w8a8_gemm_kernel<Cfg><<<grid, Cfg::THREADS, 0, stream>>>(act, weight, act_scale, w_scale, out, m, n, k);
    return cudaGetLastError();
}

// explicit instantiation used by the runtime library
template cudaError_t w8a8_linear<DefaultConfig>(const int8_t*, const int8_t*, const float*, const float*, half*, int,
                                                int, int, cudaStream_t);

}  // namespace w8a8
