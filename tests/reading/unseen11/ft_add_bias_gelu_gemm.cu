/*
 * FFN first layer in the FasterTransformer fashion: out = gelu(in x W + bias)
 * The GEMM epilogue applies bias and activation in registers through a tag type.
 */
#include <assert.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>

namespace fastertransformer {

enum class ActivationType { Gelu, Relu, Silu, Identity };

template <ActivationType ACT> struct Activation;
template <> struct Activation<ActivationType::Gelu> {
    static __device__ __forceinline__ float apply(float x)
    {
        const float cdf = 0.5f * (1.0f + tanhf((0.7978845608028654f * (x + 0.044715f * x * x * x))));
        return x * cdf;
    }
};
template <> struct Activation<ActivationType::Relu> {
    static __device__ __forceinline__ float apply(float x) { return x > 0.0f ? x : 0.0f; }
};
template <> struct Activation<ActivationType::Silu> {
    static __device__ __forceinline__ float apply(float x) { return x / (1.0f + __expf(-x)); }
};
template <> struct Activation<ActivationType::Identity> {
    static __device__ __forceinline__ float apply(float x) { return x; }
};

struct GemmCoord {
    int m, n, k;
};

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const half* p)
{
    unsigned addr = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ __forceinline__ void ldsm_x2_t(unsigned (&r)[2], const half* p)
{
    unsigned addr = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(addr));
}

template <int TILE_M, int TILE_N, int TILE_K, ActivationType ACT>
__global__ void linear_bias_act(half* __restrict__ out, const half* __restrict__ in, const half* __restrict__ kernel,
                                const half* __restrict__ bias, const GemmCoord problem)
{
    static_assert(TILE_M == 32 && TILE_N == 64, "4 warps, 16 x 32 each");
    __shared__ __align__(16) half smem_a[TILE_M][TILE_K + 8];
    __shared__ __align__(16) half smem_b[TILE_K][TILE_N + 8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wm = (warp & 1) * 16, wn = (warp >> 1) * 32;
    const int bm = blockIdx.x * TILE_M, bn = blockIdx.y * TILE_N;

    float acc[4][4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0.f;

    const float4 zero4 = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k0 = 0; k0 < problem.k; k0 += TILE_K) {
        for (int v = threadIdx.x; v < TILE_M * TILE_K / 8; v += blockDim.x) {
            int r = v / (TILE_K / 8), c = v % (TILE_K / 8) * 8;
            bool pred = bm + r < problem.m && k0 + c < problem.k;
            *(float4*)&smem_a[r][c] = pred ? *(const float4*)&in[(long)(bm + r) * problem.k + k0 + c] : zero4;
        }
        for (int v = threadIdx.x; v < TILE_K * TILE_N / 8; v += blockDim.x) {
            int r = v / (TILE_N / 8), c = v % (TILE_N / 8) * 8;
            bool pred = k0 + r < problem.k && bn + c < problem.n;
            *(float4*)&smem_b[r][c] = pred ? *(const float4*)&kernel[(long)(k0 + r) * problem.n + bn + c] : zero4;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < TILE_K; kk += 16) {
            unsigned a[4];
            ldsm_x4(a, &smem_a[wm + lane % 16][kk + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                unsigned b[2];
                ldsm_x2_t(b, &smem_b[kk + lane % 16][wn + j * 8]);
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int col = bn + wn + j * 8 + lane % 4 * 2;
        if (col >= problem.n)
            continue;
        const float2 b2 = __half22float2(*(const half2*)(bias + col));
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = bm + wm + lane / 4 + h * 8;
            if (row < problem.m) {
                half2 o = __floats2half2_rn(Activation<ACT>::apply(acc[j][2 * h] + b2.x), Activation<ACT>::apply(acc[j][2 * h + 1] + b2.y));
                *(half2*)(out + (long)row * problem.n + col) = o;
            }
        }
    }
}

template <ActivationType ACT>
void launch_linear(half* out, const half* in, const half* kernel, const half* bias, int m, int n, int k, cudaStream_t stream)
{
    assert(n % 8 == 0 && k % 8 == 0);
    constexpr int TILE_M = 32, TILE_N = 64, TILE_K = 32;
    dim3 grid((m + TILE_M - 1) / TILE_M, (n + TILE_N - 1) / TILE_N);
    linear_bias_act<TILE_M, TILE_N, TILE_K, ACT><<<grid, 128, 0, stream>>>(out, in, kernel, bias, GemmCoord{m, n, k});
}

void invokeFfnInter(half* inter_buf, const half* from_tensor, const half* weight, const half* bias, const int token_num,
                    const int inter_size, const int hidden_units, ActivationType activation, cudaStream_t stream)
{
    switch (activation) {
        case ActivationType::Gelu:
            launch_linear<ActivationType::Gelu>(inter_buf, from_tensor, weight, bias, token_num, inter_size, hidden_units, stream);
            break;
        case ActivationType::Relu:
            launch_linear<ActivationType::Relu>(inter_buf, from_tensor, weight, bias, token_num, inter_size, hidden_units, stream);
            break;
        case ActivationType::Silu:
            launch_linear<ActivationType::Silu>(inter_buf, from_tensor, weight, bias, token_num, inter_size, hidden_units, stream);
            break;
        default:
            launch_linear<ActivationType::Identity>(inter_buf, from_tensor, weight, bias, token_num, inter_size, hidden_units, stream);
    }
}

}  // namespace fastertransformer
