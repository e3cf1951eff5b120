// SwiGLU for the fp32 inference path: RMSNorm followed by the gated projection
//
//    h   = x / sqrt(mean(x^2) + eps) * weight
//    out = silu(h Wg^T) * (h Wu^T)
//
// Both projections run in one kernel: they share the A operand, so it is loaded once, and the
// gate never goes to memory. fp32 storage, tf32 tensor cores (mma.m16n8k8).
//
// Kernels only - see ../runtime/ffn.cpp for the launches:
//    rmsnorm_f32        grid = tokens,                         block = 256
//    swiglu_tf32        grid = (ffn / 32, ceil(tokens / 64)),  block = 128
//
// dim % 32 == 0 and ffn % 32 == 0 (true for all the models we load); tokens is arbitrary.
#include <cuda_runtime.h>
#include <cstdint>

#define FULL_MASK 0xffffffffu

extern "C" __global__ void rmsnorm_f32(float* __restrict__ h, const float* __restrict__ x,
                                       const float* __restrict__ weight, int dim, float eps) {
    __shared__ float partial[8];
    const float* xr = x + (size_t)blockIdx.x * dim;
    float* hr = h + (size_t)blockIdx.x * dim;

    float ss = 0.0f;
    for (int i = threadIdx.x; i < dim; i += 256) ss += xr[i] * xr[i];
    for (int o = 16; o; o >>= 1) ss += __shfl_xor_sync(FULL_MASK, ss, o);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = ss;
    __syncthreads();
    ss = 0.0f;
    for (int i = 0; i < 8; i++) ss += partial[i];

    const float inv = rsqrtf(ss / dim + eps);
    for (int i = threadIdx.x; i < dim; i += 256) hr[i] = xr[i] * inv * weight[i];
}

static __device__ __forceinline__ uint32_t to_tf32(float x) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

static __device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#define SW_BM 64
#define SW_BN 32
#define SW_BK 32
#define SW_LD 36   /* 36 % 32 == 4: rows g = 0..7 times 4 plus t = 0..3 gives 32 different banks */

// h [tokens, dim], wg / wu [ffn, dim], out [tokens, ffn]
// Four warps, each 16 tokens x 32 columns of gate and up.
extern "C" __global__ void __launch_bounds__(128)
swiglu_tf32(float* __restrict__ out, const float* __restrict__ h, const float* __restrict__ wg,
            const float* __restrict__ wu, int tokens, int dim, int ffn) {
    __shared__ __align__(16) uint32_t s_h[SW_BM * SW_LD];
    __shared__ __align__(16) uint32_t s_g[SW_BN * SW_LD];
    __shared__ __align__(16) uint32_t s_u[SW_BN * SW_LD];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int wrow = (tid >> 5) * 16;
    const int row0 = blockIdx.y * SW_BM;
    const int col0 = blockIdx.x * SW_BN;

    float gate[4][4] = {};
    float up[4][4] = {};

    for (int k0 = 0; k0 < dim; k0 += SW_BK) {
        // rounding to tf32 happens once here and not in every warp
        for (int i = tid; i < SW_BM * SW_BK / 4; i += 128) {
            const int r = i / (SW_BK / 4);
            const int c = (i % (SW_BK / 4)) * 4;
            float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
            if (row0 + r < tokens)
                v = *(const float4*)(h + (size_t)(row0 + r) * dim + k0 + c);
            *(uint4*)(s_h + r * SW_LD + c) =
                make_uint4(to_tf32(v.x), to_tf32(v.y), to_tf32(v.z), to_tf32(v.w));
        }
        for (int i = tid; i < SW_BN * SW_BK / 4; i += 128) {
            const int r = i / (SW_BK / 4);
            const int c = (i % (SW_BK / 4)) * 4;
            const size_t off = (size_t)(col0 + r) * dim + k0 + c;
            const float4 vg = *(const float4*)(wg + off);
            const float4 vu = *(const float4*)(wu + off);
            *(uint4*)(s_g + r * SW_LD + c) =
                make_uint4(to_tf32(vg.x), to_tf32(vg.y), to_tf32(vg.z), to_tf32(vg.w));
            *(uint4*)(s_u + r * SW_LD + c) =
                make_uint4(to_tf32(vu.x), to_tf32(vu.y), to_tf32(vu.z), to_tf32(vu.w));
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < SW_BK; kk += 8) {
            // A: (g, t) (g+8, t) (g, t+4) (g+8, t+4)
            uint32_t a[4];
            const uint32_t* pa = s_h + (wrow + g) * SW_LD + kk + t;
            a[0] = pa[0];
            a[1] = pa[8 * SW_LD];
            a[2] = pa[4];
            a[3] = pa[8 * SW_LD + 4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                // B: (k = t, n = g) (k = t + 4, n = g)
                uint32_t b[2];
                const uint32_t* pg = s_g + (j * 8 + g) * SW_LD + kk + t;
                b[0] = pg[0];
                b[1] = pg[4];
                mma_tf32(gate[j], a, b);
                const uint32_t* pu = s_u + (j * 8 + g) * SW_LD + kk + t;
                b[0] = pu[0];
                b[1] = pu[4];
                mma_tf32(up[j], a, b);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int col = col0 + j * 8 + t * 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = row0 + wrow + g + half * 8;
            if (row < tokens) {
                const float g0 = gate[j][half * 2], g1 = gate[j][half * 2 + 1];
                float2 r;
                r.x = g0 / (1.0f + expf(-g0)) * up[j][half * 2];
                r.y = g1 / (1.0f + expf(-g1)) * up[j][half * 2 + 1];
                *(float2*)(out + (size_t)row * ffn + col) = r;
            }
        }
    }
}
