// Decode step attention over a paged KV cache.
// One block per (KV head, sequence): a key is read once for all query heads that share it.
#include <cuda_bf16.h>
#include <cfloat>
#include <cstdint>

namespace engine {

using Bf16  = __nv_bfloat16;
using Bf162 = __nv_bfloat162;

static constexpr int   kWarpSize     = 32;
static constexpr int   kWarpsPerBlock = 4;
static constexpr float kLog2e        = 1.44269504f;
static constexpr float kLn2          = 0.69314718f;

struct KvCacheView
{
    const Bf16*    pKeys;        // [numPages, numKvHeads, pageSize, headDim]
    const Bf16*    pValues;      // [numPages, numKvHeads, pageSize, headDim]
    const int32_t* pPageTable;   // [numSeqs, maxPages]
    const int32_t* pSeqLens;     // [numSeqs]
    int            pageSize;
    int            maxPages;
};

__device__ __forceinline__ float WarpSum(float value)
{
    #pragma unroll
    for (int mask = kWarpSize / 2; mask > 0; mask >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, mask);
    return value;
}

// A lane's part of a row of headDim elements: pairs (lane, lane + 32, ...).
template <int HeadDim>
__device__ __forceinline__ void LoadRow(float (&dst)[HeadDim / kWarpSize], const Bf16* pRow, int lane)
{
    #pragma unroll
    for (int i = 0; i < HeadDim / (2 * kWarpSize); ++i)
    {
        const Bf162  pair = reinterpret_cast<const Bf162*>(pRow)[lane + i * kWarpSize];
        const float2 f    = __bfloat1622float2(pair);
        dst[2 * i]     = f.x;
        dst[2 * i + 1] = f.y;
    }
}

template <int HeadDim, int GroupSize>
__global__ void __launch_bounds__(kWarpsPerBlock* kWarpSize)
    PagedGqaDecode(const Bf16* __restrict__ pQuery,    // [numSeqs, numHeads, headDim]
                   Bf16* __restrict__ pOut,            // [numSeqs, numHeads, headDim]
                   float* __restrict__ pLse,           // [numSeqs, numHeads]
                   KvCacheView cache, float scale, float softcap)
{
    constexpr int kPerLane = HeadDim / kWarpSize;

    __shared__ float sMax[kWarpsPerBlock][GroupSize];
    __shared__ float sSum[kWarpsPerBlock][GroupSize];
    __shared__ float sOut[kWarpsPerBlock][GroupSize][HeadDim];

    const int kvHead     = blockIdx.x;
    const int numKvHeads = gridDim.x;
    const int seq        = blockIdx.y;
    const int numHeads   = numKvHeads * GroupSize;
    const int warp       = threadIdx.x / kWarpSize;
    const int lane       = threadIdx.x % kWarpSize;

    const int      seqLen    = cache.pSeqLens[seq];
    const int      numPages  = (seqLen + cache.pageSize - 1) / cache.pageSize;
    const int32_t* pTable    = cache.pPageTable + seq * cache.maxPages;
    const int      firstHead = kvHead * GroupSize;

    float query[GroupSize][kPerLane];
    float out[GroupSize][kPerLane];
    float runningMax[GroupSize];
    float runningSum[GroupSize];

    #pragma unroll
    for (int g = 0; g < GroupSize; ++g)
    {
        LoadRow<HeadDim>(query[g], pQuery + (static_cast<int64_t>(seq) * numHeads + firstHead + g) * HeadDim, lane);
        runningMax[g] = -FLT_MAX;
        runningSum[g] = 0.f;
        #pragma unroll
        for (int i = 0; i < kPerLane; ++i)
            out[g][i] = 0.f;
    }

    // Warps take turns at the pages; the online softmax of each is its own.
    for (int page = warp; page < numPages; page += kWarpsPerBlock)
    {
        const int64_t pageBase =
            (static_cast<int64_t>(pTable[page]) * numKvHeads + kvHead) * cache.pageSize * HeadDim;
        const int tokens = min(cache.pageSize, seqLen - page * cache.pageSize);

        for (int token = 0; token < tokens; ++token)
        {
            float key[kPerLane];
            float value[kPerLane];
            LoadRow<HeadDim>(key, cache.pKeys + pageBase + token * HeadDim, lane);
            LoadRow<HeadDim>(value, cache.pValues + pageBase + token * HeadDim, lane);

            #pragma unroll
            for (int g = 0; g < GroupSize; ++g)
            {
                float dot = 0.f;
                #pragma unroll
                for (int i = 0; i < kPerLane; ++i)
                    dot += query[g][i] * key[i];
                float score = WarpSum(dot) * scale;
                if (softcap > 0.f)
                    score = softcap * tanhf(score / softcap);
                score *= kLog2e;   // from here on everything is in base two

                const float newMax  = fmaxf(runningMax[g], score);
                const float rescale = exp2f(runningMax[g] - newMax);
                const float p       = exp2f(score - newMax);

                runningSum[g] = runningSum[g] * rescale + p;
                runningMax[g] = newMax;
                #pragma unroll
                for (int i = 0; i < kPerLane; ++i)
                    out[g][i] = out[g][i] * rescale + p * value[i];
            }
        }
    }

    #pragma unroll
    for (int g = 0; g < GroupSize; ++g)
    {
        if (lane == 0)
        {
            sMax[warp][g] = runningMax[g];
            sSum[warp][g] = runningSum[g];
        }
        #pragma unroll
        for (int i = 0; i < kPerLane / 2; ++i)
        {
            sOut[warp][g][2 * (lane + i * kWarpSize)]     = out[g][2 * i];
            sOut[warp][g][2 * (lane + i * kWarpSize) + 1] = out[g][2 * i + 1];
        }
    }
    __syncthreads();

    // Merge what the warps have. Those that had no page have a sum of 0.
    for (int index = threadIdx.x; index < GroupSize * HeadDim; index += blockDim.x)
    {
        const int g   = index / HeadDim;
        const int dim = index % HeadDim;

        float blockMax = -FLT_MAX;
        for (int w = 0; w < kWarpsPerBlock; ++w)
            blockMax = fmaxf(blockMax, sMax[w][g]);

        float total  = 0.f;
        float result = 0.f;
        for (int w = 0; w < kWarpsPerBlock; ++w)
        {
            const float weight = exp2f(sMax[w][g] - blockMax);
            total  += sSum[w][g] * weight;
            result += sOut[w][g][dim] * weight;
        }

        const int64_t head = static_cast<int64_t>(seq) * numHeads + firstHead + g;
        pOut[head * HeadDim + dim] = __float2bfloat16(total > 0.f ? result / total : 0.f);
        if (dim == 0)
            pLse[head] = total > 0.f ? blockMax * kLn2 + logf(total) : -INFINITY;
    }
}

template <int HeadDim, int GroupSize>
void LaunchPagedGqaDecode(const Bf16* pQuery, Bf16* pOut, float* pLse, const KvCacheView& cache, int numSeqs,
                          int numKvHeads, float scale, float softcap, cudaStream_t stream)
{
    const dim3 grid(numKvHeads, numSeqs);
    PagedGqaDecode<HeadDim, GroupSize>
        <<<grid, kWarpsPerBlock * kWarpSize, 0, stream>>>(pQuery, pOut, pLse, cache, scale, softcap);
}

template void LaunchPagedGqaDecode<128, 4>(const Bf16*, Bf16*, float*, const KvCacheView&, int, int, float, float,
                                           cudaStream_t);

} // namespace engine
