/**
 * First half of BERT self attention as one kernel:
 *
 *     probs = softmax(query * key^T / sqrt(size_per_head) + mask)
 *
 * query, key   [batch, seq_len, head_num, 64]       (output of the fused QKV linear, before any transpose)
 * mask         [batch, seq_len]  float, added to the scores of that key (0 or -10000), may be null
 * probs        [batch, head_num, seq_len, seq_len]
 *
 * seq_len has to be a multiple of 16 and at most MAX_SEQ_LEN.
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cfloat>
#include <cstdio>

using namespace nvcuda;

#define MAX_SEQ_LEN 1024
#define SIZE_PER_HEAD 64
#define WARPS_PER_BLOCK 4
#define FULL_MASK 0xffffffffu

template <typename T>
__inline__ __device__ T warpReduceMax(T val)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        val = max(val, __shfl_xor_sync(FULL_MASK, val, mask, 32));
    return val;
}

template <typename T>
__inline__ __device__ T warpReduceSum(T val)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        val += __shfl_xor_sync(FULL_MASK, val, mask, 32);
    return val;
}

// grid  (seq_len / 16, head_num, batch)
// block (32, WARPS_PER_BLOCK)
// shared memory: 16 rows of seq_len + 8 floats
__global__ void attention_probs_kernel(const half* query,
                                       const half* key,
                                       const float* mask,
                                       half* probs,
                                       const int head_num,
                                       const int seq_len,
                                       const float scaler)
{
    extern __shared__ __align__(32) float s_scores[];

    const int lane_id   = threadIdx.x;
    const int warp_id   = threadIdx.y;
    const int q_start   = blockIdx.x * 16;
    const int head_id   = blockIdx.y;
    const int batch_id  = blockIdx.z;
    const int row_width = head_num * SIZE_PER_HEAD;
    const int s_ld      = seq_len + 8;

    const half* q_ptr = query + ((size_t)batch_id * seq_len + q_start) * row_width + head_id * SIZE_PER_HEAD;
    const half* k_ptr = key + (size_t)batch_id * seq_len * row_width + head_id * SIZE_PER_HEAD;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag[SIZE_PER_HEAD / 16];
#pragma unroll
    for (int i = 0; i < SIZE_PER_HEAD / 16; i++)
        wmma::load_matrix_sync(q_frag[i], q_ptr + i * 16, row_width);

    // every warp takes every fourth tile of 16 keys
    for (int k_start = warp_id * 16; k_start < seq_len; k_start += WARPS_PER_BLOCK * 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> qk_frag;
        wmma::fill_fragment(qk_frag, 0.0f);
#pragma unroll
        for (int i = 0; i < SIZE_PER_HEAD / 16; i++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::load_matrix_sync(k_frag, k_ptr + (size_t)k_start * row_width + i * 16, row_width);
            wmma::mma_sync(qk_frag, q_frag[i], k_frag, qk_frag);
        }
        wmma::store_matrix_sync(s_scores + k_start, qk_frag, s_ld, wmma::mem_row_major);
    }
    __syncthreads();

    // softmax, four rows per warp
    const float* mask_ptr = mask == nullptr ? nullptr : mask + (size_t)batch_id * seq_len;
    for (int row = warp_id; row < 16; row += WARPS_PER_BLOCK) {
        float* s_row   = s_scores + row * s_ld;
        float  row_max = -FLT_MAX;
        for (int col = lane_id; col < seq_len; col += 32) {
            float score = s_row[col] * scaler;
            if (mask_ptr != nullptr)
                score += mask_ptr[col];
            s_row[col] = score;
            row_max    = max(row_max, score);
        }
        row_max = warpReduceMax(row_max);

        float row_sum = 0.0f;
        for (int col = lane_id; col < seq_len; col += 32) {
            float e    = __expf(s_row[col] - row_max);
            s_row[col] = e;
            row_sum += e;
        }
        row_sum = warpReduceSum(row_sum);

        const float inv_sum = 1.0f / row_sum;
        half* out = probs + (((size_t)batch_id * head_num + head_id) * seq_len + q_start + row) * seq_len;
        for (int col = lane_id; col < seq_len; col += 32)
            out[col] = __float2half(s_row[col] * inv_sum);
    }
}

bool invokeAttentionProbs(half*        probs,
                          const half*  query,
                          const half*  key,
                          const float* mask,
                          const int    batch_size,
                          const int    head_num,
                          const int    seq_len,
                          cudaStream_t stream)
{
    if (seq_len % 16 != 0 || seq_len > MAX_SEQ_LEN) {
        printf("[ERROR] attention probs: unsupported seq_len %d\n", seq_len);
        return false;
    }
    const size_t smem_size = 16 * (seq_len + 8) * sizeof(float);
    if (smem_size > 48 * 1024) {
        cudaFuncSetAttribute(attention_probs_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem_size);
    }
    dim3 grid(seq_len / 16, head_num, batch_size);
    dim3 block(32, WARPS_PER_BLOCK);
    attention_probs_kernel<<<grid, block, smem_size, stream>>>(
        query, key, mask, probs, head_num, seq_len, 0.125f);  // 1 / sqrt(64)
    return cudaGetLastError() == cudaSuccess;
}
