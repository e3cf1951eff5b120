// Grouped-query attention prefill: q [B, S, Hq, D], k/v [B, S, Hkv, D], causal, bf16.
#include <cuda_bf16.h>
#include <mma.h>
#include <cassert>

typedef __nv_bfloat16 bf16;

template <int D>
struct GqaConfig {
    static constexpr int ROWS = 16;
    static constexpr int COLS = 64;
    static constexpr int WARPS = 4;
    static constexpr int SMEM = ROWS * D * sizeof(bf16) + COLS * D * 2 * sizeof(bf16) + ROWS * COLS * sizeof(float) +
                                ROWS * COLS * sizeof(bf16) + ROWS * D * sizeof(float) + 3 * ROWS * sizeof(float);
};

template <int D, typename Config = GqaConfig<D>>
__global__ void gqa_prefill(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
                            bf16 *__restrict__ out, int seq_len, int num_q_heads, int num_kv_heads, float sm_scale) {
    using namespace nvcuda;
    constexpr int ROWS = Config::ROWS, COLS = Config::COLS, WARPS = Config::WARPS;
    extern __shared__ __align__(32) unsigned char smem[];
    bf16 *q_s = (bf16 *)smem;
    bf16 *k_s = q_s + ROWS * D;
    bf16 *v_s = k_s + COLS * D;
    float *s_s = (float *)(v_s + COLS * D);
    bf16 *p_s = (bf16 *)(s_s + ROWS * COLS);
    float *o_s = (float *)(p_s + ROWS * COLS);
    float *m_s = o_s + ROWS * D;
    float *l_s = m_s + ROWS;
    float *c_s = l_s + ROWS;

    const int b = blockIdx.z, h = blockIdx.y;
    const int group = num_q_heads / num_kv_heads;
    const int hk = h / group;
    const int q0 = blockIdx.x * ROWS;
    const int tid = threadIdx.x, warp = tid / 32;

    for (int i = tid; i < ROWS * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        q_s[i] = q0 + r < seq_len ? q[((size_t)(b * seq_len + q0 + r) * num_q_heads + h) * D + c] : __float2bfloat16(0.f);
        o_s[i] = 0.f;
    }
    if (tid < ROWS) m_s[tid] = -1e30f, l_s[tid] = 0.f;
    __syncthreads();

    for (int n0 = 0; n0 < q0 + ROWS && n0 < seq_len; n0 += COLS) {
        for (int i = tid; i < COLS * D; i += blockDim.x) {
            int r = i / D, c = i % D;
            size_t at = ((size_t)(b * seq_len + n0 + r) * num_kv_heads + hk) * D + c;
            bool in = n0 + r < seq_len;
            k_s[i] = in ? k[at] : __float2bfloat16(0.f);
            v_s[i] = in ? v[at] : __float2bfloat16(0.f);
        }
        __syncthreads();
        {   // each warp computes 16 columns of scores
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.f);
            for (int d = 0; d < D; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
                wmma::load_matrix_sync(fa, q_s + d, D);
                wmma::load_matrix_sync(fb, k_s + warp * 16 * D + d, D);
                wmma::mma_sync(acc, fa, fb, acc);
            }
            wmma::store_matrix_sync(s_s + warp * 16, acc, COLS, wmma::mem_row_major);
        }
        __syncthreads();
        if (tid < ROWS) {
            float m_prev = m_s[tid], m = m_prev, l = 0.f;
            for (int c = 0; c < COLS; ++c) {
                float x = (n0 + c <= q0 + tid && n0 + c < seq_len) ? s_s[tid * COLS + c] * sm_scale : -1e30f;
                s_s[tid * COLS + c] = x;
                m = max(m, x);
            }
            for (int c = 0; c < COLS; ++c) {
                float x = s_s[tid * COLS + c];
                float p = x <= -1e30f ? 0.f : expf(x - m);
                l += p;
                p_s[tid * COLS + c] = __float2bfloat16(p);
            }
            c_s[tid] = expf(m_prev - m);
            l_s[tid] = l_s[tid] * c_s[tid] + l;
            m_s[tid] = m;
        }
        __syncthreads();
        for (int i = tid; i < ROWS * D; i += blockDim.x) o_s[i] *= c_s[i / D];
        __syncthreads();
        for (int j = warp; j < D / 16; j += WARPS) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, o_s + j * 16, D, wmma::mem_row_major);
            for (int c = 0; c < COLS; c += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fb;
                wmma::load_matrix_sync(fa, p_s + c, COLS);
                wmma::load_matrix_sync(fb, v_s + c * D + j * 16, D);
                wmma::mma_sync(acc, fa, fb, acc);
            }
            wmma::store_matrix_sync(o_s + j * 16, acc, D, wmma::mem_row_major);
        }
        __syncthreads();
    }
    for (int i = tid; i < ROWS * D; i += blockDim.x) {
        int r = i / D, c = i % D;
        if (q0 + r < seq_len)
            out[((size_t)(b * seq_len + q0 + r) * num_q_heads + h) * D + c] = __float2bfloat16(o_s[i] / l_s[r]);
    }
}

template <int D>
void launch_gqa_prefill(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *out, int batch, int seq_len, int num_q_heads,
                        int num_kv_heads, cudaStream_t stream) {
    using Config = GqaConfig<D>;
    assert(num_q_heads % num_kv_heads == 0);
    auto fn = &gqa_prefill<D, Config>;
    cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::SMEM);
    dim3 grid((seq_len + Config::ROWS - 1) / Config::ROWS, num_q_heads, batch);
    fn<<<grid, Config::WARPS * 32, Config::SMEM, stream>>>(q, k, v, out, seq_len, num_q_heads, num_kv_heads,
                                                          rsqrtf((float)D));
}

template void launch_gqa_prefill<64>(const bf16 *, const bf16 *, const bf16 *, bf16 *, int, int, int, int, cudaStream_t);
template void launch_gqa_prefill<128>(const bf16 *, const bf16 *, const bf16 *, bf16 *, int, int, int, int, cudaStream_t);
