// W8A8 linear layer: out[M,N] = half( x_scale[m] * w_scale[n] * (X[M,K] . W[N,K]^T) + bias[n] )
// X and W are int8 with K contiguous; mma.m16n8k32 with int32 sums. K must be a multiple of 16.
#include <cuda_fp16.h>
#include <cstdint>

#define CTA_M 32
#define CTA_N 64
#define CTA_K 64
#define SMEM_PITCH (CTA_K + 16)  // bytes; rows stay 16-byte aligned and hit different banks
#define NUM_THREADS 128

typedef int8_t s8;

template <int ROWS>
struct GlobalLoader {
    static constexpr int VECS = ROWS * CTA_K / 16;
    static constexpr int PER_THREAD = VECS / NUM_THREADS;
    static_assert(VECS % NUM_THREADS == 0, "every thread loads the same number of vectors");
    int4 regs[PER_THREAD];

    __device__ void load(const s8* __restrict__ src, int row_begin, int row_end, int k_begin, int K) {
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            int vec = threadIdx.x + i * NUM_THREADS;
            int row = row_begin + vec / (CTA_K / 16);
            int k = k_begin + vec % (CTA_K / 16) * 16;
            if (row < row_end && k < K)
                regs[i] = __ldg(reinterpret_cast<const int4*>(src + (int64_t)row * K + k));
            else
                regs[i] = make_int4(0, 0, 0, 0);
        }
    }

    __device__ void store(s8* smem) const {
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            int vec = threadIdx.x + i * NUM_THREADS;
            *reinterpret_cast<int4*>(smem + vec / (CTA_K / 16) * SMEM_PITCH + vec % (CTA_K / 16) * 16) = regs[i];
        }
    }
};

__device__ __forceinline__ void mma_m16n8k32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t lds32(const s8* p) { return *reinterpret_cast<const uint32_t*>(p); }

__global__ void __launch_bounds__(NUM_THREADS)
w8a8_linear_kernel(const s8* __restrict__ X, const s8* __restrict__ W, const float* __restrict__ x_scale,
                   const float* __restrict__ w_scale, const half* __restrict__ bias, half* __restrict__ out,
                   int M, int N, int K) {
    __shared__ __align__(16) s8 smem_x[2][CTA_M * SMEM_PITCH];
    __shared__ __align__(16) s8 smem_w[2][CTA_N * SMEM_PITCH];

    const int m_cta = blockIdx.x * CTA_M;
    const int n_cta = blockIdx.y * CTA_N;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_m = warp & 1, warp_n = warp >> 1;
    const int gid = lane / 4, tig = lane % 4;

    GlobalLoader<CTA_M> x_loader;
    GlobalLoader<CTA_N> w_loader;
    int acc[4][4] = {};

    x_loader.load(X, m_cta, M, 0, K);
    w_loader.load(W, n_cta, N, 0, K);
    x_loader.store(smem_x[0]);
    w_loader.store(smem_w[0]);
    __syncthreads();

    int buf = 0;
    for (int k0 = 0; k0 < K; k0 += CTA_K) {
        const bool more = k0 + CTA_K < K;
        if (more) {
            x_loader.load(X, m_cta, M, k0 + CTA_K, K);
            w_loader.load(W, n_cta, N, k0 + CTA_K, K);
        }

#pragma unroll
        for (int kk = 0; kk < CTA_K; kk += 32) {
            const s8* xs = smem_x[buf] + (warp_m * 16 + gid) * SMEM_PITCH + kk + tig * 4;
            uint32_t a[4];
            a[0] = lds32(xs);
            a[1] = lds32(xs + 8 * SMEM_PITCH);
            a[2] = lds32(xs + 16);
            a[3] = lds32(xs + 8 * SMEM_PITCH + 16);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const s8* ws = smem_w[buf] + (warp_n * 32 + j * 8 + gid) * SMEM_PITCH + kk + tig * 4;
                uint32_t b[2] = {lds32(ws), lds32(ws + 16)};
                mma_m16n8k32(acc[j], a, b);
            }
        }

        if (more) {
            buf ^= 1;
            x_loader.store(smem_x[buf]);
            w_loader.store(smem_w[buf]);
            __syncthreads();
        }
    }

    // dequantise
    const int m_lo = m_cta + warp_m * 16 + gid;
    const int m_hi = m_lo + 8;
    const float scale_lo = m_lo < M ? x_scale[m_lo] : 0.f;
    const float scale_hi = m_hi < M ? x_scale[m_hi] : 0.f;
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int n = n_cta + warp_n * 32 + j * 8 + tig * 2 + c;
            if (n >= N) continue;
            const float ws = w_scale[n];
            const float add = __half2float(bias[n]);
            if (m_lo < M) out[(int64_t)m_lo * N + n] = __float2half_rn(acc[j][c] * scale_lo * ws + add);
            if (m_hi < M) out[(int64_t)m_hi * N + n] = __float2half_rn(acc[j][c + 2] * scale_hi * ws + add);
        }
    }
}
