/*
 * Licensed under the Apache License, Version 2.0 (the "License").
 *
 * Fused multi-head attention of encoders with a relative position bias (T5), short sequences, Turing and later.
 * A thread block has 16 queries of one head; the scores of all keys stay in shared memory.
 */

#include "src/engine/kernels/fused_relative_mha.h"
#include "src/engine/utils/cuda_utils.h"
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>

namespace fasttrans {

static const int SIZE_PER_HEAD = 64;
static const int QUERIES_PER_BLOCK = 16;
static const int WARPS_PER_BLOCK = 4;

#define FINAL_MASK 0xffffffff

__inline__ __device__ float warpReduceSum(float val)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        val += __shfl_xor_sync(FINAL_MASK, val, mask, 32);
    return val;
}

__inline__ __device__ float warpReduceMax(float val)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        val = max(val, __shfl_xor_sync(FINAL_MASK, val, mask, 32));
    return val;
}

// m16n8k8: a lane has rows lane / 4 and lane / 4 + 8 of A and C, column lane / 4 of B
__inline__ __device__ void mma_m16n8k8(float* c, const unsigned* a, const unsigned b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}

__inline__ __device__ unsigned load_pair(const half* ptr)
{
    return *reinterpret_cast<const unsigned*>(ptr);
}

__inline__ __device__ unsigned make_pair(const half lo, const half hi)
{
    const half2 pair = __halves2half2(lo, hi);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// qkv_buf                [batch_size, seq_len, 3, head_num, size_per_head]
// relative_position_bias [head_num, seq_len, seq_len]
// sequence_lengths       [batch_size]
// context_buf            [batch_size, seq_len, head_num, size_per_head]
__global__ void fused_relative_mha(half*        context_buf,
                                   const half*  qkv_buf,
                                   const half*  relative_position_bias,
                                   const int*   sequence_lengths,
                                   const int    seq_len,
                                   const int    head_num,
                                   const float  q_scaling)
{
    extern __shared__ __align__(16) char s_buf[];
    const int seq_len_padded = (seq_len + 7) / 8 * 8;
    const int score_pitch    = seq_len_padded + 4;
    const int prob_pitch     = seq_len_padded + 8;
    float*    s_score        = reinterpret_cast<float*>(s_buf);
    half*     s_prob         = reinterpret_cast<half*>(s_score + QUERIES_PER_BLOCK * score_pitch);

    const int bid     = blockIdx.z;
    const int hid     = blockIdx.y;
    const int qid     = blockIdx.x * QUERIES_PER_BLOCK;
    const int warp_id = threadIdx.x / 32;
    const int lane_id = threadIdx.x % 32;
    const int group   = lane_id / 4;
    const int quad    = lane_id % 4;

    const int   hidden     = head_num * SIZE_PER_HEAD;
    const int   row_stride = 3 * hidden;
    const int   length     = sequence_lengths[bid];
    const half* q_ptr      = qkv_buf + (size_t)bid * seq_len * row_stride + hid * SIZE_PER_HEAD;
    const half* k_ptr      = q_ptr + hidden;
    const half* v_ptr      = k_ptr + hidden;

    // Q stays in registers: 8 steps of 8 dimensions
    unsigned q_frag[SIZE_PER_HEAD / 8][2];
#pragma unroll
    for (int ki = 0; ki < SIZE_PER_HEAD / 8; ki++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = qid + group + i * 8;
            q_frag[ki][i] = row < seq_len ? load_pair(q_ptr + (size_t)row * row_stride + ki * 8 + quad * 2) : 0u;
        }
    }

    // scores, warps take turns at 8 keys each
    for (int ni = warp_id; ni < seq_len_padded / 8; ni += WARPS_PER_BLOCK) {
        float     acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        const int key    = ni * 8 + group;
#pragma unroll
        for (int ki = 0; ki < SIZE_PER_HEAD / 8; ki++) {
            const unsigned k_frag = key < seq_len ? load_pair(k_ptr + (size_t)key * row_stride + ki * 8 + quad * 2) : 0u;
            mma_m16n8k8(acc, q_frag[ki], k_frag);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row   = group + (i / 2) * 8;
            const int col   = ni * 8 + quad * 2 + (i % 2);
            float     score = -FLT_MAX;
            if (qid + row < seq_len && col < length) {
                score = acc[i] * q_scaling
                        + __half2float(relative_position_bias[((size_t)hid * seq_len + qid + row) * seq_len + col]);
            }
            s_score[row * score_pitch + col] = score;
        }
    }
    __syncthreads();

    // softmax, a warp has 4 rows
    for (int row = warp_id; row < QUERIES_PER_BLOCK; row += WARPS_PER_BLOCK) {
        float local_max = -FLT_MAX;
        for (int col = lane_id; col < length; col += 32)
            local_max = max(local_max, s_score[row * score_pitch + col]);
        const float row_max = warpReduceMax(local_max);

        float local_sum = 0.0f;
        for (int col = lane_id; col < length; col += 32) {
            const float e = __expf(s_score[row * score_pitch + col] - row_max);
            s_score[row * score_pitch + col] = e;
            local_sum += e;
        }
        const float row_sum = warpReduceSum(local_sum);
        const float inv     = __fdividef(1.0f, row_sum + 1e-6f);

        for (int col = lane_id; col < seq_len_padded; col += 32) {
            const float prob = col < length ? s_score[row * score_pitch + col] * inv : 0.0f;
            s_prob[row * prob_pitch + col] = __float2half(prob);
        }
    }
    __syncthreads();

    // context, a warp has 16 of the 64 dimensions
    float out[2][4] = {{0.0f, 0.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
    for (int ki = 0; ki < seq_len_padded / 8; ki++) {
        unsigned p_frag[2];
        p_frag[0] = load_pair(s_prob + group * prob_pitch + ki * 8 + quad * 2);
        p_frag[1] = load_pair(s_prob + (group + 8) * prob_pitch + ki * 8 + quad * 2);
        const int key = ki * 8 + quad * 2;
#pragma unroll
        for (int ni = 0; ni < 2; ni++) {
            const int  dim = warp_id * 16 + ni * 8 + group;
            const half v0  = key < seq_len ? v_ptr[(size_t)key * row_stride + dim] : __float2half(0.0f);
            const half v1  = key + 1 < seq_len ? v_ptr[(size_t)(key + 1) * row_stride + dim] : __float2half(0.0f);
            mma_m16n8k8(out[ni], p_frag, make_pair(v0, v1));
        }
    }

#pragma unroll
    for (int ni = 0; ni < 2; ni++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = qid + group + i * 8;
            if (row < seq_len) {
                half* dst = context_buf + ((size_t)bid * seq_len + row) * hidden + hid * SIZE_PER_HEAD + warp_id * 16 + ni * 8 + quad * 2;
                *reinterpret_cast<half2*>(dst) = __floats2half2_rn(out[ni][i * 2], out[ni][i * 2 + 1]);
            }
        }
    }
}

void invokeFusedRelativeMha(half* context_buf, const half* qkv_buf, const half* relative_position_bias, const int* sequence_lengths,
                            const int batch_size, const int seq_len, const int head_num, const float q_scaling, cudaStream_t stream)
{
    const int padded = (seq_len + 7) / 8 * 8;
    dim3      grid((seq_len + QUERIES_PER_BLOCK - 1) / QUERIES_PER_BLOCK, head_num, batch_size);
    const int smem = QUERIES_PER_BLOCK * ((padded + 4) * sizeof(float) + (padded + 8) * sizeof(half));
    fused_relative_mha<<<grid, WARPS_PER_BLOCK * 32, smem, stream>>>(
        context_buf, qkv_buf, relative_position_bias, sequence_lengths, seq_len, head_num, q_scaling);
    sync_check_cuda_error();
}

}  // namespace fasttrans
