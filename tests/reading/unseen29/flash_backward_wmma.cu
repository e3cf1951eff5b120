// FlashAttention 反向传播（WMMA 版本，sm_75 及以上）
//
// 参考论文 FlashAttention-1 的 Algorithm 4：外层循环 K/V 块，内层循环 Q 块
//
//   输入:  q, k, v, o, dout   [batch, head, seq, 64]  half
//          lse                [batch, head, seq]      float，前向保存的 log-sum-exp（自然对数，已乘 scale）
//   输出:  dk, dv             [batch, head, seq, 64]  half
//          dq                 [batch, head, seq, 64]  float（atomicAdd，调用前由 launcher 清零）
//   临时:  delta              [batch, head, seq]      float
//
// seq 必须是 32 的倍数
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

using namespace nvcuda;

const int D   = 64;       // head dim
const int B_R = 32;       // Q 块行数
const int B_C = 32;       // K/V 块行数
const int LD_H = D + 8;   // half 矩阵的行距
const int LD_S = B_C + 4; // float 分数矩阵的行距
const int LD_P = B_C + 8;
const int LD_F = D + 4;
const int NUM_THREADS = 128;

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> FragC;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> FragAT; // A 的转置
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> FragB;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> FragBT; // B 的转置

// 预处理: delta = rowsum(dout * o)，每个 warp 处理一行
__global__ void compute_delta(const half *__restrict__ o, const half *__restrict__ dout, float *__restrict__ delta,
                              int rows)
{
    int row  = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float2 a = __half22float2(((const half2 *)(o + (size_t)row * D))[lane]);
    float2 b = __half22float2(((const half2 *)(dout + (size_t)row * D))[lane]);
    float sum = a.x * b.x + a.y * b.y;
    for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0) delta[row] = sum;
}

// 把 32 x 64 的块搬到共享内存
__device__ __forceinline__ void load_block(half *dst, const half *src)
{
    for (int i = threadIdx.x; i < 32 * D / 8; i += NUM_THREADS) {
        int r = i / (D / 8);
        int c = i % (D / 8) * 8;
        *(int4 *)(dst + r * LD_H + c) = *(const int4 *)(src + r * D + c);
    }
}

// grid: (seq / 32, batch * head)
template <bool CAUSAL>
__global__ void flash_bwd_kernel(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
                                 const half *__restrict__ dout, const float *__restrict__ lse,
                                 const float *__restrict__ delta, float *__restrict__ dq, half *__restrict__ dk,
                                 half *__restrict__ dv, int seq, float scale)
{
    __shared__ __align__(32) half s_q[B_R * LD_H];
    __shared__ __align__(32) half s_do[B_R * LD_H];
    __shared__ __align__(32) half s_k[B_C * LD_H];
    __shared__ __align__(32) half s_v[B_C * LD_H];
    __shared__ __align__(32) float s_s[B_R * LD_S];
    __shared__ __align__(32) float s_dp[B_R * LD_S];
    __shared__ __align__(32) half s_p[B_R * LD_P];
    __shared__ __align__(32) half s_ds[B_R * LD_P];
    __shared__ __align__(32) float s_out[32 * LD_F];

    const int kv0 = blockIdx.x * B_C;
    const size_t base = (size_t)blockIdx.y * seq * D;
    q += base; k += base; v += base; dout += base;
    dq += base; dk += base; dv += base;
    lse   += (size_t)blockIdx.y * seq;
    delta += (size_t)blockIdx.y * seq;

    const int warp = threadIdx.x / 32;
    // 32x32 的分数矩阵：每个 warp 一个 16x16 小块
    const int sr = (warp / 2) * 16;
    const int sc = (warp % 2) * 16;
    // 32x64 的输出矩阵：每个 warp 16x32
    const int orow = (warp / 2) * 16;
    const int ocol = (warp % 2) * 32;

    load_block(s_k, k + (size_t)kv0 * D);
    load_block(s_v, v + (size_t)kv0 * D);

    FragC acc_dk[2], acc_dv[2];
    for (int j = 0; j < 2; j++) {
        wmma::fill_fragment(acc_dk[j], 0.0f);
        wmma::fill_fragment(acc_dv[j], 0.0f);
    }

    // 因果掩码时，kv0 之前的 Q 块看不到这个 K 块
    for (int q0 = CAUSAL ? kv0 : 0; q0 < seq; q0 += B_R) {
        load_block(s_q, q + (size_t)q0 * D);
        load_block(s_do, dout + (size_t)q0 * D);
        __syncthreads();

        // S = Q K^T,  dP = dO V^T
        FragC acc_s, acc_dp;
        wmma::fill_fragment(acc_s, 0.0f);
        wmma::fill_fragment(acc_dp, 0.0f);
        for (int d = 0; d < D; d += 16) {
            FragA a;
            FragBT b;
            wmma::load_matrix_sync(a, s_q + sr * LD_H + d, LD_H);
            wmma::load_matrix_sync(b, s_k + sc * LD_H + d, LD_H);
            wmma::mma_sync(acc_s, a, b, acc_s);
            wmma::load_matrix_sync(a, s_do + sr * LD_H + d, LD_H);
            wmma::load_matrix_sync(b, s_v + sc * LD_H + d, LD_H);
            wmma::mma_sync(acc_dp, a, b, acc_dp);
        }
        wmma::store_matrix_sync(s_s + sr * LD_S + sc, acc_s, LD_S, wmma::mem_row_major);
        wmma::store_matrix_sync(s_dp + sr * LD_S + sc, acc_dp, LD_S, wmma::mem_row_major);
        __syncthreads();

        // P = exp(S * scale - lse),  dS = P * (dP - delta) * scale
        for (int i = threadIdx.x; i < B_R * B_C; i += NUM_THREADS) {
            int r = i / B_C, c = i % B_C;
            float p = __expf(s_s[r * LD_S + c] * scale - lse[q0 + r]);
            if (CAUSAL && kv0 + c > q0 + r) p = 0.0f;
            float ds = p * (s_dp[r * LD_S + c] - delta[q0 + r]) * scale;
            s_p[r * LD_P + c]  = __float2half(p);
            s_ds[r * LD_P + c] = __float2half(ds);
        }
        __syncthreads();

        // dV += P^T dO,  dK += dS^T Q
        for (int i = 0; i < B_R; i += 16) {
            FragAT pt, dst;
            wmma::load_matrix_sync(pt, s_p + i * LD_P + orow, LD_P);
            wmma::load_matrix_sync(dst, s_ds + i * LD_P + orow, LD_P);
            for (int j = 0; j < 2; j++) {
                FragB b;
                wmma::load_matrix_sync(b, s_do + i * LD_H + ocol + j * 16, LD_H);
                wmma::mma_sync(acc_dv[j], pt, b, acc_dv[j]);
                wmma::load_matrix_sync(b, s_q + i * LD_H + ocol + j * 16, LD_H);
                wmma::mma_sync(acc_dk[j], dst, b, acc_dk[j]);
            }
        }

        // dQ += dS K，不同的 K 块由不同的 block 计算，所以用原子加
        for (int j = 0; j < 2; j++) {
            FragC acc_dq;
            wmma::fill_fragment(acc_dq, 0.0f);
            for (int i = 0; i < B_C; i += 16) {
                FragA a;
                FragB b;
                wmma::load_matrix_sync(a, s_ds + orow * LD_P + i, LD_P);
                wmma::load_matrix_sync(b, s_k + i * LD_H + ocol + j * 16, LD_H);
                wmma::mma_sync(acc_dq, a, b, acc_dq);
            }
            wmma::store_matrix_sync(s_out + orow * LD_F + ocol + j * 16, acc_dq, LD_F, wmma::mem_row_major);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < B_R * D; i += NUM_THREADS)
            atomicAdd(dq + (size_t)q0 * D + i, s_out[i / D * LD_F + i % D]);
        __syncthreads();
    }

    // 写回 dK、dV
    for (int j = 0; j < 2; j++)
        wmma::store_matrix_sync(s_out + orow * LD_F + ocol + j * 16, acc_dk[j], LD_F, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < B_C * D; i += NUM_THREADS)
        dk[(size_t)kv0 * D + i] = __float2half(s_out[i / D * LD_F + i % D]);
    __syncthreads();
    for (int j = 0; j < 2; j++)
        wmma::store_matrix_sync(s_out + orow * LD_F + ocol + j * 16, acc_dv[j], LD_F, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < B_C * D; i += NUM_THREADS)
        dv[(size_t)kv0 * D + i] = __float2half(s_out[i / D * LD_F + i % D]);
}

// 对外接口
extern "C" int flash_attention_backward(const half *q, const half *k, const half *v, const half *o, const half *dout,
                                        const float *lse, float *delta, float *dq, half *dk, half *dv, int batch,
                                        int head, int seq, float scale, bool causal, cudaStream_t stream)
{
    if (seq % 32 != 0) return -1;
    const int rows = batch * head * seq;
    cudaMemsetAsync(dq, 0, (size_t)rows * D * sizeof(float), stream);
    compute_delta<<<(rows + 3) / 4, 128, 0, stream>>>(o, dout, delta, rows);
    dim3 grid(seq / B_C, batch * head);
    if (causal)
        flash_bwd_kernel<true><<<grid, NUM_THREADS, 0, stream>>>(q, k, v, dout, lse, delta, dq, dk, dv, seq, scale);
    else
        flash_bwd_kernel<false><<<grid, NUM_THREADS, 0, stream>>>(q, k, v, dout, lse, delta, dq, dk, dv, seq, scale);
    return cudaGetLastError() == cudaSuccess ? 0 : -1;
}
