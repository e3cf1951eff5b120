// Fused multi-head attention for short sequences (encoder inference, S <= 256), one kernel instead of
// batched GEMM + softmax + batched GEMM + transpose.
//
//   q, k, v : [batch, head, seq, 64]  half         (after add_bias_transpose)
//   mask    : [batch, seq, seq]       half, added to the scaled scores (0 / -10000, or a relative position bias)
//   out     : [batch, seq, head, 64]  half         (heads merged again for the output projection)
//
// grid (ceil(seq / 16), head, batch), 128 threads. A block keeps all scores of its 16 queries in shared memory.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define Q_TILE 16
#define KV_TILE 64
#define HEAD_DIM 64
#define MAX_SEQ 256
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * 32)
#define QKV_LD (HEAD_DIM + 8)   // halves
#define S_LD (MAX_SEQ + 4)      // floats
#define P_LD (MAX_SEQ + 8)      // halves
#define O_LD (HEAD_DIM + 4)     // floats

__device__ __forceinline__ float warp_max(float x)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, offset));
    return x;
}

__device__ __forceinline__ float warp_sum(float x)
{
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

// rows of HEAD_DIM halves from global to padded shared memory, zeros behind the last row
__device__ void load_rows(half* dst, const half* src, int first, int count, int seq_len)
{
    const int vecs = HEAD_DIM / 8;
    for (int i = threadIdx.x; i < count * vecs; i += blockDim.x) {
        int row = i / vecs;
        int vec = i % vecs;
        uint4 data = make_uint4(0, 0, 0, 0);
        if (first + row < seq_len)
            data = reinterpret_cast<const uint4*>(src + (first + row) * HEAD_DIM)[vec];
        *reinterpret_cast<uint4*>(dst + row * QKV_LD + vec * 8) = data;
    }
}

__global__ void fused_mha_kernel(const half* q, const half* k, const half* v, const half* mask, half* out,
                                 int head_num, int seq_len, float scale)
{
    __shared__ __align__(32) half  s_q[Q_TILE * QKV_LD];
    __shared__ __align__(32) half  s_kv[KV_TILE * QKV_LD];
    __shared__ __align__(32) float s_score[Q_TILE * S_LD];
    __shared__ __align__(32) half  s_prob[Q_TILE * P_LD];
    __shared__ __align__(32) float s_out[Q_TILE * O_LD];
    __shared__ float s_inv_sum[Q_TILE];

    const int q_start  = blockIdx.x * Q_TILE;
    const int head_id  = blockIdx.y;
    const int batch_id = blockIdx.z;
    const int warp_id  = threadIdx.x / 32;
    const int lane_id  = threadIdx.x % 32;
    const int kv_tiles = (seq_len + KV_TILE - 1) / KV_TILE;

    const size_t head_offset = (size_t)(batch_id * head_num + head_id) * seq_len * HEAD_DIM;
    const half* mask_ptr = mask + (size_t)batch_id * seq_len * seq_len;

    load_rows(s_q, q + head_offset, q_start, Q_TILE, seq_len);

    // ---- 1. scores = Q * K^T: each warp takes 16 keys of a tile of 64
    for (int t = 0; t < kv_tiles; t++) {
        load_rows(s_kv, k + head_offset, t * KV_TILE, KV_TILE, seq_len);
        __syncthreads();

        fragment<matrix_a, 16, 16, 16, half, row_major> q_frag;
        fragment<matrix_b, 16, 16, 16, half, col_major> k_frag;
        fragment<accumulator, 16, 16, 16, float> s_frag;
        fill_fragment(s_frag, 0.0f);
        for (int d = 0; d < HEAD_DIM; d += 16) {
            load_matrix_sync(q_frag, s_q + d, QKV_LD);
            load_matrix_sync(k_frag, s_kv + warp_id * 16 * QKV_LD + d, QKV_LD);
            mma_sync(s_frag, q_frag, k_frag, s_frag);
        }
        store_matrix_sync(s_score + t * KV_TILE + warp_id * 16, s_frag, S_LD, mem_row_major);
        __syncthreads();
    }

    // ---- 2. softmax: each warp takes every fourth row
    for (int row = warp_id; row < Q_TILE; row += NUM_WARPS) {
        const int q_id = q_start + row;
        float row_max = -FLT_MAX;
        if (q_id < seq_len) {
            for (int col = lane_id; col < seq_len; col += 32) {
                float s = s_score[row * S_LD + col] * scale + __half2float(mask_ptr[q_id * seq_len + col]);
                s_score[row * S_LD + col] = s;
                row_max = fmaxf(row_max, s);
            }
        }
        row_max = warp_max(row_max);

        float row_sum = 0.0f;
        for (int col = lane_id; col < kv_tiles * KV_TILE; col += 32) {
            float p = 0.0f;
            if (q_id < seq_len && col < seq_len)
                p = __expf(s_score[row * S_LD + col] - row_max);
            row_sum += p;
            s_prob[row * P_LD + col] = __float2half(p);
        }
        row_sum = warp_sum(row_sum);
        if (lane_id == 0)
            s_inv_sum[row] = 1.0f / (row_sum + 1e-6f);
    }

    // ---- 3. out = P * V: each warp takes 16 of the 64 columns
    fragment<accumulator, 16, 16, 16, float> o_frag;
    fill_fragment(o_frag, 0.0f);
    for (int t = 0; t < kv_tiles; t++) {
        load_rows(s_kv, v + head_offset, t * KV_TILE, KV_TILE, seq_len);
        __syncthreads();

        fragment<matrix_a, 16, 16, 16, half, row_major> p_frag;
        fragment<matrix_b, 16, 16, 16, half, row_major> v_frag;
        for (int kk = 0; kk < KV_TILE; kk += 16) {
            load_matrix_sync(p_frag, s_prob + t * KV_TILE + kk, P_LD);
            load_matrix_sync(v_frag, s_kv + kk * QKV_LD + warp_id * 16, QKV_LD);
            mma_sync(o_frag, p_frag, v_frag, o_frag);
        }
        __syncthreads();
    }
    store_matrix_sync(s_out + warp_id * 16, o_frag, O_LD, mem_row_major);
    __syncthreads();

    // ---- 4. normalise, and transpose to [batch, seq, head, dim]
    for (int i = threadIdx.x; i < Q_TILE * HEAD_DIM / 2; i += NUM_THREADS) {
        int row  = i / (HEAD_DIM / 2);
        int col  = (i % (HEAD_DIM / 2)) * 2;
        int q_id = q_start + row;
        if (q_id < seq_len) {
            float inv = s_inv_sum[row];
            half2 o2 = __floats2half2_rn(s_out[row * O_LD + col] * inv, s_out[row * O_LD + col + 1] * inv);
            size_t dst = ((size_t)(batch_id * seq_len + q_id) * head_num + head_id) * HEAD_DIM + col;
            *reinterpret_cast<half2*>(out + dst) = o2;
        }
    }
}

void invokeFusedMha(const half* q, const half* k, const half* v, const half* mask, half* out, int batch_size,
                    int head_num, int seq_len, cudaStream_t stream)
{
    dim3 grid((seq_len + Q_TILE - 1) / Q_TILE, head_num, batch_size);
    fused_mha_kernel<<<grid, NUM_THREADS, 0, stream>>>(q, k, v, mask, out, head_num, seq_len,
                                                       1.0f / sqrtf((float)HEAD_DIM));
}
