/*
 * out = RMSNorm(x; gamma, eps) @ W^T
 *
 * LLaMA-type blocks apply an RMSNorm right before the QKV / gate-up projections.
 * For decode and small prefill batches the norm is pure overhead, so it is
 * folded into the prologue of the GEMM: each CTA normalises its own 16 rows
 * (K <= MAX_K) into shared memory and then multiplies by a strip of W.
 *
 *   x      [tokens, K]  bf16
 *   gamma  [K]          bf16
 *   W      [N, K]       bf16   (nn.Linear layout)
 *   out    [tokens, N]  bf16
 */
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>

#define FINAL_MASK 0xffffffff
#define DIV_UP(x, y) (((x) + (y) - 1) / (y))

constexpr int ROWS = 16;
constexpr int N_PER_WARP = 16;
constexpr int NUM_WARPS = 4;
constexpr int N_PER_CTA = N_PER_WARP * NUM_WARPS;

template <typename T>
__inline__ __device__ T warpReduceSum(T val)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        val += __shfl_xor_sync(FINAL_MASK, val, mask, 32);
    return val;
}

__global__ void fused_rmsnorm_linear(__nv_bfloat16* __restrict__ out, const __nv_bfloat16* __restrict__ x,
                                     const __nv_bfloat16* __restrict__ gamma, const __nv_bfloat16* __restrict__ W,
                                     float eps, int tokens, int N, int K)
{
    extern __shared__ __align__(128) char shmem[];
    // [ROWS][K + 8] normalised activations, afterwards the fp32 output strip
    __nv_bfloat16* xn = reinterpret_cast<__nv_bfloat16*>(shmem);
    const int ld = K + 8;
    float* strip = reinterpret_cast<float*>(shmem + sizeof(__nv_bfloat16) * ROWS * ld);

    const int warp_id = threadIdx.x / 32;
    const int lane_id = threadIdx.x % 32;
    const int token0 = blockIdx.x * ROWS;
    const int n0 = blockIdx.y * N_PER_CTA + warp_id * N_PER_WARP;

    for (int r = warp_id; r < ROWS; r += NUM_WARPS)
    {
        const int token = token0 + r;
        const __nv_bfloat162* row2 = reinterpret_cast<const __nv_bfloat162*>(x + (int64_t) token * K);
        __nv_bfloat162* dst2 = reinterpret_cast<__nv_bfloat162*>(xn + r * ld);
        float ss = 0.0f;
        if (token < tokens)
        {
            for (int i = lane_id; i < K / 2; i += 32)
            {
                const float2 v = __bfloat1622float2(row2[i]);
                ss += v.x * v.x + v.y * v.y;
            }
        }
        ss = warpReduceSum(ss);
        const float inv_rms = rsqrtf(ss / K + eps);
        for (int i = lane_id; i < K / 2; i += 32)
        {
            __nv_bfloat162 o = __floats2bfloat162_rn(0.0f, 0.0f);
            if (token < tokens)
            {
                const float2 v = __bfloat1622float2(row2[i]);
                const float2 g = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(gamma)[i]);
                o = __floats2bfloat162_rn(v.x * inv_rms * g.x, v.y * inv_rms * g.y);
            }
            dst2[i] = o;
        }
    }
    __syncthreads();

    // W is consumed straight from global memory: 16 output channels per warp
    if (n0 < N)
    {
        using namespace nvcuda::wmma;
        fragment<accumulator, 16, 16, 16, float> acc;
        fill_fragment(acc, 0.0f);
        const __nv_bfloat16* w_ptr = W + (int64_t) n0 * K;
        for (int k = 0; k < K; k += 16)
        {
            fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a;
            fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> b;
            load_matrix_sync(a, xn + k, ld);
            load_matrix_sync(b, w_ptr + k, K);
            mma_sync(acc, a, b, acc);
        }
        store_matrix_sync(strip + warp_id * 16 * 16, acc, 16, mem_row_major);
        __syncwarp();
        for (int i = lane_id; i < 256; i += 32)
        {
            const int token = token0 + i / 16;
            if (token < tokens)
                out[(int64_t) token * N + n0 + i % 16] = __float2bfloat16(strip[warp_id * 256 + i]);
        }
    }
}

// Returns false if the shapes are not supported and the caller has to take the unfused path.
bool invokeFusedRmsNormLinear(__nv_bfloat16* out, const __nv_bfloat16* x, const __nv_bfloat16* gamma,
                              const __nv_bfloat16* W, float eps, int tokens, int N, int K, cudaStream_t stream)
{
    if (K % 16 != 0 || N % 16 != 0)
        return false;
    const size_t smem = sizeof(__nv_bfloat16) * ROWS * (K + 8) + sizeof(float) * NUM_WARPS * 256;
    if (smem > 96 * 1024)
        return false;
    if (smem > 48 * 1024)
        cudaFuncSetAttribute(fused_rmsnorm_linear, cudaFuncAttributeMaxDynamicSharedMemorySize, (int) smem);
    dim3 grid(DIV_UP(tokens, ROWS), DIV_UP(N, N_PER_CTA));
    dim3 block(NUM_WARPS * 32);
    fused_rmsnorm_linear<<<grid, block, smem, stream>>>(out, x, gamma, W, eps, tokens, N, K);
    return true;
}
