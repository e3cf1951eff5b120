/****************************************************************************************
 *  Bachelor thesis: "Accelerating Vision Transformers on consumer GPUs"
 *  Chapter 5.3: fused multi-head self-attention with the WMMA API
 *
 *  Input :  qkv  [batch][tokens][3][heads][DIM]    (half, output of the qkv linear layer)
 *  Output:  out  [batch][tokens][heads][DIM]       (half)
 *           lse  [batch][heads][tokens]            (float, for the backward pass in chapter 6)
 *
 *  A thread block processes Q_ROWS query rows of one head, 4 warps.
 *  The running maximum and the running sum (Milakov & Gimelshein 2018) are in shared memory,
 *  as is the output tile, because the element order of an accumulator fragment is unspecified.
 ****************************************************************************************/
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

const int Q_ROWS      = 32;
const int KV_ROWS     = 32;
const int NUM_WARPS   = 4;
const int NUM_THREADS = NUM_WARPS * 32;
const int PAD_HALF    = 8;
const int PAD_FLOAT   = 4;

/** Pointers into the one dynamic shared memory buffer. */
template <int DIM>
struct SharedArrays
{
    static const int strideTile  = DIM + PAD_HALF;
    static const int strideScore = KV_ROWS + PAD_FLOAT;
    static const int strideProb  = KV_ROWS + PAD_HALF;
    static const int strideOut   = DIM + PAD_FLOAT;

    float *outTile;     // [Q_ROWS][strideOut]
    float *score;       // [Q_ROWS][strideScore]
    float *rowMax;      // [Q_ROWS]
    float *rowSum;      // [Q_ROWS]
    half  *queryTile;   // [Q_ROWS][strideTile]
    half  *keyTile;     // [KV_ROWS][strideTile]
    half  *valueTile;   // [KV_ROWS][strideTile]
    half  *prob;        // [Q_ROWS][strideProb]

    __device__ explicit SharedArrays(unsigned char *buffer)
    {
        outTile   = reinterpret_cast<float *>(buffer);
        score     = outTile + Q_ROWS * strideOut;
        rowMax    = score + Q_ROWS * strideScore;
        rowSum    = rowMax + Q_ROWS;
        queryTile = reinterpret_cast<half *>(rowSum + Q_ROWS);
        keyTile   = queryTile + Q_ROWS * strideTile;
        valueTile = keyTile + KV_ROWS * strideTile;
        prob      = valueTile + KV_ROWS * strideTile;
    }
};

/** Copies rows [first, first + rows) of q, k or v; rows behind the last token become zero. */
template <int DIM>
__device__ void loadTile(half *tile, const half *src, int first, int rows, int tokens, int tokenStride)
{
    const int vecsPerRow = DIM / 8;
    for (int v = threadIdx.x; v < rows * vecsPerRow; v += NUM_THREADS)
    {
        const int r = v / vecsPerRow;
        const int c = v % vecsPerRow * 8;
        float4 data = make_float4(0.f, 0.f, 0.f, 0.f);
        if (first + r < tokens)
            data = *reinterpret_cast<const float4 *>(&src[(size_t)(first + r) * tokenStride + c]);
        *reinterpret_cast<float4 *>(&tile[r * SharedArrays<DIM>::strideTile + c]) = data;
    }
}

/** Reductions over the four neighbouring lanes that share a row. */
__device__ inline float quadMax(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ inline float quadSum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int DIM>
__global__ void vitAttention(const half *qkv, half *out, float *lse, int tokens, int heads, float scale)
{
    extern __shared__ __align__(128) unsigned char buffer[];
    SharedArrays<DIM> sm(buffer);
    using SM = SharedArrays<DIM>;

    const int warp     = threadIdx.x / 32;
    const int firstRow = blockIdx.x * Q_ROWS;
    const int head     = blockIdx.y;
    const int image    = blockIdx.z;

    const int modelDim    = heads * DIM;
    const int tokenStride = 3 * modelDim;
    const half *query = qkv + (size_t)image * tokens * tokenStride + head * DIM;
    const half *key   = query + modelDim;
    const half *value = query + 2 * modelDim;

    // position of this thread in the softmax: four threads per row
    const int myRow  = threadIdx.x / 4;
    const int myPart = threadIdx.x % 4;

    loadTile<DIM>(sm.queryTile, query, firstRow, Q_ROWS, tokens, tokenStride);
    for (int i = threadIdx.x; i < Q_ROWS * SM::strideOut; i += NUM_THREADS)
        sm.outTile[i] = 0.f;
    if (threadIdx.x < Q_ROWS)
    {
        sm.rowMax[threadIdx.x] = -1e30f;
        sm.rowSum[threadIdx.x] = 0.f;
    }

    for (int firstKey = 0; firstKey < tokens; firstKey += KV_ROWS)
    {
        __syncthreads();
        loadTile<DIM>(sm.keyTile, key, firstKey, KV_ROWS, tokens, tokenStride);
        loadTile<DIM>(sm.valueTile, value, firstKey, KV_ROWS, tokens, tokenStride);
        __syncthreads();

        // ---- S = Q * K^T, each warp computes one quadrant (Eq. 5.4) ----
        {
            const int r = warp / 2 * 16;
            const int c = warp % 2 * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < DIM; d += 16)
            {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, sm.queryTile + r * SM::strideTile + d, SM::strideTile);
                wmma::load_matrix_sync(b, sm.keyTile + c * SM::strideTile + d, SM::strideTile);
                wmma::mma_sync(acc, a, b, acc);
            }
            for (int i = 0; i < acc.num_elements; i++)
                acc.x[i] *= scale;
            wmma::store_matrix_sync(sm.score + r * SM::strideScore + c, acc, SM::strideScore, wmma::mem_row_major);
        }
        __syncthreads();

        // ---- online softmax (Algorithm 3) ----
        const int keysHere = min(KV_ROWS, tokens - firstKey);
        const float oldMax = sm.rowMax[myRow];
        float newMax = oldMax;
        for (int j = myPart; j < keysHere; j += 4)
            newMax = fmaxf(newMax, sm.score[myRow * SM::strideScore + j]);
        newMax = quadMax(newMax);

        float sum = 0.f;
        for (int j = myPart; j < KV_ROWS; j += 4)
        {
            const float p = j < keysHere ? __expf(sm.score[myRow * SM::strideScore + j] - newMax) : 0.f;
            sm.prob[myRow * SM::strideProb + j] = __float2half(p);
            sum += p;
        }
        sum = quadSum(sum);

        const float correction = __expf(oldMax - newMax);
        for (int d = myPart; d < DIM; d += 4)
            sm.outTile[myRow * SM::strideOut + d] *= correction;
        __syncwarp();
        if (myPart == 0)
        {
            sm.rowMax[myRow] = newMax;
            sm.rowSum[myRow] = sm.rowSum[myRow] * correction + sum;
        }
        __syncthreads();

        // ---- O += P * V, the tiles of O are dealt out to the warps ----
        const int colTiles = DIM / 16;
        for (int t = warp; t < Q_ROWS / 16 * colTiles; t += NUM_WARPS)
        {
            const int r = t / colTiles * 16;
            const int c = t % colTiles * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, sm.outTile + r * SM::strideOut + c, SM::strideOut, wmma::mem_row_major);
            for (int k = 0; k < KV_ROWS; k += 16)
            {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, sm.prob + r * SM::strideProb + k, SM::strideProb);
                wmma::load_matrix_sync(b, sm.valueTile + k * SM::strideTile + c, SM::strideTile);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(sm.outTile + r * SM::strideOut + c, acc, SM::strideOut, wmma::mem_row_major);
        }
    }
    __syncthreads();

    // ---- normalise and write back ----
    if (firstRow + myRow < tokens)
    {
        const float inverse = 1.f / sm.rowSum[myRow];
        half *dst = out + ((size_t)image * tokens + firstRow + myRow) * modelDim + head * DIM;
        for (int d = myPart * 2; d < DIM; d += 8)
        {
            const float *o = &sm.outTile[myRow * SM::strideOut + d];
            *reinterpret_cast<half2 *>(&dst[d]) = __floats2half2_rn(o[0] * inverse, o[1] * inverse);
        }
        if (myPart == 0)
            lse[((size_t)image * heads + head) * tokens + firstRow + myRow] = sm.rowMax[myRow] + __logf(sm.rowSum[myRow]);
    }
}
