// Mistral-style sliding window attention (prefill), GQA.
//
// query i sees the keys j with   i - window < j <= i
//
//  q  [batch, seq, n_heads,    head_dim]  bf16
//  k  [batch, seq, n_kv_heads, head_dim]  bf16
//  v  [batch, seq, n_kv_heads, head_dim]  bf16
//  o  [batch, seq, n_heads,    head_dim]  bf16
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>

typedef __nv_bfloat16 bf16_t;

#define BLOCK_Q 32
#define BLOCK_K 32
#define NWARPS 2
#define NTHREADS (NWARPS * 32)
#define NEG_BIG (-1.0e30f)

#define CEIL(a, b) (((a) + (b) - 1) / (b))

template <int HEAD_DIM>
__global__ void swa_prefill(const bf16_t* q, const bf16_t* k, const bf16_t* v, bf16_t* o, int seq, int n_heads,
                            int n_kv_heads, int window, float sm_scale)
{
    using namespace nvcuda;
    const int LDH = HEAD_DIM + 16;
    const int LDS = BLOCK_K + 8;
    const int LDO = HEAD_DIM + 8;
    __shared__ __align__(128) bf16_t q_s[BLOCK_Q * (HEAD_DIM + 16)];
    __shared__ __align__(128) bf16_t kv_s[2][BLOCK_K * (HEAD_DIM + 16)];
    __shared__ __align__(128) float s_s[BLOCK_Q * (BLOCK_K + 8)];
    __shared__ __align__(128) bf16_t p_s[BLOCK_Q * (BLOCK_K + 8)];
    __shared__ __align__(128) float o_s[BLOCK_Q * (HEAD_DIM + 8)];

    const int head = blockIdx.x % n_heads;
    const int batch = blockIdx.x / n_heads;
    const int kv_head = head / (n_heads / n_kv_heads);
    const int q_start = blockIdx.y * BLOCK_Q;

    const int wid = threadIdx.x / 32;
    const int row = wid * 16 + threadIdx.x % 16;        // 2 lanes share a row:
    const int part = (threadIdx.x % 32) / 16;           // lane and lane + 16

    const size_t q_tok = (size_t)n_heads * HEAD_DIM, kv_tok = (size_t)n_kv_heads * HEAD_DIM;
    q += (size_t)batch * seq * q_tok + head * HEAD_DIM;
    o += (size_t)batch * seq * q_tok + head * HEAD_DIM;
    k += (size_t)batch * seq * kv_tok + kv_head * HEAD_DIM;
    v += (size_t)batch * seq * kv_tok + kv_head * HEAD_DIM;

    for (int i = threadIdx.x; i < BLOCK_Q * HEAD_DIM; i += NTHREADS) {
        int r = i / HEAD_DIM, c = i % HEAD_DIM;
        q_s[r * LDH + c] = (q_start + r < seq) ? q[(q_start + r) * q_tok + c] : __float2bfloat16(0.f);
        o_s[r * LDO + c] = 0.f;
    }

    float m_i = NEG_BIG, l_i = 0.f;
    // first key that any row of this block can see, rounded down to a tile
    int k_begin = max(0, q_start - window + 1) / BLOCK_K * BLOCK_K;
    int k_end = min(seq, q_start + BLOCK_Q);

    for (int k_start = k_begin; k_start < k_end; k_start += BLOCK_K) {
        for (int i = threadIdx.x; i < BLOCK_K * HEAD_DIM; i += NTHREADS) {
            int r = i / HEAD_DIM, c = i % HEAD_DIM;
            bool in = k_start + r < seq;
            kv_s[0][r * LDH + c] = in ? k[(k_start + r) * kv_tok + c] : __float2bfloat16(0.f);
            kv_s[1][r * LDH + c] = in ? v[(k_start + r) * kv_tok + c] : __float2bfloat16(0.f);
        }
        __syncthreads();

        for (int n = 0; n < BLOCK_K; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> qk;
            wmma::fill_fragment(qk, 0.f);
            for (int d = 0; d < HEAD_DIM; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::col_major> fb;
                wmma::load_matrix_sync(fa, q_s + wid * 16 * LDH + d, LDH);
                wmma::load_matrix_sync(fb, kv_s[0] + n * LDH + d, LDH);
                wmma::mma_sync(qk, fa, fb, qk);
            }
            wmma::store_matrix_sync(s_s + wid * 16 * LDS + n, qk, LDS, wmma::mem_row_major);
        }
        __syncwarp();

        const int qi = q_start + row;
        float m_new = m_i;
        for (int c = part; c < BLOCK_K; c += 2) {
            int kj = k_start + c;
            bool visible = kj <= qi && kj > qi - window && kj < seq;
            float x = visible ? s_s[row * LDS + c] * sm_scale : NEG_BIG;
            s_s[row * LDS + c] = x;
            m_new = fmaxf(m_new, x);
        }
        m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 16));
        float row_sum = 0.f;
        for (int c = part; c < BLOCK_K; c += 2) {
            float x = s_s[row * LDS + c];
            // a tile may be entirely invisible to this row: do not count exp(0)
            float p = x == NEG_BIG ? 0.f : __expf(x - m_new);
            p_s[row * LDS + c] = __float2bfloat16(p);
            row_sum += p;
        }
        row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 16);
        float corr = __expf(m_i - m_new);
        l_i = l_i * corr + row_sum;
        m_i = m_new;
        for (int c = part; c < HEAD_DIM; c += 2) o_s[row * LDO + c] *= corr;
        __syncwarp();

        for (int n = 0; n < HEAD_DIM; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> pv;
            wmma::load_matrix_sync(pv, o_s + wid * 16 * LDO + n, LDO, wmma::mem_row_major);
            for (int kk = 0; kk < BLOCK_K; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16_t, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16_t, wmma::row_major> fb;
                wmma::load_matrix_sync(fa, p_s + wid * 16 * LDS + kk, LDS);
                wmma::load_matrix_sync(fb, kv_s[1] + kk * LDH + n, LDH);
                wmma::mma_sync(pv, fa, fb, pv);
            }
            wmma::store_matrix_sync(o_s + wid * 16 * LDO + n, pv, LDO, wmma::mem_row_major);
        }
        __syncthreads();
    }

    if (q_start + row < seq)
        for (int c = part; c < HEAD_DIM; c += 2)
            o[(q_start + row) * q_tok + c] = __float2bfloat16(o_s[row * LDO + c] / l_i);
}

#define LAUNCH_SWA(HD)                                                                                       \
    swa_prefill<HD><<<grid, block, 0, stream>>>(static_cast<const bf16_t*>(q), static_cast<const bf16_t*>(k), \
                                                static_cast<const bf16_t*>(v), static_cast<bf16_t*>(o), seq,  \
                                                n_heads, n_kv_heads, window, sm_scale)

extern "C" int swa_forward(const void* q, const void* k, const void* v, void* o, int batch, int seq, int n_heads,
                           int n_kv_heads, int head_dim, int window, float sm_scale, cudaStream_t stream)
{
    dim3 grid(batch * n_heads, CEIL(seq, BLOCK_Q));
    dim3 block(NTHREADS);
    if (window <= 0) window = seq;
    if (sm_scale == 0.f) sm_scale = 1.f / sqrtf((float)head_dim);
    switch (head_dim) {
        case 32: LAUNCH_SWA(32); break;
        case 64: LAUNCH_SWA(64); break;
        default: fprintf(stderr, "swa_forward: head_dim %d\n", head_dim); return 1;
    }
    return cudaGetLastError() != cudaSuccess;
}
