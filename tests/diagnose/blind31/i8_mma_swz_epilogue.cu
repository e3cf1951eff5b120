/*
 * Quantized linear layer on Ampere/Ada tensor cores, no CUTLASS.
 *
 *   out[m][n] = act( scale_x[m] * scale_w[n] * sum_k x[m][k] * w[n][k]  +  bias[n]  +  residual[m][n] )
 *
 *   x : int8  [M, K] row major, one scale per token
 *   w : int8  [N, K] row major (as nn.Linear keeps it), one scale per output channel
 *   residual, out : fp16 [M, N]
 *
 * K has to be a multiple of 16 (one cp.async), N of 2 (half2 stores). M, N, K need not be multiples of the tile.
 */
#include <cstdint>
#include <cuda_fp16.h>

namespace qlin {

// ---------------------------------------------------------------- PTX wrappers
__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_16B(uint32_t dst, const void* src, bool pred) {
    const int bytes = pred ? 16 : 0;  // the rest of the 16 bytes is zero-filled
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}

__device__ __forceinline__ void imma_16832(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---------------------------------------------------------------- activations
struct Identity {
    static __device__ __forceinline__ float apply(float v) { return v; }
};
struct ReLU {
    static __device__ __forceinline__ float apply(float v) { return v > 0.f ? v : 0.f; }
};
struct SiLU {
    static __device__ __forceinline__ float apply(float v) { return v / (1.f + __expf(-v)); }
};

// ---------------------------------------------------------------- tiling
constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;  // bytes = int8 elements; four 16-byte chunks per row of a tile
constexpr int kStages = 3;
constexpr int kWarpsM = 2;
constexpr int kWarpsN = 2;
constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = kBlockM / kWarpsM;  // 32
constexpr int kWarpN = kBlockN / kWarpsN;  // 32
constexpr int kMmaM = kWarpM / 16;
constexpr int kMmaN = kWarpN / 8;
constexpr int kChunks = kBlockK / 16;
constexpr int kBytesX = kBlockM * kBlockK;
constexpr int kBytesW = kBlockN * kBlockK;
constexpr int kGroupM = 2;  // tiles of M that are run one behind another, so that W stays in L2

// Two rows of a tile fill the 128 bytes of all banks, so the chunk is XORed with row / 2.
__device__ __forceinline__ int swizzle(int row, int chunk) {
    return row * kBlockK + ((chunk ^ ((row >> 1) & (kChunks - 1))) << 4);
}

template <int kRows>
__device__ __forceinline__ void copy_tile(uint32_t smem, const int8_t* __restrict__ gmem, int row0, int rows, int k0,
                                          int K) {
#pragma unroll
    for (int it = 0; it < kRows * kChunks / kThreads; ++it) {
        const int idx = it * kThreads + threadIdx.x;
        const int r = idx / kChunks;
        const int c = idx % kChunks;
        const bool ok = row0 + r < rows && k0 + c * 16 < K;
        const int8_t* src = ok ? gmem + static_cast<int64_t>(row0 + r) * K + k0 + c * 16 : gmem;
        cp_async_16B(smem + swizzle(r, c), src, ok);
    }
}

template <class Act, bool kHasResidual>
__global__ void __launch_bounds__(kThreads)
linear_i8_kernel(const int8_t* __restrict__ x, const int8_t* __restrict__ w, const float* __restrict__ scale_x,
                 const float* __restrict__ scale_w, const half* __restrict__ bias, const half* __restrict__ residual,
                 half* __restrict__ out, int M, int N, int K) {
    extern __shared__ __align__(128) uint8_t smem[];
    const uint32_t smem_x = smem_u32(smem);
    const uint32_t smem_w = smem_x + kStages * kBytesX;

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int wm = (warp / kWarpsN) * kWarpM;
    const int wn = (warp % kWarpsN) * kWarpN;

    // grouped launch order, the last group may be smaller
    const int tiles_m = (M + kBlockM - 1) / kBlockM;
    const int tiles_n = (N + kBlockN - 1) / kBlockN;
    const int per_group = kGroupM * tiles_n;
    const int group = blockIdx.x / per_group;
    const int first_m = group * kGroupM;
    const int group_size = min(tiles_m - first_m, kGroupM);
    const int in_group = blockIdx.x % per_group;
    const int m0 = (first_m + in_group % group_size) * kBlockM;
    const int n0 = (in_group / group_size) * kBlockN;

    int acc[kMmaM][kMmaN][4];
#pragma unroll
    for (int i = 0; i < kMmaM; ++i)
#pragma unroll
        for (int j = 0; j < kMmaN; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;

    const int k_tiles = (K + kBlockK - 1) / kBlockK;
    int fetch = 0;  // the next tile to be fetched
    int slot_w = 0;  // ... into this stage
    int slot_r = 0;  // stage that is multiplied next

#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) {
        if (fetch < k_tiles) {
            copy_tile<kBlockM>(smem_x + slot_w * kBytesX, x, m0, M, fetch * kBlockK, K);
            copy_tile<kBlockN>(smem_w + slot_w * kBytesW, w, n0, N, fetch * kBlockK, K);
        }
        cp_async_fence();
        ++fetch;
        ++slot_w;
    }

#pragma unroll 1
    for (int kt = 0; kt < k_tiles; ++kt) {
        cp_async_wait<kStages - 2>();
        __syncthreads();

        if (fetch < k_tiles) {
            copy_tile<kBlockM>(smem_x + slot_w * kBytesX, x, m0, M, fetch * kBlockK, K);
            copy_tile<kBlockN>(smem_w + slot_w * kBytesW, w, n0, N, fetch * kBlockK, K);
        }
        cp_async_fence();
        ++fetch;
        slot_w = slot_w + 1 == kStages ? 0 : slot_w + 1;

        const uint32_t xs = smem_x + slot_r * kBytesX;
        const uint32_t ws = smem_w + slot_r * kBytesW;
#pragma unroll
        for (int ks = 0; ks < kBlockK / 32; ++ks) {
            uint32_t fx[kMmaM][4];
            uint32_t fw[kMmaN / 2][4];
#pragma unroll
            for (int i = 0; i < kMmaM; ++i) ldsm_x4(fx[i], xs + swizzle(wm + i * 16 + lane % 16, ks * 2 + lane / 16));
#pragma unroll
            for (int j = 0; j < kMmaN / 2; ++j) {
                const int row = wn + j * 16 + (lane / 16) * 8 + lane % 8;
                const int chunk = ks * 2 + (lane / 8) % 2;
                ldsm_x4(fw[j], ws + swizzle(row, chunk));
            }
#pragma unroll
            for (int i = 0; i < kMmaM; ++i)
#pragma unroll
                for (int j = 0; j < kMmaN; ++j)
                    imma_16832(acc[i][j], fx[i], fw[j / 2][(j % 2) * 2], fw[j / 2][(j % 2) * 2 + 1]);
        }
        slot_r = slot_r + 1 == kStages ? 0 : slot_r + 1;
    }

    // fused epilogue, straight from the accumulators
#pragma unroll
    for (int i = 0; i < kMmaM; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int m = m0 + wm + i * 16 + h * 8 + lane / 4;
            if (m >= M) continue;
            const float sx = scale_x[m];
#pragma unroll
            for (int j = 0; j < kMmaN; ++j) {
                const int n = n0 + wn + j * 8 + (lane % 4) * 2;
                if (n >= N) continue;
                const int64_t at = static_cast<int64_t>(m) * N + n;
                const float2 sw = *reinterpret_cast<const float2*>(scale_w + n);
                const float2 b = __half22float2(*reinterpret_cast<const half2*>(bias + n));
                float v0 = static_cast<float>(acc[i][j][h * 2]) * sx * sw.x + b.x;
                float v1 = static_cast<float>(acc[i][j][h * 2 + 1]) * sx * sw.y + b.y;
                if (kHasResidual) {
                    const float2 r = __half22float2(*reinterpret_cast<const half2*>(residual + at));
                    v0 += r.x;
                    v1 += r.y;
                }
                *reinterpret_cast<half2*>(out + at) = __floats2half2_rn(Act::apply(v0), Act::apply(v1));
            }
        }
    }
}

template <class Act>
void linear_i8(const int8_t* x, const int8_t* w, const float* scale_x, const float* scale_w, const half* bias,
               const half* residual, half* out, int M, int N, int K, cudaStream_t stream) {
    const int tiles = ((M + kBlockM - 1) / kBlockM) * ((N + kBlockN - 1) / kBlockN);
    const size_t smem = kStages * (kBytesX + kBytesW);
    if (residual)
        linear_i8_kernel<Act, true><<<tiles, kThreads, smem, stream>>>(x, w, scale_x, scale_w, bias, residual, out, M, N, K);
    else
        linear_i8_kernel<Act, false><<<tiles, kThreads, smem, stream>>>(x, w, scale_x, scale_w, bias, residual, out, M, N, K);
}

}  // namespace qlin
