// Weight-only int8 linear for small batches (decoding):
//
//   out[m][n] = sum_k x[m][k] * (w[n][k] - 128) * scales[k / group][n]  (+ bias[n])
//
//   x       half    [M][K]
//   w       uint8_t [N][K]             the zero point is 128
//   scales  half    [K / group][N]     group is a multiple of 64
//   out     half    [M][N]
//
// A block computes 16 x 64 outputs. Its four warps divide each K-step of 64 between them ("slice-K"): every warp has
// the whole tile, for a quarter of the k, and the four partial sums are added in shared memory at the end.
// Requires K % 64 == 0 and N % 8 == 0; sm_80+.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace wo {

constexpr int CTA_M = 16;
constexpr int CTA_N = 64;
constexpr int CTA_K = 64;
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * 32;
constexpr int SLICE_K = CTA_K / WARPS;
constexpr int N_FRAGS = CTA_N / 8;
constexpr int STAGES = 2;
constexpr int LD_X = CTA_K + 8;     // halves
constexpr int LD_W = CTA_K + 16;    // bytes
constexpr int LD_RED = CTA_N + 4;   // floats

__device__ __forceinline__ uint32_t smem_u32(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool pred)
{
    const int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }

template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_u32(p)));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// two unsigned bytes to two halves, less 128: 0x6400 | u is the half 1024 + u
__device__ __forceinline__ uint32_t dequant2(uint16_t packed, half2 scale)
{
    uint32_t h = __byte_perm(packed, 0x64646464u, 0x4140);
    const half2 magic = __half2half2(__ushort_as_half(0x6480));    // 1024 + 128
    half2 v = __hsub2(*reinterpret_cast<half2 *>(&h), magic);
    v = __hmul2(v, scale);
    return *reinterpret_cast<uint32_t *>(&v);
}

struct Params {
    const half *x;
    const uint8_t *w;
    const half *scales;
    const half *bias;
    half *out;
    int M, N, K, group;
};

__device__ __forceinline__ void load_stage(const Params &p, half *sx, uint8_t *sw, int m0, int n0, int k0)
{
    // x: 16 rows of 8 vectors, one per thread
    {
        const int r = threadIdx.x / 8;
        const int c = threadIdx.x % 8 * 8;
        const bool ok = m0 + r < p.M;
        cp_async16(sx + r * LD_X + c, p.x + (ok ? (size_t)(m0 + r) * p.K + k0 + c : 0), ok);
    }
    // w: 64 rows of 4 vectors
#pragma unroll
    for (int i = threadIdx.x; i < CTA_N * CTA_K / 16; i += THREADS) {
        const int r = i / 4;
        const int c = i % 4 * 16;
        const bool ok = n0 + r < p.N;
        cp_async16(sw + r * LD_W + c, p.w + (ok ? (size_t)(n0 + r) * p.K + k0 + c : 0), ok);
    }
}

__global__ void __launch_bounds__(THREADS) linear_w8a16_kernel(Params p)
{
    __shared__ __align__(16) half s_x[STAGES][CTA_M * LD_X];
    __shared__ __align__(16) uint8_t s_w[STAGES][CTA_N * LD_W];
    __shared__ float s_red[WARPS][CTA_M * LD_RED];

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int m0 = blockIdx.y * CTA_M;
    const int n0 = blockIdx.x * CTA_N;
    const int k_slice = warp * SLICE_K;

    float acc[N_FRAGS][4] = {};
    const int steps = p.K / CTA_K;

    load_stage(p, s_x[0], s_w[0], m0, n0, 0);
    cp_async_commit();

    for (int step = 0; step < steps; ++step) {
        const int cur = step % STAGES;
        if (step + 1 < steps)
            load_stage(p, s_x[cur ^ 1], s_w[cur ^ 1], m0, n0, (step + 1) * CTA_K);
        cp_async_commit();

        // this step's scale of the column that the lane has in each fragment
        const half *scale_row = p.scales + (size_t)(step * CTA_K / p.group) * p.N;
        half scale[N_FRAGS];
#pragma unroll
        for (int f = 0; f < N_FRAGS; ++f) {
            const int n = n0 + f * 8 + g;
            scale[f] = n < p.N ? __ldg(scale_row + n) : __float2half(0.0f);
        }
        cp_async_wait<1>();
        __syncthreads();

        uint32_t a[4];
        ldmatrix_x4(a, &s_x[cur][(lane & 15) * LD_X + k_slice + (lane >> 4) * 8]);
#pragma unroll
        for (int f = 0; f < N_FRAGS; ++f) {
            const uint8_t *wp = &s_w[cur][(f * 8 + g) * LD_W + k_slice + t * 2];
            const half2 s2 = __half2half2(scale[f]);
            const uint32_t b0 = dequant2(*reinterpret_cast<const uint16_t *>(wp), s2);
            const uint32_t b1 = dequant2(*reinterpret_cast<const uint16_t *>(wp + 8), s2);
            mma_16816(acc[f], a, b0, b1);
        }
        __syncthreads();
    }

    // partial sums of the warps
#pragma unroll
    for (int f = 0; f < N_FRAGS; ++f) {
        float *dst = &s_red[warp][g * LD_RED + f * 8 + t * 2];
        dst[0] = acc[f][0];
        dst[1] = acc[f][1];
        dst[8 * LD_RED] = acc[f][2];
        dst[8 * LD_RED + 1] = acc[f][3];
    }
    __syncthreads();

    for (int i = threadIdx.x; i < CTA_M * CTA_N / 2; i += THREADS) {
        const int r = i / (CTA_N / 2);
        const int c = i % (CTA_N / 2) * 2;
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int s = 0; s < WARPS; ++s) {
            sum.x += s_red[s][r * LD_RED + c];
            sum.y += s_red[s][r * LD_RED + c + 1];
        }
        const int m = m0 + r;
        const int n = n0 + c;
        if (m < p.M && n < p.N) {
            if (p.bias) {
                const float2 b = __half22float2(*reinterpret_cast<const half2 *>(p.bias + n));
                sum.x += b.x;
                sum.y += b.y;
            }
            *reinterpret_cast<half2 *>(p.out + (size_t)m * p.N + n) = __float22half2_rn(sum);
        }
    }
}

void linear_w8a16(const half *x, const uint8_t *w, const half *scales, const half *bias, half *out, int M, int N,
                  int K, int group, cudaStream_t stream)
{
    Params p{x, w, scales, bias, out, M, N, K, group};
    dim3 grid((N + CTA_N - 1) / CTA_N, (M + CTA_M - 1) / CTA_M);
    linear_w8a16_kernel<<<grid, THREADS, 0, stream>>>(p);
}

}  // namespace wo
