// flash_attn_v1_wmma.cu
// My implementation of FlashAttention (forward) with tensor cores, from the paper's Algorithm 1.
// qkv is packed the way nn.Linear(3*E) leaves it: [batch, seqlen, 3, nheads, headdim]
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

#define BR 32            // rows of Q per block
#define BC 16            // rows of K/V per iteration
#define HD 32            // head dim
#define NTHREADS 64      // 2 threads per row of Q
#define COLS_PER_THREAD (HD / 2)

__global__ void flash_attn_forward(const half *qkv, half *out, float *lse, int seqlen, int nheads,
                                   float softmax_scale, bool is_causal) {
    int tid = threadIdx.x;
    int warp_id = tid / 32;
    int q_block = blockIdx.x;
    int head = blockIdx.y;
    int batch = blockIdx.z;

    // distance between two tokens in qkv
    int token_stride = 3 * nheads * HD;
    const half *Q = qkv + (size_t)batch * seqlen * token_stride + head * HD;
    const half *K = Q + nheads * HD;
    const half *V = Q + 2 * nheads * HD;

    __shared__ __align__(32) half Qs[BR * HD];
    __shared__ __align__(32) half Ks[BC * HD];
    __shared__ __align__(32) half Vs[BC * HD];
    __shared__ __align__(32) half Ps[BR * BC];
    __shared__ __align__(32) float Ss[BR * BC];
    __shared__ __align__(32) float PVs[BR * HD];

    // load the Q block once, it stays for the whole kernel
    for (int i = tid; i < BR * HD; i += NTHREADS) {
        int row = q_block * BR + i / HD;
        Qs[i] = (row < seqlen) ? Q[(size_t)row * token_stride + i % HD] : __float2half(0.0f);
    }

    // every row of Q belongs to two neighbouring threads
    int my_row = tid / 2;
    int my_half = tid % 2;
    int q_idx = q_block * BR + my_row;

    float m_i = -INFINITY;
    float l_i = 0.0f;
    float o_i[COLS_PER_THREAD];
    for (int c = 0; c < COLS_PER_THREAD; c++) o_i[c] = 0.0f;

    int num_kv_blocks = (seqlen + BC - 1) / BC;
    if (is_causal) num_kv_blocks = min(num_kv_blocks, (q_block + 1) * BR / BC);

    for (int j = 0; j < num_kv_blocks; j++) {
        // ---- load K_j, V_j ----
        for (int i = tid; i < BC * HD; i += NTHREADS) {
            int row = j * BC + i / HD;
            size_t src = (size_t)row * token_stride + i % HD;
            Ks[i] = (row < seqlen) ? K[src] : __float2half(0.0f);
            Vs[i] = (row < seqlen) ? V[src] : __float2half(0.0f);
        }
        __syncthreads();

        // ---- S = Q K^T: warp w computes rows 16w .. 16w+15 ----
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
        wmma::fill_fragment(s_frag, 0.0f);
        for (int k = 0; k < HD; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
            wmma::load_matrix_sync(q_frag, Qs + warp_id * 16 * HD + k, HD);
            wmma::load_matrix_sync(k_frag, Ks + k, HD);
            wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
        }
        wmma::store_matrix_sync(Ss + warp_id * 16 * BC, s_frag, BC, wmma::mem_row_major);
        __syncwarp();

        // ---- online softmax, each thread 8 of the 16 scores ----
        float s_row[BC / 2];
        float m_block = -INFINITY;
        for (int c = 0; c < BC / 2; c++) {
            int col = my_half * (BC / 2) + c;
            int k_idx = j * BC + col;
            float s = Ss[my_row * BC + col] * softmax_scale;
            if (k_idx >= seqlen || (is_causal && k_idx > q_idx)) s = -INFINITY;
            s_row[c] = s;
            m_block = fmaxf(m_block, s);
        }
        m_block = fmaxf(m_block, __shfl_xor_sync(0xffffffff, m_block, 1));

        float m_new = fmaxf(m_i, m_block);
        float l_block = 0.0f;
        for (int c = 0; c < BC / 2; c++) {
            float p = expf(s_row[c] - m_new);
            l_block += p;
            Ps[my_row * BC + my_half * (BC / 2) + c] = __float2half(p);
        }
        l_block += __shfl_xor_sync(0xffffffff, l_block, 1);
        float alpha = expf(m_i - m_new);
        l_i = alpha * l_i + l_block;
        m_i = m_new;
        __syncwarp();

        // ---- P V, a 16 x 32 strip per warp ----
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
        wmma::load_matrix_sync(p_frag, Ps + warp_id * 16 * BC, BC);
        for (int n = 0; n < HD; n += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::fill_fragment(o_frag, 0.0f);
            wmma::load_matrix_sync(v_frag, Vs + n, HD);
            wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            wmma::store_matrix_sync(PVs + warp_id * 16 * HD + n, o_frag, HD, wmma::mem_row_major);
        }
        __syncwarp();

        for (int c = 0; c < COLS_PER_THREAD; c++)
            o_i[c] = o_i[c] * alpha + PVs[my_row * HD + my_half * COLS_PER_THREAD + c];
        __syncthreads();   // K and V are overwritten next
    }

    // ---- write O and logsumexp ----
    if (q_idx < seqlen) {
        half *O = out + (((size_t)batch * seqlen + q_idx) * nheads + head) * HD + my_half * COLS_PER_THREAD;
        for (int c = 0; c < COLS_PER_THREAD; c++) O[c] = __float2half(o_i[c] / l_i);
        if (my_half == 0) lse[((size_t)batch * nheads + head) * seqlen + q_idx] = m_i + logf(l_i);
    }
}
