// FlashAttention forward in (almost) plain CUDA, a follow-up to my scalar version from last month.
// This one uses nvcuda::wmma so that it runs on anything from Volta on.
//
//   Q, K, V, O : [batch, heads, seq_len, HEAD_DIM]  half
//   L          : [batch, heads, seq_len]            float, logsumexp of each row (for the backward pass)
//
// Every block handles BR queries of one (batch, head) and walks over the keys BC at a time.
//   S = Q K^T    all four warps, 16 x 16 tiles dealt out in turn
//   softmax      four threads per row
//   O += P V     O stays in shared memory as float, the warps pick up a tile, add and put it back
//
// TODO: keep O in registers (needs the fragment layout => mma.sync), double buffer K
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>

using namespace nvcuda;

#define BR 32
#define BC 64
#define NUM_WARPS 4
#define THREADS (NUM_WARPS * 32)
#define TPR (THREADS / BR)  // threads per row in the softmax
#define PAD 8               // halves
#define PADF 4              // floats

template <int HEAD_DIM>
__device__ void load_rows(half (*dst)[HEAD_DIM + PAD], const half* src, int first, int count, int seq_len) {
    constexpr int VECS = HEAD_DIM / 8;
    for (int i = threadIdx.x; i < count * VECS; i += THREADS) {
        int r = i / VECS;
        int c = (i % VECS) * 8;
        int4 v = make_int4(0, 0, 0, 0);
        if (first + r < seq_len) v = *(const int4*)(src + (size_t)(first + r) * HEAD_DIM + c);
        *(int4*)&dst[r][c] = v;
    }
}

template <int HEAD_DIM>
__global__ void flash_fwd_wmma(const half* Q, const half* K, const half* V, half* O, float* L, int heads, int seq_len,
                               float scale, int causal) {
    __shared__ __align__(32) half sQ[BR][HEAD_DIM + PAD];
    __shared__ __align__(32) half sK[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half sV[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half sP[BR][BC + PAD];
    __shared__ __align__(32) float sS[BR][BC + PADF];
    __shared__ __align__(32) float sO[BR][HEAD_DIM + PADF];

    const int tid = threadIdx.x;
    const int warp_id = tid / 32;
    const int q_start = blockIdx.x * BR;
    const int bh = blockIdx.z * heads + blockIdx.y;

    const size_t head_offset = (size_t)bh * seq_len * HEAD_DIM;
    Q += head_offset;
    K += head_offset;
    V += head_offset;
    O += head_offset;
    L += (size_t)bh * seq_len;

    // the row that this thread looks after, together with TPR - 1 neighbours
    const int row = tid / TPR;
    const int sub = tid % TPR;
    float m_i = -INFINITY;
    float l_i = 0.0f;

    load_rows<HEAD_DIM>(sQ, Q, q_start, BR, seq_len);
    for (int d = sub; d < HEAD_DIM; d += TPR) sO[row][d] = 0.0f;

    // causal: keys behind the last query of this block are never needed
    const int kv_end = causal ? min(seq_len, q_start + BR) : seq_len;

    for (int kv = 0; kv < kv_end; kv += BC) {
        load_rows<HEAD_DIM>(sK, K, kv, BC, seq_len);
        load_rows<HEAD_DIM>(sV, V, kv, BC, seq_len);
        __syncthreads();

        // ---- S = Q K^T ----
        for (int t = warp_id; t < (BR / 16) * (BC / 16); t += NUM_WARPS) {
            const int tr = t / (BC / 16);
            const int tc = t % (BC / 16);
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.0f);
            for (int k = 0; k < HEAD_DIM; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                // K^T: rows of K are columns here
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, &sQ[tr * 16][k], HEAD_DIM + PAD);
                wmma::load_matrix_sync(k_frag, &sK[tc * 16][k], HEAD_DIM + PAD);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(&sS[tr * 16][tc * 16], s_frag, BC + PADF, wmma::mem_row_major);
        }
        __syncthreads();

        // ---- online softmax ----
        const int q_idx = q_start + row;
        float m_new = m_i;
        for (int c = sub; c < BC; c += TPR) {
            const int k_idx = kv + c;
            float s = sS[row][c] * scale;
            if (k_idx >= seq_len || (causal && k_idx > q_idx)) s = -INFINITY;
            sS[row][c] = s;
            m_new = fmaxf(m_new, s);
        }
        for (int off = TPR / 2; off > 0; off /= 2) m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, off));

        float l_new = 0.0f;
        for (int c = sub; c < BC; c += TPR) {
            const float p = __expf(sS[row][c] - m_new);
            sP[row][c] = __float2half(p);
            l_new += p;
        }
        for (int off = TPR / 2; off > 0; off /= 2) l_new += __shfl_xor_sync(0xffffffff, l_new, off);

        const float alpha = __expf(m_i - m_new);
        for (int d = sub; d < HEAD_DIM; d += TPR) sO[row][d] *= alpha;
        l_i = l_i * alpha + l_new;
        m_i = m_new;
        __syncthreads();

        // ---- O += P V ----
        for (int t = warp_id; t < (BR / 16) * (HEAD_DIM / 16); t += NUM_WARPS) {
            const int tr = t / (HEAD_DIM / 16);
            const int tc = t % (HEAD_DIM / 16);
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::load_matrix_sync(o_frag, &sO[tr * 16][tc * 16], HEAD_DIM + PADF, wmma::mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                wmma::load_matrix_sync(p_frag, &sP[tr * 16][k], BC + PAD);
                wmma::load_matrix_sync(v_frag, &sV[k][tc * 16], HEAD_DIM + PAD);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            wmma::store_matrix_sync(&sO[tr * 16][tc * 16], o_frag, HEAD_DIM + PADF, wmma::mem_row_major);
        }
        __syncthreads();  // the next tile overwrites K, V and P
    }

    // ---- normalise and write ----
    if (q_start + row < seq_len) {
        half* out = O + (size_t)(q_start + row) * HEAD_DIM;
        for (int d = sub; d < HEAD_DIM; d += TPR) out[d] = __float2half(sO[row][d] / l_i);
        if (sub == 0) L[q_start + row] = m_i + logf(l_i);
    }
}

void flash_attention_forward(const half* Q, const half* K, const half* V, half* O, float* L, int batch, int heads,
                             int seq_len, int head_dim, bool causal) {
    dim3 grid((seq_len + BR - 1) / BR, heads, batch);
    const float scale = 1.0f / sqrtf((float)head_dim);
    if (head_dim == 64) {
        flash_fwd_wmma<64><<<grid, THREADS>>>(Q, K, V, O, L, heads, seq_len, scale, causal);
    } else if (head_dim == 32) {
        flash_fwd_wmma<32><<<grid, THREADS>>>(Q, K, V, O, L, heads, seq_len, scale, causal);
    }
}
