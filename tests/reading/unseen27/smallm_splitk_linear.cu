/*
 * Split-K linear layer for small batches (decode phase).
 *
 *   output[m, n] = act[m, k] * weight[n, k]^T + bias[n]
 *
 * Every z-slice of the grid reduces a range of k into its own slab of the float workspace; a second
 * kernel adds the slabs and the bias.  The workspace holds splits * m * n floats.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <algorithm>
#include <stdexcept>

namespace fastllm
{
namespace kernels
{

template <typename T>
__device__ __forceinline__ T castFromFloat(float v);
template <>
__device__ __forceinline__ half castFromFloat<half>(float v)
{
    return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 castFromFloat<__nv_bfloat16>(float v)
{
    return __float2bfloat16_rn(v);
}
template <typename T>
__device__ __forceinline__ float castToFloat(T v)
{
    return static_cast<float>(v);
}

template <typename T, int TILE_M, int TILE_N, int TILE_K>
__global__ void splitkLinearKernel(T const* __restrict__ act, T const* __restrict__ weight,
    float* __restrict__ workspace, int const m, int const n, int const k, int const kPerSplit)
{
    using namespace nvcuda;
    static_assert(TILE_N == 64 && TILE_M % 16 == 0 && TILE_K % 16 == 0, "four warps, 16 columns each");
    constexpr int kPad = 8;
    constexpr int kVec = 8;
    constexpr int kThreads = 128;
    constexpr int kFragM = TILE_M / 16;

    __shared__ __align__(32) T sAct[TILE_M][TILE_K + kPad];
    __shared__ __align__(32) T sWeight[TILE_N][TILE_K + kPad];
    __shared__ __align__(32) float sOut[TILE_M][TILE_N + 4];

    int const tid = threadIdx.x;
    int const warpId = tid / 32;
    int const rowBase = blockIdx.y * TILE_M;
    int const colBase = blockIdx.x * TILE_N;
    int const kBegin = blockIdx.z * kPerSplit;
    int const kEnd = min(k, kBegin + kPerSplit);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kFragM];
#pragma unroll
    for (int i = 0; i < kFragM; ++i)
    {
        wmma::fill_fragment(acc[i], 0.f);
    }

    for (int kt = kBegin; kt < kEnd; kt += TILE_K)
    {
        for (int idx = tid; idx < TILE_M * TILE_K / kVec; idx += kThreads)
        {
            int const r = idx / (TILE_K / kVec);
            int const c = idx % (TILE_K / kVec) * kVec;
            uint4 v = make_uint4(0u, 0u, 0u, 0u);
            if (rowBase + r < m && kt + c < kEnd)
            {
                v = *reinterpret_cast<uint4 const*>(act + static_cast<size_t>(rowBase + r) * k + kt + c);
            }
            *reinterpret_cast<uint4*>(&sAct[r][c]) = v;
        }
        for (int idx = tid; idx < TILE_N * TILE_K / kVec; idx += kThreads)
        {
            int const r = idx / (TILE_K / kVec);
            int const c = idx % (TILE_K / kVec) * kVec;
            uint4 v = make_uint4(0u, 0u, 0u, 0u);
            if (colBase + r < n && kt + c < kEnd)
            {
                v = *reinterpret_cast<uint4 const*>(weight + static_cast<size_t>(colBase + r) * k + kt + c);
            }
            *reinterpret_cast<uint4*>(&sWeight[r][c]) = v;
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < TILE_K; kk += 16)
        {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fragB;
            wmma::load_matrix_sync(fragB, &sWeight[warpId * 16][kk], TILE_K + kPad);
#pragma unroll
            for (int i = 0; i < kFragM; ++i)
            {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fragA;
                wmma::load_matrix_sync(fragA, &sAct[i * 16][kk], TILE_K + kPad);
                wmma::mma_sync(acc[i], fragA, fragB, acc[i]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < kFragM; ++i)
    {
        wmma::store_matrix_sync(&sOut[i * 16][warpId * 16], acc[i], TILE_N + 4, wmma::mem_row_major);
    }
    __syncthreads();

    float* slab = workspace + static_cast<size_t>(blockIdx.z) * m * n;
    for (int idx = tid; idx < TILE_M * TILE_N; idx += kThreads)
    {
        int const r = idx / TILE_N;
        int const c = idx % TILE_N;
        if (rowBase + r < m && colBase + c < n)
        {
            slab[static_cast<size_t>(rowBase + r) * n + colBase + c] = sOut[r][c];
        }
    }
}

template <typename T>
__global__ void splitkReduceKernel(
    T* __restrict__ output, float const* __restrict__ workspace, T const* __restrict__ bias, int const m, int const n,
    int const splits)
{
    size_t const total = static_cast<size_t>(m) * n;
    size_t const idx = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (idx >= total)
    {
        return;
    }
    float sum = bias != nullptr ? castToFloat(bias[idx % n]) : 0.f;
    for (int s = 0; s < splits; ++s)
    {
        sum += workspace[s * total + idx];
    }
    output[idx] = castFromFloat<T>(sum);
}

template <typename T>
void invokeSplitkLinear(T* output, T const* act, T const* weight, T const* bias, float* workspace, int m, int n, int k,
    int splits, cudaStream_t stream)
{
    if (k % 8 != 0 || splits < 1)
    {
        throw std::invalid_argument("splitkLinear: k must be a multiple of 8 and splits positive");
    }
    constexpr int tileM = 32, tileN = 64, tileK = 64;
    int const kTiles = (k + tileK - 1) / tileK;
    splits = std::min(splits, kTiles);
    int const kPerSplit = (kTiles + splits - 1) / splits * tileK;

    dim3 const grid((n + tileN - 1) / tileN, (m + tileM - 1) / tileM, splits);
    splitkLinearKernel<T, tileM, tileN, tileK>
        <<<grid, 128, 0, stream>>>(act, weight, workspace, m, n, k, kPerSplit);

    int const block = 256;
    size_t const total = static_cast<size_t>(m) * n;
    splitkReduceKernel<T><<<static_cast<unsigned>((total + block - 1) / block), block, 0, stream>>>(
        output, workspace, bias, m, n, splits);
}

template void invokeSplitkLinear<half>(
    half*, half const*, half const*, half const*, float*, int, int, int, int, cudaStream_t);
template void invokeSplitkLinear<__nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16 const*, __nv_bfloat16 const*,
    __nv_bfloat16 const*, float*, int, int, int, int, cudaStream_t);

} // namespace kernels
} // namespace fastllm
