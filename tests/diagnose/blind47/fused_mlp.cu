// Y = gelu(X Wi^T + bi) Wo^T + bo in one kernel; the hidden activations never leave the registers.
//
//   X [M, D]   Wi [F, D]   bi [F]   Wo [D, F]   bo [D]   Y [M, D]      (weights as nn.Linear has them)
//
// A block has 64 rows of X, a warp 16 of them. The hidden dimension is walked in chunks of 64: the accumulators
// of the first product, after GELU, are the A operand of the second, as P is in FlashAttention-2.
#include <cuda_fp16.h>

namespace fmlp {

constexpr int kWarps   = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kBlockM  = kWarps * 16;
constexpr int kBlockF  = 64;

// index of a 16-byte chunk in a tile whose rows are COLS halfs; chunks of eight rows that are above
// one another lie in different banks
template <int COLS>
__device__ __forceinline__ int swizzle(int row, int chunk) {
    return row * COLS + ((chunk ^ (row & 7)) << 3);
}

__device__ __forceinline__ void cp_async16(half* dst, const half* src, bool pred) {
    const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    const int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" :: "r"(addr), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const half* src) {
    const unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(src));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma16816(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float lo, float hi) {
    const half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const unsigned*>(&h);
}

__device__ __forceinline__ float gelu(float v) {
    return 0.5f * v * (1.0f + erff(v * 0.70710678f));
}

template <int ROWS, int COLS>
__device__ __forceinline__ void load_tile(half* dst, const half* src, int ld, int rows_left, int cols_left) {
    constexpr int kChunks = COLS / 8;
    for (int i = threadIdx.x; i < ROWS * kChunks; i += kThreads) {
        const int row   = i / kChunks;
        const int chunk = i % kChunks;
        const bool pred = row < rows_left && chunk * 8 < cols_left;
        cp_async16(dst + swizzle<COLS>(row, chunk), pred ? src + static_cast<size_t>(row) * ld + chunk * 8 : src, pred);
    }
}

template <int D>
__global__ void __launch_bounds__(kThreads)
fused_mlp_kernel(const half* __restrict__ x, const half* __restrict__ wi, const half* __restrict__ bi,
                 const half* __restrict__ wo, const half* __restrict__ bo, half* __restrict__ y, int M, int F) {
    extern __shared__ __align__(128) half smem[];
    half* sX  = smem;                  // kBlockM x D
    half* sWi = sX + kBlockM * D;      // kBlockF x D
    half* sWo = sWi + kBlockF * D;     // D x kBlockF

    const int warp  = threadIdx.x / 32;
    const int lane  = threadIdx.x % 32;
    const int group = lane / 4;
    const int quad  = lane % 4;
    const int m0    = blockIdx.x * kBlockM;

    // rows and 16-byte chunks that this lane addresses for ldmatrix
    const int a_row   = warp * 16 + (lane & 15);
    const int a_chunk = lane >> 4;
    const int b_row   = (lane & 7) + ((lane >> 4) << 3);
    const int b_chunk = (lane >> 3) & 1;

    float acc[D / 8][4] = {};

    load_tile<kBlockM, D>(sX, x + static_cast<size_t>(m0) * D, D, M - m0, D);
    load_tile<kBlockF, D>(sWi, wi, D, F, D);
    cp_async_commit();

    for (int f0 = 0; f0 < F; f0 += kBlockF) {
        load_tile<D, kBlockF>(sWo, wo + f0, F, D, F - f0);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();    // X and Wi are there

        float h[kBlockF / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            unsigned a[4];
            ldmatrix_x4(a, sX + swizzle<D>(a_row, kk * 2 + a_chunk));
#pragma unroll
            for (int j = 0; j < kBlockF / 16; ++j) {
                unsigned b[4];
                ldmatrix_x4(b, sWi + swizzle<D>(j * 16 + b_row, kk * 2 + b_chunk));
                mma16816(h[2 * j], a, b[0], b[1]);
                mma16816(h[2 * j + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();    // everyone is done with Wi

        const int next = f0 + kBlockF;
        if (next < F)
            load_tile<kBlockF, D>(sWi, wi + static_cast<size_t>(next) * D, D, F - next, D);
        cp_async_commit();

#pragma unroll
        for (int j = 0; j < kBlockF / 8; ++j) {
            const int f = f0 + j * 8 + quad * 2;
            const float bias0 = f < F ? __half2float(bi[f]) : 0.0f;
            const float bias1 = f + 1 < F ? __half2float(bi[f + 1]) : 0.0f;
            h[j][0] = gelu(h[j][0] + bias0);
            h[j][1] = gelu(h[j][1] + bias1);
            h[j][2] = gelu(h[j][2] + bias0);
            h[j][3] = gelu(h[j][3] + bias1);
        }

        cp_async_wait<1>();
        __syncthreads();    // Wo is there

#pragma unroll
        for (int kk = 0; kk < kBlockF / 16; ++kk) {
            unsigned a[4];
            a[0] = pack(h[2 * kk][0], h[2 * kk][1]);
            a[1] = pack(h[2 * kk][2], h[2 * kk][3]);
            a[2] = pack(h[2 * kk + 1][0], h[2 * kk + 1][1]);
            a[3] = pack(h[2 * kk + 1][2], h[2 * kk + 1][3]);
#pragma unroll
            for (int j = 0; j < D / 16; ++j) {
                unsigned b[4];
                ldmatrix_x4(b, sWo + swizzle<kBlockF>(j * 16 + b_row, kk * 2 + b_chunk));
                mma16816(acc[2 * j], a, b[0], b[1]);
                mma16816(acc[2 * j + 1], a, b[2], b[3]);
            }
        }
        __syncthreads();    // everyone is done with Wo
    }

    const int row = m0 + warp * 16 + group;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
        const int col = j * 8 + quad * 2;
        const float bias0 = __half2float(bo[col]);
        const float bias1 = __half2float(bo[col + 1]);
        if (row < M)
            *reinterpret_cast<half2*>(y + static_cast<size_t>(row) * D + col) =
                __floats2half2_rn(acc[j][0] + bias0, acc[j][1] + bias1);
        if (row + 8 < M)
            *reinterpret_cast<half2*>(y + static_cast<size_t>(row + 8) * D + col) =
                __floats2half2_rn(acc[j][2] + bias0, acc[j][3] + bias1);
    }
}

}  // namespace fmlp
