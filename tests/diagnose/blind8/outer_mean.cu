// Outer product mean (Evoformer / MSA module), forward:
//   out[i][j][c][d] = sum_s a[s][i][c] * b[s][j][d] / (eps + sum_s mask[s][i] * mask[s][j])
// a and b are masked already. Seen as one product, with the sequences s as its depth:
//   (I*C) x S  times  S x (J*C)
// Both operands lie with s outermost, so both fragments come from ldmatrix with .trans.
#pragma once
#include <cuda_fp16.h>
#include <cstdint>

namespace opm {

template <int C_>
struct Config {
    static constexpr int C = C_;             // channels of a position
    static constexpr int kI = 64 / C;        // positions i of a block
    static constexpr int kJ = 32 / C;        // positions j of a block
    static constexpr int kM = kI * C;
    static constexpr int kN = kJ * C;
    static constexpr int kS = 32;            // sequences in shared memory
    static constexpr int kWarps = kM / 16;
    static constexpr int kThreads = kWarps * 32;
    static constexpr int kLdA = kM + 8;
    static constexpr int kLdB = kN + 8;
};

struct Params {
    const __half *__restrict__ a;       // [S, I, C]
    const __half *__restrict__ b;       // [S, J, C]
    const float *__restrict__ mask_a;   // [S, I]
    const float *__restrict__ mask_b;   // [S, J]
    __half *__restrict__ out;           // [I, J, C, C]
    int S, I, J;
    float eps;
};

inline __device__ void ldmatrix_trans(uint32_t (&r)[4], const __half *ptr)
{
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

inline __device__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t b0, const uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// rows s0 ... of a [S][width] matrix, columns col0 ...; what lies outside becomes zero
template <int kRows, int kCols, int kLd, int kThreads>
inline __device__ void copy_tile(__half *smem, const __half *gmem, int s0, int S, int col0, int width)
{
    constexpr int kVec = kCols / 8;
    for (int v = threadIdx.x; v < kRows * kVec; v += kThreads) {
        const int s = v / kVec, c = v % kVec * 8;
        const bool ok = s0 + s < S && col0 + c < width;
        const __half *src = ok ? gmem + static_cast<int64_t>(s0 + s) * width + col0 + c : gmem;
        const uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(smem + s * kLd + c));
        const int bytes = ok ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes));
    }
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads) outer_product_mean(const Params p)
{
    constexpr int C = Cfg::C;
    __shared__ __align__(16) __half smem_a[2][Cfg::kS * Cfg::kLdA];
    __shared__ __align__(16) __half smem_b[2][Cfg::kS * Cfg::kLdB];
    __shared__ float smem_norm[Cfg::kI][Cfg::kJ];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int i0 = blockIdx.y * Cfg::kI;
    const int j0 = blockIdx.x * Cfg::kJ;

    const auto prefetch = [&](int step) {
        copy_tile<Cfg::kS, Cfg::kM, Cfg::kLdA, Cfg::kThreads>(smem_a[step % 2], p.a, step * Cfg::kS, p.S, i0 * C, p.I * C);
        copy_tile<Cfg::kS, Cfg::kN, Cfg::kLdB, Cfg::kThreads>(smem_b[step % 2], p.b, step * Cfg::kS, p.S, j0 * C, p.J * C);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    prefetch(0);

    // how many sequences have both positions: a warp for each pair, one after the other
    for (int pair = warp; pair < Cfg::kI * Cfg::kJ; pair += Cfg::kWarps) {
        const int i = i0 + pair / Cfg::kJ, j = j0 + pair % Cfg::kJ;
        float n = 0.f;
        if (i < p.I && j < p.J)
            for (int s = lane; s < p.S; s += 32) n += p.mask_a[s * p.I + i] * p.mask_b[s * p.J + j];
#pragma unroll
        for (int d = 16; d > 0; d /= 2) n += __shfl_xor_sync(0xffffffff, n, d);
        if (lane == 0) smem_norm[pair / Cfg::kJ][pair % Cfg::kJ] = 1.f / (p.eps + n);
    }

    float acc[Cfg::kN / 8][4];
#pragma unroll
    for (int n = 0; n < Cfg::kN / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[n][e] = 0.f;

    const int steps = (p.S + Cfg::kS - 1) / Cfg::kS;
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (step + 1 < steps) prefetch(step + 1);

        const __half *ta = smem_a[step % 2];
        const __half *tb = smem_b[step % 2];
#pragma unroll
        for (int k = 0; k < Cfg::kS; k += 16) {
            uint32_t fa[4];
            // the four 8x8 of A, transposed: (k, m), (k, m + 8), (k + 8, m), (k + 8, m + 8)
            ldmatrix_trans(fa, ta + (k + lane / 16 * 8 + lane % 8) * Cfg::kLdA + warp * 16 + lane / 8 % 2 * 8);
#pragma unroll
            for (int n = 0; n < Cfg::kN; n += 16) {
                uint32_t fb[4];
                ldmatrix_trans(fb, tb + (k + lane % 16) * Cfg::kLdB + n + lane / 16 * 8);
                mma(acc[n / 8], fa, fb[0], fb[1]);
                mma(acc[n / 8 + 1], fa, fb[2], fb[3]);
            }
        }
    }

#pragma unroll
    for (int n = 0; n < Cfg::kN / 8; ++n) {
#pragma unroll
        for (int half_row = 0; half_row < 2; ++half_row) {
            const int m = warp * 16 + lane / 4 + half_row * 8;
            const int col = n * 8 + lane % 4 * 2;
            const int i = i0 + m / C, c = m % C;
            const int j = j0 + col / C, d = col % C;
            if (i < p.I && j < p.J) {
                const float norm = smem_norm[m / C][col / C];
                const __half2 v = __floats2half2_rn(acc[n][half_row * 2] * norm, acc[n][half_row * 2 + 1] * norm);
                *reinterpret_cast<__half2 *>(p.out + ((static_cast<int64_t>(i) * p.J + j) * C + c) * C + d) = v;
            }
        }
    }
}

}  // namespace opm

template __global__ void opm::outer_product_mean<opm::Config<8>>(const opm::Params);
