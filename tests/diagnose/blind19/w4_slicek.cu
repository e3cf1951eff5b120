// y = x * dequant(W) + bias for GPTQ weights (4 bits, packed along K), small M.
//
//   x       [M, K]        half
//   qweight [K / 8, N]    int32, 8 rows of K in each word, the first in the lowest bits
//   qzeros  [G, N / 8]    int32, 8 columns in each word, stored less one
//   scales  [G, N]        half,  G = ceil(K / groupsize)
//   bias    [N]           half
//   y       [M, N]        half
//
// A block makes 16 x 32 outputs; its WARPS warps take turns at steps of 16 along K and add up their sums at the end.
#include <cuda_fp16.h>
#include <stdint.h>

template <int WARPS_, int NTILES_>
struct W4Config
{
    static const int WARPS = WARPS_;
    static const int NTILES = NTILES_;              // of 8 columns
    static const int BM = 16;
    static const int BN = NTILES_ * 8;
    static const int STEP = 16;
    static const int XLD = STEP + 8;
    static const int THREADS = WARPS_ * 32;
};

struct FragX { uint32_t r[4]; };
struct FragW { half2 lo, hi; };
struct FragY { float v[4]; };

__device__ __forceinline__ void ldmatrix_x(FragX& f, const half* tile, int ld, int lane)
{
    const half* p = tile + (lane % 16) * ld + (lane / 16) * 8;
    uint32_t s = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]) : "r"(s));
}

__device__ __forceinline__ void mma16816(FragY& y, const FragX& x, const FragW& w)
{
    uint32_t b0 = *reinterpret_cast<const uint32_t*>(&w.lo);
    uint32_t b1 = *reinterpret_cast<const uint32_t*>(&w.hi);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(y.v[0]), "+f"(y.v[1]), "+f"(y.v[2]), "+f"(y.v[3])
                 : "r"(x.r[0]), "r"(x.r[1]), "r"(x.r[2]), "r"(x.r[3]), "r"(b0), "r"(b1));
}

// two neighbouring rows of a word, less the zero point, times the scale
__device__ __forceinline__ half2 dequant_pair(uint32_t word, int first, int zero, half scale)
{
    int q0 = (word >> (4 * first)) & 0xF;
    int q1 = (word >> (4 * first + 4)) & 0xF;
    return __hmul2(__halves2half2(__int2half_rn(q0 - zero), __int2half_rn(q1 - zero)), __half2half2(scale));
}

template <class Cfg>
__global__ void __launch_bounds__(Cfg::THREADS)
w4_gemm(const half* __restrict__ x, const uint32_t* __restrict__ qweight, const uint32_t* __restrict__ qzeros,
        const half* __restrict__ scales, const half* __restrict__ bias, half* __restrict__ y,
        int M, int N, int K, int groupsize)
{
    __shared__ __align__(16) half xs[Cfg::WARPS][Cfg::BM * Cfg::XLD];
    __shared__ float sums[Cfg::WARPS][Cfg::BM][Cfg::BN];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int m0 = blockIdx.y * Cfg::BM;
    const int n0 = blockIdx.x * Cfg::BN;

    FragY acc[Cfg::NTILES] = {};

    for (int k0 = warp * Cfg::STEP; k0 < K; k0 += Cfg::WARPS * Cfg::STEP)
    {
        // this warp's 16 x 16 of x: half a row per lane
        {
            const int r = lane / 2, c = lane % 2 * 8;
            uint4 v = make_uint4(0, 0, 0, 0);
            if (m0 + r < M) v = *reinterpret_cast<const uint4*>(x + (size_t)(m0 + r) * K + k0 + c);
            *reinterpret_cast<uint4*>(&xs[warp][r * Cfg::XLD + c]) = v;
        }
        __syncwarp();
        FragX fx;
        ldmatrix_x(fx, xs[warp], Cfg::XLD, lane);

        const int group = k0 / groupsize;
        #pragma unroll
        for (int j = 0; j < Cfg::NTILES; ++j)
        {
            const int n = n0 + j * 8 + g;
            const uint32_t* words = qweight + (size_t)(k0 / 8) * N + n;
            const int zero = (int)((qzeros[(size_t)group * (N / 8) + n / 8] >> (n % 8 * 4)) & 0xF) + 1;
            const half scale = scales[(size_t)group * N + n];
            FragW fw;
            fw.lo = dequant_pair(words[0], t * 2, zero, scale);
            fw.hi = dequant_pair(words[N], t * 2, zero, scale);
            mma16816(acc[j], fx, fw);
        }
        __syncwarp();
    }

    // sums of the warps
    #pragma unroll
    for (int j = 0; j < Cfg::NTILES; ++j)
    {
        sums[warp][g][j * 8 + t * 2] = acc[j].v[0];
        sums[warp][g][j * 8 + t * 2 + 1] = acc[j].v[1];
        sums[warp][g + 8][j * 8 + t * 2] = acc[j].v[2];
        sums[warp][g + 8][j * 8 + t * 2 + 1] = acc[j].v[3];
    }
    __syncthreads();

    for (int i = threadIdx.x; i < Cfg::BM * Cfg::BN; i += Cfg::THREADS)
    {
        const int r = i / Cfg::BN, c = i % Cfg::BN;
        float s = __half2float(bias[n0 + c]);
        for (int w = 0; w < Cfg::WARPS; ++w) s += sums[w][r][c];
        if (m0 + r < M) y[(size_t)(m0 + r) * N + n0 + c] = __float2half_rn(s);
    }
}

void w4_linear(const half* x, const uint32_t* qweight, const uint32_t* qzeros, const half* scales, const half* bias,
               half* y, int M, int N, int K, int groupsize, cudaStream_t stream)
{
    using Cfg = W4Config<4, 4>;
    dim3 grid(N / Cfg::BN, (M + Cfg::BM - 1) / Cfg::BM);
    w4_gemm<Cfg><<<grid, Cfg::THREADS, 0, stream>>>(x, qweight, qzeros, scales, bias, y, M, N, K, groupsize);
}
