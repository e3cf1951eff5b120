/*
 * Grouped-query attention for one new token per sequence (decode step).
 *
 *   q       [B, HQ, D]            half
 *   kcache  [B, SMAX, HKV, D]     half
 *   vcache  [B, SMAX, HKV, D]     half
 *   seqlens [B]                   int
 *   out     [B, HQ, D]            half,   lse [B, HQ] float
 *
 * Block (kv head, batch): the HQ/HKV <= 16 query heads of a kv head fill one 16-row tensor core tile.
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

#define HEAD_DIM   64
#define Q_ROWS     16
#define KEY_TILE   64
#define NUM_WARPS  4
#define LDH        (HEAD_DIM + 8)     /* q, k, v tiles      */
#define LDS        (KEY_TILE + 4)     /* scores, float      */
#define LDP        (KEY_TILE + 8)     /* probabilities      */
#define LDO        (HEAD_DIM + 4)     /* accumulator, float */

#define OFF_Q      0
#define OFF_K      (OFF_Q + Q_ROWS * LDH * 2)
#define OFF_V      (OFF_K + KEY_TILE * LDH * 2)
#define OFF_P      (OFF_V + KEY_TILE * LDH * 2)
#define OFF_S      (OFF_P + Q_ROWS * LDP * 2)
#define OFF_O      (OFF_S + Q_ROWS * LDS * 4)
#define OFF_STAT   (OFF_O + Q_ROWS * LDO * 4)
#define SMEM_BYTES (OFF_STAT + 2 * Q_ROWS * 4)

__device__ inline float warpReduceMax(float v)
{
    for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
    return v;
}

__device__ inline float warpReduceSum(float v)
{
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

__global__ void gqa_decode(half *out, float *lse, const half *q, const half *kcache, const half *vcache,
                           const int *seqlens, int HQ, int HKV, int SMAX, float scale)
{
    extern __shared__ __align__(128) char smem[];
    half  *sQ = (half *)(smem + OFF_Q);
    half  *sK = (half *)(smem + OFF_K);
    half  *sV = (half *)(smem + OFF_V);
    half  *sP = (half *)(smem + OFF_P);
    float *sS = (float *)(smem + OFF_S);
    float *sO = (float *)(smem + OFF_O);
    float *rowMax = (float *)(smem + OFF_STAT);
    float *rowSum = rowMax + Q_ROWS;

    const int kvh = blockIdx.x, b = blockIdx.y;
    const int group = HQ / HKV;
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int len = seqlens[b];

    const half *qBase = q + ((size_t)b * HQ + kvh * group) * HEAD_DIM;
    const half *kBase = kcache + ((size_t)b * SMAX * HKV + kvh) * HEAD_DIM;
    const half *vBase = vcache + ((size_t)b * SMAX * HKV + kvh) * HEAD_DIM;
    const size_t keyStride = (size_t)HKV * HEAD_DIM;

    for (int i = tid; i < Q_ROWS * HEAD_DIM; i += blockDim.x) {
        int r = i / HEAD_DIM, d = i % HEAD_DIM;
        sQ[r * LDH + d] = r < group ? qBase[r * HEAD_DIM + d] : __float2half(0.f);
        sO[r * LDO + d] = 0.f;
    }
    if (tid < Q_ROWS) {
        rowMax[tid] = -INFINITY;
        rowSum[tid] = 0.f;
    }

    for (int j0 = 0; j0 < len; j0 += KEY_TILE) {
        /* K and V of this tile, zeros behind the end of the sequence */
        for (int i = tid; i < KEY_TILE * HEAD_DIM / 8; i += blockDim.x) {
            int j = i / (HEAD_DIM / 8), d = i % (HEAD_DIM / 8) * 8;
            float4 kv = make_float4(0, 0, 0, 0), vv = kv;
            if (j0 + j < len) {
                kv = *(const float4 *)(kBase + (j0 + j) * keyStride + d);
                vv = *(const float4 *)(vBase + (j0 + j) * keyStride + d);
            }
            *(float4 *)(sK + j * LDH + d) = kv;
            *(float4 *)(sV + j * LDH + d) = vv;
        }
        __syncthreads();

        /* scores: 16 keys per warp */
        {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
            wmma::fill_fragment(s, 0.f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k;
                wmma::load_matrix_sync(a, sQ + d, LDH);
                wmma::load_matrix_sync(k, sK + warp * 16 * LDH + d, LDH);
                wmma::mma_sync(s, a, k, s);
            }
            wmma::store_matrix_sync(sS + warp * 16, s, LDS, wmma::mem_row_major);
        }
        __syncthreads();

        /* online softmax: rows warp, warp + 4, ... */
        for (int r = warp; r < Q_ROWS; r += NUM_WARPS) {
            float x0 = j0 + lane < len ? sS[r * LDS + lane] * scale : -INFINITY;
            float x1 = j0 + lane + 32 < len ? sS[r * LDS + lane + 32] * scale : -INFINITY;
            float mOld = rowMax[r];
            float mNew = fmaxf(mOld, warpReduceMax(fmaxf(x0, x1)));
            float corr = __expf(mOld - mNew);
            float p0 = __expf(x0 - mNew), p1 = __expf(x1 - mNew);
            float sum = warpReduceSum(p0 + p1);
            sP[r * LDP + lane] = __float2half(p0);
            sP[r * LDP + lane + 32] = __float2half(p1);
            for (int d = lane; d < HEAD_DIM; d += 32) sO[r * LDO + d] *= corr;
            __syncwarp();
            if (lane == 0) {
                rowMax[r] = mNew;
                rowSum[r] = rowSum[r] * corr + sum;
            }
        }
        __syncthreads();

        /* O += P V: 16 columns per warp */
        {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
            wmma::load_matrix_sync(o, sO + warp * 16, LDO, wmma::mem_row_major);
            for (int j = 0; j < KEY_TILE; j += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v;
                wmma::load_matrix_sync(p, sP + j, LDP);
                wmma::load_matrix_sync(v, sV + j * LDH + warp * 16, LDH);
                wmma::mma_sync(o, p, v, o);
            }
            wmma::store_matrix_sync(sO + warp * 16, o, LDO, wmma::mem_row_major);
        }
        __syncthreads();
    }

    half *oBase = out + ((size_t)b * HQ + kvh * group) * HEAD_DIM;
    for (int i = tid; i < group * HEAD_DIM; i += blockDim.x) {
        int r = i / HEAD_DIM, d = i % HEAD_DIM;
        oBase[i] = __float2half(sO[r * LDO + d] / rowSum[r]);
    }
    if (tid < group) lse[b * HQ + kvh * group + tid] = rowMax[tid] + logf(rowSum[tid]);
}

void launch_gqa_decode(half *out, float *lse, const half *q, const half *k, const half *v, const int *seqlens, int B,
                       int HQ, int HKV, int SMAX, cudaStream_t stream)
{
    dim3 grid(HKV, B);
    gqa_decode<<<grid, NUM_WARPS * 32, SMEM_BYTES, stream>>>(out, lse, q, k, v, seqlens, HQ, HKV, SMAX,
                                                             1.f / sqrtf((float)HEAD_DIM));
}
