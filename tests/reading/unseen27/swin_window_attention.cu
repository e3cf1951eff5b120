/*
 * Swin Transformer 窗口注意力（7x7 窗口，head_dim = 32），WMMA 实现
 *
 * qkv            [num_win_total, 49, 3, head_num, 32]   QKV 已加偏置
 * relative_bias  [head_num, 49, 49]                     相对位置偏置
 * attn_mask      [window_num, 49, 49] 或 nullptr         移位窗口的掩码（0 或 -100）
 * out            [num_win_total, 49, head_num * 32]
 *
 * num_win_total = batch * window_num，grid = (num_win_total, head_num)，每个 block 128 线程
 */
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define WIN_LEN 49      // 窗口内 token 数
#define WIN_PAD 64      // 补齐到 16 的倍数
#define SIZE_PER_HEAD 32
#define LD_QKV (SIZE_PER_HEAD + 8)
#define LD_S (WIN_PAD + 8)

__inline__ __device__ float warpMax(float val)
{
    for (int mask = 16; mask > 0; mask >>= 1)
        val = fmaxf(val, __shfl_xor_sync(0xffffffff, val, mask, 32));
    return val;
}

__inline__ __device__ float warpSum(float val)
{
    for (int mask = 16; mask > 0; mask >>= 1)
        val += __shfl_xor_sync(0xffffffff, val, mask, 32);
    return val;
}

__global__ void swinWindowAttentionKernel(half* __restrict__ out,
                                          const half* __restrict__ qkv,
                                          const half* __restrict__ relative_bias,
                                          const half* __restrict__ attn_mask,
                                          const int window_num,
                                          const int head_num,
                                          const float scale)
{
    __shared__ __align__(128) half s_qkv[3][WIN_PAD * LD_QKV];
    __shared__ __align__(128) float s_score[WIN_PAD * LD_S];
    __shared__ __align__(128) half s_prob[WIN_PAD * LD_S];

    const int win_id  = blockIdx.x;
    const int head_id = blockIdx.y;
    const int warp_id = threadIdx.x >> 5;
    const int lane_id = threadIdx.x & 31;

    // 读入 Q、K、V，超出 49 的行补 0
    const int vec_per_row = SIZE_PER_HEAD / 8;
    for (int idx = threadIdx.x; idx < 3 * WIN_PAD * vec_per_row; idx += blockDim.x) {
        const int which = idx / (WIN_PAD * vec_per_row);
        const int row   = idx / vec_per_row % WIN_PAD;
        const int col   = idx % vec_per_row * 8;
        float4    val   = make_float4(0.f, 0.f, 0.f, 0.f);
        if (row < WIN_LEN) {
            const size_t src =
                ((((size_t)win_id * WIN_LEN + row) * 3 + which) * head_num + head_id) * SIZE_PER_HEAD + col;
            val = *reinterpret_cast<const float4*>(qkv + src);
        }
        *reinterpret_cast<float4*>(&s_qkv[which][row * LD_QKV + col]) = val;
    }
    __syncthreads();

    // 每个 warp 负责 16 行：S = Q * K^T
    const int row0 = warp_id * 16;
    for (int n = 0; n < WIN_PAD; n += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
        wmma::fill_fragment(s_frag, 0.0f);
        for (int k = 0; k < SIZE_PER_HEAD; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::load_matrix_sync(q_frag, &s_qkv[0][row0 * LD_QKV + k], LD_QKV);
            wmma::load_matrix_sync(k_frag, &s_qkv[1][n * LD_QKV + k], LD_QKV);
            wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
        }
        wmma::store_matrix_sync(&s_score[row0 * LD_S + n], s_frag, LD_S, wmma::mem_row_major);
    }
    __syncwarp();

    // softmax(S * scale + bias + mask)，每个 lane 处理第 lane 和 lane + 32 列
    const half* bias_ptr = relative_bias + (size_t)head_id * WIN_LEN * WIN_LEN;
    const half* mask_ptr =
        attn_mask == nullptr ? nullptr : attn_mask + (size_t)(win_id % window_num) * WIN_LEN * WIN_LEN;
    for (int r = 0; r < 16; ++r) {
        const int row = row0 + r;
        float     v[2];
        for (int j = 0; j < 2; ++j) {
            const int col = lane_id + j * 32;
            v[j]          = -1e20f;
            if (row < WIN_LEN && col < WIN_LEN) {
                v[j] = s_score[row * LD_S + col] * scale + __half2float(bias_ptr[row * WIN_LEN + col]);
                if (mask_ptr != nullptr)
                    v[j] += __half2float(mask_ptr[row * WIN_LEN + col]);
            }
        }
        const float max_val = warpMax(fmaxf(v[0], v[1]));
        const float e0      = lane_id < WIN_LEN ? __expf(v[0] - max_val) : 0.f;
        const float e1      = lane_id + 32 < WIN_LEN ? __expf(v[1] - max_val) : 0.f;
        const float inv_sum = 1.0f / (warpSum(e0 + e1) + 1e-6f);
        s_prob[row * LD_S + lane_id]      = __float2half(e0 * inv_sum);
        s_prob[row * LD_S + lane_id + 32] = __float2half(e1 * inv_sum);
    }
    __syncwarp();

    // O = P * V，结果先放回 s_score（本 warp 自己的 16 行）
    for (int n = 0; n < SIZE_PER_HEAD; n += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
        wmma::fill_fragment(o_frag, 0.0f);
        for (int k = 0; k < WIN_PAD; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
            wmma::load_matrix_sync(p_frag, &s_prob[row0 * LD_S + k], LD_S);
            wmma::load_matrix_sync(v_frag, &s_qkv[2][k * LD_QKV + n], LD_QKV);
            wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
        }
        wmma::store_matrix_sync(&s_score[row0 * LD_S + n], o_frag, LD_S, wmma::mem_row_major);
    }
    __syncwarp();

    for (int r = 0; r < 16; ++r) {
        const int row = row0 + r;
        if (row < WIN_LEN) {
            const size_t dst = ((size_t)win_id * WIN_LEN + row) * head_num * SIZE_PER_HEAD
                               + head_id * SIZE_PER_HEAD + lane_id;
            out[dst] = __float2half(s_score[row * LD_S + lane_id]);
        }
    }
}

void invokeSwinWindowAttention(half* out,
                               const half* qkv,
                               const half* relative_bias,
                               const half* attn_mask,
                               const int batch,
                               const int window_num,
                               const int head_num,
                               const float scale,
                               cudaStream_t stream)
{
    dim3 grid(batch * window_num, head_num);
    swinWindowAttentionKernel<<<grid, 128, 0, stream>>>(
        out, qkv, relative_bias, attn_mask, window_num, head_num, scale);
}
