// Fused linear layer: y = gelu(x @ w.T + b), half in, float accumulation, half out.
//   x [M, K], w [N, K] as nn.Linear keeps it, b [N], y [M, N]
// 3 stage cp.async pipeline, ldmatrix, mma.sync.m16n8k16. K and N have to be multiples of 8 (16 byte copies).
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace fused {

constexpr int kWarpSize = 32;

template <int BM_, int BN_, int BK_, int WM_, int WN_, int kStages_>
struct TileConfig {
    static constexpr int BM = BM_, BN = BN_, BK = BK_;
    static constexpr int WM = WM_, WN = WN_;  // of a warp
    static constexpr int kStages = kStages_;
    static constexpr int kWarpsM = BM / WM, kWarpsN = BN / WN;
    static constexpr int kThreads = kWarpsM * kWarpsN * kWarpSize;
    static constexpr int kLd = BK + 8;  // padded row in shared memory, 80 bytes: ldmatrix without conflicts
    static constexpr int kStageX = BM * kLd, kStageW = BN * kLd;
    static constexpr int kSmemBytes = kStages * (kStageX + kStageW) * 2;
    static constexpr int kTilesM = WM / 16, kTilesN = WN / 8;
};
using DefaultConfig = TileConfig<64, 64, 32, 32, 32, 3>;

__device__ __forceinline__ void cp_async16(uint32_t dst, const void *src, bool valid) {
    const int src_size = valid ? 16 : 0;  // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_size) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group() { asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory"); }

__device__ __forceinline__ void ldmatrix_x4(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma_m16n8k16(float *c, const uint32_t *a, const uint32_t *b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// the tanh form, as GPT-2 has it
__device__ __forceinline__ float gelu(float x) {
    const float kAlpha = 0.7978845608028654f;  // sqrt(2 / pi)
    const float kBeta = 0.044715f;
    const float inner = kAlpha * (x + kBeta * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner));
}

// kRows x BK of a row major matrix with `ld` columns; rows from `rows` and columns from `cols` on are zero
template <typename Cfg, int kRows>
__device__ __forceinline__ void load_stage(half *smem, const half *gmem, int row0, int k0, int rows, int cols) {
    constexpr int kChunks = Cfg::BK / 8;
#pragma unroll
    for (int idx = threadIdx.x; idx < kRows * kChunks; idx += Cfg::kThreads) {
        const int r = idx / kChunks;
        const int c = (idx % kChunks) * 8;
        const bool valid = row0 + r < rows && k0 + c < cols;
        const half *src = valid ? gmem + static_cast<int64_t>(row0 + r) * cols + k0 + c : gmem;
        cp_async16(static_cast<uint32_t>(__cvta_generic_to_shared(smem + r * Cfg::kLd + c)), src, valid);
    }
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads)
linear_bias_gelu_kernel(const half *__restrict__ x, const half *__restrict__ w, const half *__restrict__ bias,
                        half *__restrict__ y, int M, int N, int K) {
    constexpr int kStages = Cfg::kStages;
    constexpr int kLd = Cfg::kLd;
    extern __shared__ __align__(16) half smem[];
    half *smem_x = smem;
    half *smem_w = smem + kStages * Cfg::kStageX;

    const int warp = threadIdx.x / kWarpSize;
    const int lane = threadIdx.x % kWarpSize;
    const int warp_m = (warp / Cfg::kWarpsN) * Cfg::WM;
    const int warp_n = (warp % Cfg::kWarpsN) * Cfg::WN;
    const int block_m = blockIdx.y * Cfg::BM;
    const int block_n = blockIdx.x * Cfg::BN;

    float acc[Cfg::kTilesM][Cfg::kTilesN][4] = {};

    const int k_tiles = (K + Cfg::BK - 1) / Cfg::BK;
    // prologue
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
        if (s < k_tiles) {
            load_stage<Cfg, Cfg::BM>(smem_x + s * Cfg::kStageX, x, block_m, s * Cfg::BK, M, K);
            load_stage<Cfg, Cfg::BN>(smem_w + s * Cfg::kStageW, w, block_n, s * Cfg::BK, N, K);
        }
        cp_async_commit();
    }

    for (int kt = 0; kt < k_tiles; ++kt) {
        cp_async_wait_group<kStages - 2>();
        __syncthreads();

        // the stage that was consumed in the last turn is free now
        const int next = kt + kStages - 1;
        if (next < k_tiles) {
            const int slot = next % kStages;
            load_stage<Cfg, Cfg::BM>(smem_x + slot * Cfg::kStageX, x, block_m, next * Cfg::BK, M, K);
            load_stage<Cfg, Cfg::BN>(smem_w + slot * Cfg::kStageW, w, block_n, next * Cfg::BK, N, K);
        }
        cp_async_commit();

        const half *xs = smem_x + (kt % kStages) * Cfg::kStageX;
        const half *ws = smem_w + (kt % kStages) * Cfg::kStageW;
#pragma unroll
        for (int kk = 0; kk < Cfg::BK; kk += 16) {
            uint32_t a[Cfg::kTilesM][4];
            uint32_t b[Cfg::kTilesN][2];
#pragma unroll
            for (int mi = 0; mi < Cfg::kTilesM; ++mi) {
                const half *p = xs + (warp_m + mi * 16 + lane % 16) * kLd + kk + (lane / 16) * 8;
                ldmatrix_x4(a[mi][0], a[mi][1], a[mi][2], a[mi][3], static_cast<uint32_t>(__cvta_generic_to_shared(p)));
            }
#pragma unroll
            for (int ni = 0; ni < Cfg::kTilesN; ni += 2) {
                // matrices: n 0-7 k 0-7, n 0-7 k 8-15, n 8-15 k 0-7, n 8-15 k 8-15
                const int n = warp_n + ni * 8 + (lane / 16) * 8 + lane % 8;
                const int k = kk + ((lane / 8) % 2) * 8;
                const uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ws + n * kLd + k));
                ldmatrix_x4(b[ni][0], b[ni][1], b[ni + 1][0], b[ni + 1][1], addr);
            }
#pragma unroll
            for (int mi = 0; mi < Cfg::kTilesM; ++mi)
#pragma unroll
                for (int ni = 0; ni < Cfg::kTilesN; ++ni) mma_m16n8k16(acc[mi][ni], a[mi], b[ni]);
        }
    }

    // epilogue: bias, activation, half2 stores
#pragma unroll
    for (int ni = 0; ni < Cfg::kTilesN; ++ni) {
        const int col = block_n + warp_n + ni * 8 + (lane % 4) * 2;
        if (col >= N) continue;
        const float2 b2 = __half22float2(*reinterpret_cast<const half2 *>(bias + col));
#pragma unroll
        for (int mi = 0; mi < Cfg::kTilesM; ++mi) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = block_m + warp_m + mi * 16 + h * 8 + lane / 4;
                if (row < M) {
                    const float v0 = gelu(acc[mi][ni][2 * h] + b2.x);
                    const float v1 = gelu(acc[mi][ni][2 * h + 1] + b2.y);
                    *reinterpret_cast<half2 *>(y + static_cast<int64_t>(row) * N + col) = __floats2half2_rn(v0, v1);
                }
            }
        }
    }
}

void linear_bias_gelu(const half *x, const half *w, const half *bias, half *y, int M, int N, int K, cudaStream_t stream) {
    using Cfg = DefaultConfig;
    dim3 grid((N + Cfg::BN - 1) / Cfg::BN, (M + Cfg::BM - 1) / Cfg::BM);
    linear_bias_gelu_kernel<Cfg><<<grid, Cfg::kThreads, Cfg::kSmemBytes, stream>>>(x, w, bias, y, M, N, K);
}

}  // namespace fused
