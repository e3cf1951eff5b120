// Rotate and quantise (QuaRot / HadaCore style): q = int8(H (x * smooth) / sqrt(D)), one scale per row, D = 256 * GROUPS.
// H_256 = H_16 (x) H_16, so 256 elements are a 16 x 16 matrix X and the transform is H X H: two chained mma's whose operands
// never leave the registers. The accumulators of the first are, as they lie, the A operand of the second.
#include <cstdint>
#include <cuda_fp16.h>

namespace rot {

constexpr unsigned kFull = 0xffffffffu;
constexpr int kWarps = 4;

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t as_u32(half2 h) { return *reinterpret_cast<uint32_t*>(&h); }

// entries (i, j) and (i, j + 1) of the Hadamard matrix in Sylvester's order
__device__ __forceinline__ uint32_t hadamard2(int i, int j) {
    const float lo = __popc(i & j) & 1 ? -1.0f : 1.0f;
    const float hi = __popc(i & (j + 1)) & 1 ? -1.0f : 1.0f;
    return as_u32(__floats2half2_rn(lo, hi));
}

struct HadamardFrag {
    uint32_t a[4];        // as the left operand
    uint32_t b[2][2];     // as the right one, columns 0-7 and 8-15
    __device__ explicit HadamardFrag(int lane) {
        const int g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = hadamard2(g + (i & 1) * 8, t * 2 + (i >> 1) * 8);
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int k = 0; k < 2; ++k) b[n][k] = hadamard2(n * 8 + g, t * 2 + k * 8);   // symmetric
    }
};

// y[n] = columns 8n .. 8n+7 of (H X H)^T
__device__ __forceinline__ void transform_256(float (&y)[2][4], const half* __restrict__ x, const float* __restrict__ smooth,
                                              const HadamardFrag& h, int lane) {
    const int g = lane >> 2, t = lane & 3;
    float first[2][4] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
        uint32_t b[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            // X^T as the right operand: its column n*8 + g is a row of X
            const int at = (n * 8 + g) * 16 + k * 8 + t * 2;
            const float2 v = __half22float2(*reinterpret_cast<const half2*>(x + at));
            const float2 s = *reinterpret_cast<const float2*>(smooth + at);
            b[k] = as_u32(__floats2half2_rn(v.x * s.x, v.y * s.y));
        }
        mma_16816(first[n], h.a, b);
    }
    const uint32_t a[4] = {as_u32(__floats2half2_rn(first[0][0], first[0][1])), as_u32(__floats2half2_rn(first[0][2], first[0][3])),
                           as_u32(__floats2half2_rn(first[1][0], first[1][1])), as_u32(__floats2half2_rn(first[1][2], first[1][3]))};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) y[n][e] = 0.0f;
        mma_16816(y[n], a, h.b[n]);
    }
}

template <int GROUPS>
__global__ void __launch_bounds__(kWarps * 32)
    hadamard_quant(const half* __restrict__ x, const float* __restrict__ smooth, int8_t* __restrict__ q, float* __restrict__ scale,
                   int rows, int x_stride) {
    constexpr int D = 256 * GROUPS;
    __shared__ __align__(16) int8_t staged[kWarps][D];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int row = blockIdx.x * kWarps + warp;
    if (row >= rows) return;

    const HadamardFrag h(lane);
    float y[GROUPS][2][4];
#pragma unroll
    for (int i = 0; i < GROUPS; ++i) transform_256(y[i], x + static_cast<int64_t>(row) * x_stride + i * 256, smooth + i * 256, h, lane);

    // the groups among each other: a butterfly over registers
#pragma unroll
    for (int step = 1; step < GROUPS; step *= 2)
#pragma unroll
        for (int i = 0; i < GROUPS; ++i)
            if ((i & step) == 0) {
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    const float u = y[i][e >> 2][e & 3], v = y[i + step][e >> 2][e & 3];
                    y[i][e >> 2][e & 3] = u + v;
                    y[i + step][e >> 2][e & 3] = u - v;
                }
            }

    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < GROUPS; ++i)
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            y[i][e >> 2][e & 3] *= rsqrtf(static_cast<float>(D));
            amax = fmaxf(amax, fabsf(y[i][e >> 2][e & 3]));
        }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) amax = fmaxf(amax, __shfl_xor_sync(kFull, amax, d));
    const float inv = amax > 0.0f ? 127.0f / amax : 0.0f;

    // y is the transpose: accumulator (r, c) is element c*16 + r of its group
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < GROUPS; ++i)
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int r = g + (e >> 1) * 8, c = n * 8 + t * 2 + (e & 1);
                staged[warp][i * 256 + c * 16 + r] = static_cast<int8_t>(__float2int_rn(y[i][n][e] * inv));
            }
    __syncwarp();

    int2* dst = reinterpret_cast<int2*>(q + static_cast<int64_t>(row) * D);
    const int2* src = reinterpret_cast<const int2*>(staged[warp]);
#pragma unroll
    for (int i = lane; i < D / 8; i += 32) dst[i] = src[i];
    if (lane == 0) scale[row] = amax / 127.0f;
}

template __global__ void hadamard_quant<2>(const half*, const float*, int8_t*, float*, int, int);

}  // namespace rot
