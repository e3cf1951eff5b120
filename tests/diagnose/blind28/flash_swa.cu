// flash_swa.cu - flash attention forward for prefill, bf16, sm_80 and later
//
// * Q, K, V, O are [batch, seq, heads, head_dim], any strides, GQA / MQA
// * per-sequence key lengths (right padded batches), causal and sliding window masks
// * a row without any visible key is written as zero
// The mma fragments of P are packed from the accumulators of S, so P does not go through shared memory.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16_t;

struct AttentionParams {
    const bf16_t *q, *k, *v;
    bf16_t *out;
    const int *kv_lens;  // [batch]
    // strides in elements
    int q_batch_stride, q_seq_stride, q_head_stride;
    int kv_batch_stride, kv_seq_stride, kv_head_stride;  // K and V are laid out alike
    int o_batch_stride, o_seq_stride, o_head_stride;
    int q_len;
    int num_heads, num_kv_heads;
    int window_left;  // keys before its own that a query sees, -1: no window
    float scale;
};

#define LOG2E 1.4426950408889634f
#define FULL_MASK 0xffffffffu

__device__ __forceinline__ void ldsm4(uint32_t *d, const bf16_t *s) {
    uint32_t a = (uint32_t)__cvta_generic_to_shared(s);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a) : "memory");
}
__device__ __forceinline__ void ldsm2(uint32_t *d, const bf16_t *s) {
    uint32_t a = (uint32_t)__cvta_generic_to_shared(s);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(a) : "memory");
}
__device__ __forceinline__ void ldsm2_trans(uint32_t *d, const bf16_t *s) {
    uint32_t a = (uint32_t)__cvta_generic_to_shared(s);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1]) : "r"(a) : "memory");
}
// d += a * b, m16n8k16
__device__ __forceinline__ void mma16816(float *d, const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ uint32_t to_bf162(float x, float y) {
    uint32_t r;  // the first source operand goes to the upper half
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
    return r;
}

template <int HEAD_DIM, int BLOCK_M, int BLOCK_N, bool CAUSAL>
__global__ void flash_swa_fwd(AttentionParams p) {
    constexpr int THREADS = BLOCK_M * 2;  // a warp for 16 rows
    constexpr int PITCH = HEAD_DIM + 8;
    constexpr int VECS = HEAD_DIM / 8;  // uint4 of a row
    constexpr int D_TILES = HEAD_DIM / 8;
    constexpr int S_TILES = BLOCK_N / 8;

    __shared__ __align__(16) bf16_t q_smem[BLOCK_M * PITCH];
    __shared__ __align__(16) bf16_t k_smem[BLOCK_N * PITCH];
    __shared__ __align__(16) bf16_t v_smem[BLOCK_N * PITCH];

    const int tid = threadIdx.x;
    const int warp_row = (tid >> 5) * 16;
    const int lane = tid & 31;
    const int group = lane >> 2;        // row in the fragment
    const int pair = (lane & 3) * 2;    // first of two columns

    const int q_start = blockIdx.x * BLOCK_M;
    const int head = blockIdx.y;
    const int batch = blockIdx.z;
    const int kv_head = head / (p.num_heads / p.num_kv_heads);
    const int kv_len = p.kv_lens[batch];

    const bf16_t *q = p.q + (int64_t)batch * p.q_batch_stride + (int64_t)head * p.q_head_stride;
    const bf16_t *k = p.k + (int64_t)batch * p.kv_batch_stride + (int64_t)kv_head * p.kv_head_stride;
    const bf16_t *v = p.v + (int64_t)batch * p.kv_batch_stride + (int64_t)kv_head * p.kv_head_stride;
    bf16_t *out = p.out + (int64_t)batch * p.o_batch_stride + (int64_t)head * p.o_head_stride;

    for (int i = tid; i < BLOCK_M * VECS; i += THREADS) {
        int r = i / VECS, c = (i % VECS) * 8;
        uint4 val = make_uint4(0, 0, 0, 0);
        if (q_start + r < p.q_len) val = *(const uint4 *)(q + (int64_t)(q_start + r) * p.q_seq_stride + c);
        *(uint4 *)(q_smem + r * PITCH + c) = val;
    }
    __syncthreads();

    uint32_t q_frag[HEAD_DIM / 16][4];
#pragma unroll
    for (int kk = 0; kk < HEAD_DIM / 16; kk++)
        ldsm4(q_frag[kk], q_smem + (warp_row + (lane & 15)) * PITCH + kk * 16 + (lane >> 4) * 8);

    float o_acc[D_TILES][4];
#pragma unroll
    for (int d = 0; d < D_TILES; d++) o_acc[d][0] = o_acc[d][1] = o_acc[d][2] = o_acc[d][3] = 0.f;
    float m[2] = {-CUDART_INF_F, -CUDART_INF_F};
    float l[2] = {0.f, 0.f};
    const int my_row[2] = {q_start + warp_row + group, q_start + warp_row + group + 8};
    const float scale_log2 = p.scale * LOG2E;

    // only those blocks that some row of this tile sees
    int kv_end = kv_len;
    if (CAUSAL) kv_end = min(kv_end, q_start + BLOCK_M);
    int kv_begin = 0;
    if (p.window_left >= 0) kv_begin = max(0, q_start - p.window_left) / BLOCK_N * BLOCK_N;

    for (int kv = kv_begin; kv < kv_end; kv += BLOCK_N) {
        __syncthreads();  // the last block is used up
        for (int i = tid; i < BLOCK_N * VECS; i += THREADS) {
            int r = i / VECS, c = (i % VECS) * 8;
            uint4 kval = make_uint4(0, 0, 0, 0), vval = make_uint4(0, 0, 0, 0);
            if (kv + r < kv_len) {
                kval = *(const uint4 *)(k + (int64_t)(kv + r) * p.kv_seq_stride + c);
                vval = *(const uint4 *)(v + (int64_t)(kv + r) * p.kv_seq_stride + c);
            }
            *(uint4 *)(k_smem + r * PITCH + c) = kval;
            *(uint4 *)(v_smem + r * PITCH + c) = vval;
        }
        __syncthreads();

        // S = Q K^T
        float s[S_TILES][4];
#pragma unroll
        for (int n = 0; n < S_TILES; n++) {
            s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
#pragma unroll
            for (int kk = 0; kk < HEAD_DIM / 16; kk++) {
                uint32_t k_frag[2];
                ldsm2(k_frag, k_smem + (n * 8 + (lane & 7)) * PITCH + kk * 16 + ((lane >> 3) & 1) * 8);
                mma16816(s[n], q_frag[kk], k_frag);
            }
        }

        // masks
#pragma unroll
        for (int n = 0; n < S_TILES; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = my_row[e >> 1];
                int col = kv + n * 8 + pair + (e & 1);
                bool visible = col < kv_len;
                if (CAUSAL) visible = visible && col <= row;
                if (p.window_left >= 0) visible = visible && col >= row - p.window_left;
                s[n][e] = visible ? s[n][e] * scale_log2 : -CUDART_INF_F;
            }
        }

        // online softmax, h is the upper or lower row of the fragment
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m_new = m[h];
#pragma unroll
            for (int n = 0; n < S_TILES; n++) m_new = fmaxf(m_new, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
            m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(FULL_MASK, m_new, 2));
            const float base = (m_new == -CUDART_INF_F) ? 0.f : m_new;  // nothing visible yet
            const float alpha = exp2f(m[h] - base);
            float sum = 0.f;
#pragma unroll
            for (int n = 0; n < S_TILES; n++) {
                s[n][2 * h] = exp2f(s[n][2 * h] - base);
                s[n][2 * h + 1] = exp2f(s[n][2 * h + 1] - base);
                sum += s[n][2 * h] + s[n][2 * h + 1];
            }
            sum += __shfl_xor_sync(FULL_MASK, sum, 1);
            sum += __shfl_xor_sync(FULL_MASK, sum, 2);
            l[h] = l[h] * alpha + sum;
            m[h] = m_new;
#pragma unroll
            for (int d = 0; d < D_TILES; d++) {
                o_acc[d][2 * h] *= alpha;
                o_acc[d][2 * h + 1] *= alpha;
            }
        }

        // O += P V
#pragma unroll
        for (int kk = 0; kk < BLOCK_N / 16; kk++) {
            uint32_t p_frag[4];
            p_frag[0] = to_bf162(s[2 * kk][0], s[2 * kk][1]);
            p_frag[1] = to_bf162(s[2 * kk][2], s[2 * kk][3]);
            p_frag[2] = to_bf162(s[2 * kk + 1][0], s[2 * kk + 1][1]);
            p_frag[3] = to_bf162(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
            for (int d = 0; d < D_TILES; d++) {
                uint32_t v_frag[2];
                ldsm2_trans(v_frag, v_smem + (kk * 16 + (lane & 15)) * PITCH + d * 8);
                mma16816(o_acc[d], p_frag, v_frag);
            }
        }
    }

#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (my_row[h] >= p.q_len) continue;
        const float inv_l = l[h] > 0.f ? 1.f / l[h] : 0.f;
        bf16_t *dst = out + (int64_t)my_row[h] * p.o_seq_stride + pair;
#pragma unroll
        for (int d = 0; d < D_TILES; d++)
            *(uint32_t *)(dst + d * 8) = to_bf162(o_acc[d][2 * h] * inv_l, o_acc[d][2 * h + 1] * inv_l);
    }
}

void flash_swa_forward(const AttentionParams &p, int batch, bool causal, cudaStream_t stream) {
    constexpr int BLOCK_M = 64, BLOCK_N = 32;
    dim3 grid((p.q_len + BLOCK_M - 1) / BLOCK_M, p.num_heads, batch);
    if (causal)
        flash_swa_fwd<64, BLOCK_M, BLOCK_N, true><<<grid, BLOCK_M * 2, 0, stream>>>(p);
    else
        flash_swa_fwd<64, BLOCK_M, BLOCK_N, false><<<grid, BLOCK_M * 2, 0, stream>>>(p);
}
