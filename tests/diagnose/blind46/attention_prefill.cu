// attention_prefill.cu - attention of a chunk of new tokens over the KV cache.
//
//   q, out            [n_tokens][n_heads][head_dim]              (RoPE already applied to q)
//   k_cache, v_cache  [n_layers][max_seq_len][n_kv_heads][head_dim]
//
// The new tokens are at positions pos .. pos + n_tokens - 1, and their keys and values have been
// written to the cache before this kernel starts. Grouped-query attention: n_heads / n_kv_heads
// neighbouring query heads share one head of the cache.
//
// One block = 32 tokens of one query head, 4 warps. Everything goes through shared memory, so it is
// not the fastest thing on earth, but prefill is ~11x faster than with the scalar kernel.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define BR 32            // tokens per block
#define BC 64            // keys per step
#define N_WARPS 4
#define N_THREADS (N_WARPS * 32)
#define PAD 8
#define MASKED (-1e30f)

// Copy BC rows of one kv head from the cache, zeros behind the last token.
template <int HEAD_DIM>
__device__ void load_kv_tile(half (*tile)[HEAD_DIM + PAD], const half *cache, int kv_dim, int k_start, int kv_len)
{
    const int vecs = HEAD_DIM / 8;
    for (int i = threadIdx.x; i < BC * vecs; i += N_THREADS) {
        int r = i / vecs;
        int c = (i % vecs) * 8;
        int4 v = make_int4(0, 0, 0, 0);
        if (k_start + r < kv_len)
            v = *(const int4 *)(cache + (size_t)(k_start + r) * kv_dim + c);
        *(int4 *)&tile[r][c] = v;
    }
}

template <int HEAD_DIM>
__global__ void __launch_bounds__(N_THREADS)
attention_prefill(half *out, const half *q, const half *k_cache, const half *v_cache,
                  int pos, int n_tokens, int n_heads, int n_kv_heads, int max_seq_len, int layer)
{
    __shared__ __align__(32) half  s_q[BR][HEAD_DIM + PAD];
    __shared__ __align__(32) half  s_k[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half  s_v[BC][HEAD_DIM + PAD];
    __shared__ __align__(32) half  s_p[BR][BC + PAD];
    __shared__ __align__(32) float s_s[BR][BC + 4];
    __shared__ __align__(32) float s_o[BR][HEAD_DIM + 4];

    const int tid     = threadIdx.x;
    const int warp    = tid / 32;
    const int q_start = blockIdx.x * BR;
    const int head    = blockIdx.y;
    const int kv_head = head / (n_heads / n_kv_heads);
    const int kv_dim  = n_kv_heads * HEAD_DIM;
    const int kv_len  = pos + n_tokens;
    const float scale = rsqrtf((float)HEAD_DIM);

    const size_t layer_off = (size_t)layer * max_seq_len * kv_dim;
    const half *k_head = k_cache + layer_off + kv_head * HEAD_DIM;
    const half *v_head = v_cache + layer_off + kv_head * HEAD_DIM;

    for (int i = tid; i < BR * HEAD_DIM / 8; i += N_THREADS) {
        int r = i / (HEAD_DIM / 8);
        int c = (i % (HEAD_DIM / 8)) * 8;
        int4 v = make_int4(0, 0, 0, 0);
        if (q_start + r < n_tokens)
            v = *(const int4 *)(q + ((size_t)(q_start + r) * n_heads + head) * HEAD_DIM + c);
        *(int4 *)&s_q[r][c] = v;
    }
    for (int i = tid; i < BR * HEAD_DIM; i += N_THREADS)
        s_o[i / HEAD_DIM][i % HEAD_DIM] = 0.0f;

    // softmax state: four neighbouring threads look after one row
    const int row   = tid / 4;
    const int part  = tid % 4;
    const int q_pos = pos + q_start + row;
    float m = MASKED;
    float l = 0.0f;

    // the tiles of S and O that this warp computes
    const int warp_row = (warp / 2) * 16;
    const int warp_col = warp % 2;

    // nobody in this block sees a key behind its last token
    const int k_end = min(kv_len, pos + q_start + BR);

    for (int k_start = 0; k_start < k_end; k_start += BC) {
        __syncthreads();   // the tiles before have been used up
        load_kv_tile<HEAD_DIM>(s_k, k_head, kv_dim, k_start, kv_len);
        load_kv_tile<HEAD_DIM>(s_v, v_head, kv_dim, k_start, kv_len);
        __syncthreads();

        // S = Q K^T
        for (int j = 0; j < BC / 32; j++) {
            const int col = warp_col * (BC / 2) + j * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_s;
            wmma::fill_fragment(acc_s, 0.0f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_q;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> frag_k;
                wmma::load_matrix_sync(frag_q, &s_q[warp_row][d], HEAD_DIM + PAD);
                wmma::load_matrix_sync(frag_k, &s_k[col][d], HEAD_DIM + PAD);
                wmma::mma_sync(acc_s, frag_q, frag_k, acc_s);
            }
            wmma::store_matrix_sync(&s_s[warp_row][col], acc_s, BC + 4, wmma::mem_row_major);
        }
        __syncthreads();   // rows of S come from two warps

        // online softmax
        float m_new = m;
        for (int c = part; c < BC; c += 4) {
            float s = s_s[row][c] * scale;
            if (k_start + c > q_pos)
                s = MASKED;
            s_s[row][c] = s;
            m_new = fmaxf(m_new, s);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 1));
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffff, m_new, 2));

        float sum = 0.0f;
        for (int c = part; c < BC; c += 4) {
            float p = __expf(s_s[row][c] - m_new);
            s_p[row][c] = __float2half(p);
            sum += p;
        }
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);

        const float alpha = __expf(m - m_new);
        l = l * alpha + sum;
        m = m_new;
        for (int d = part; d < HEAD_DIM; d += 4)
            s_o[row][d] *= alpha;
        __syncthreads();   // P and the rescaled O are complete

        // O += P V
        for (int j = 0; j < HEAD_DIM / 32; j++) {
            const int col = warp_col * (HEAD_DIM / 2) + j * 16;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc_o;
            wmma::load_matrix_sync(acc_o, &s_o[warp_row][col], HEAD_DIM + 4, wmma::mem_row_major);
            for (int k = 0; k < BC; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag_p;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> frag_v;
                wmma::load_matrix_sync(frag_p, &s_p[warp_row][k], BC + PAD);
                wmma::load_matrix_sync(frag_v, &s_v[k][col], HEAD_DIM + PAD);
                wmma::mma_sync(acc_o, frag_p, frag_v, acc_o);
            }
            wmma::store_matrix_sync(&s_o[warp_row][col], acc_o, HEAD_DIM + 4, wmma::mem_row_major);
        }
    }
    __syncthreads();

    if (q_start + row < n_tokens) {
        half *out_row = out + ((size_t)(q_start + row) * n_heads + head) * HEAD_DIM;
        const float inv_l = 1.0f / l;
        for (int d = part; d < HEAD_DIM; d += 4)
            out_row[d] = __float2half(s_o[row][d] * inv_l);
    }
}
