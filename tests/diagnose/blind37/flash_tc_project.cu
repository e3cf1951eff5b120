/*
 * CS 7xx - GPU Programming, final project (team 14)
 * FlashAttention-style forward pass on Tensor Cores (WMMA)
 *
 * What it does
 *   O = softmax(Q K^T * scale) V        Q, K, V, O: [batch, heads, seq_len, D] in half
 *   one thread block  = BR query rows of one head
 *   one warp          = 16 of these rows. A warp never looks at the S or O rows of the other
 *                       warp, so between the steps of the softmax a __syncwarp() is enough :)
 *
 * Shared memory is what limits us on the T4, so:
 *   - K and V use the SAME buffer (first K for S = QK^T, then V for O += PV)
 *   - P (half) is written over S (float), row by row. P[j] is at byte 2j, S[j] at byte 4j,
 *     so going from left to right nothing is overwritten before it was read.
 *
 * Still slow: only 16 lanes do the softmax. (future work, see report section 6)
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <math_constants.h>

using namespace nvcuda;

#define BR 32              // query rows per block
#define BC 32              // keys per iteration
#define NWARPS (BR / 16)
#define NTHREADS (NWARPS * 32)
#define LDS (BC + 4)       // leading dim of S in floats
#define LDP (2 * LDS)      // the same rows, counted in halves
#define LDX 20             // leading dim of the scratch tile (one per warp)

// copy `rows` rows of a [seq_len, D] matrix into shared memory, beyond seq_len -> 0
template <int D>
__device__ void load_rows(half *dst, const half *src, int first_row, int rows, int seq_len) {
    const int ld = D + 8;
    const int vec_per_row = D / 8;              // int4 = 8 halves
    for (int i = threadIdx.x; i < rows * vec_per_row; i += NTHREADS) {
        int r = i / vec_per_row;
        int c = (i % vec_per_row) * 8;
        int4 val = make_int4(0, 0, 0, 0);
        if (first_row + r < seq_len)
            val = *(const int4 *)(src + (size_t)(first_row + r) * D + c);
        *(int4 *)(dst + r * ld + c) = val;
    }
}

template <int D>
__global__ void flash_attn_tc(const half *Q, const half *K, const half *V, half *O,
                              int seq_len, float scale, int causal) {
    const int LDQ = D + 8;
    const int LDO = D + 4;

    // ---- shared memory layout ----
    extern __shared__ __align__(128) char smem[];
    half  *Qs  = (half *)smem;                      // BR x LDQ
    half  *KVs = Qs + BR * LDQ;                     // BC x LDQ   (K, later V)
    float *Ss  = (float *)(KVs + BC * LDQ);         // BR x LDS   (S, later P)
    float *Os  = Ss + BR * LDS;                     // BR x LDO
    float *Xs  = Os + BR * LDO;                     // NWARPS x 16 x LDX
    float *row_m = Xs + NWARPS * 16 * LDX;          // running max
    float *row_l = row_m + BR;                      // running sum
    float *row_a = row_l + BR;                      // correction factor exp(m_old - m_new)

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int q0   = blockIdx.x * BR;
    const int wrow = warp * 16;                     // first row of this warp inside the tile

    // blockIdx.y = batch * heads + head
    const size_t head_offset = (size_t)blockIdx.y * seq_len * D;
    Q += head_offset;
    K += head_offset;
    V += head_offset;
    O += head_offset;

    load_rows<D>(Qs, Q, q0, BR, seq_len);
    for (int i = threadIdx.x; i < BR * LDO; i += NTHREADS)
        Os[i] = 0.0f;
    if (threadIdx.x < BR) {
        row_m[threadIdx.x] = -CUDART_INF_F;
        row_l[threadIdx.x] = 0.0f;
    }

    // with a causal mask the tiles right of the diagonal can be skipped
    int kv_end = seq_len;
    if (causal)
        kv_end = min(seq_len, q0 + BR);

    for (int k0 = 0; k0 < kv_end; k0 += BC) {
        __syncthreads();                            // nobody may still use the old V
        load_rows<D>(KVs, K, k0, BC, seq_len);
        __syncthreads();

        // ---- S = Q K^T : 16 x BC per warp ----
        for (int n = 0; n < BC; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_frag;
            wmma::fill_fragment(s_frag, 0.0f);
            for (int kk = 0; kk < D; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
                // K is [key][d], we want K^T -> col_major
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
                wmma::load_matrix_sync(q_frag, Qs + wrow * LDQ + kk, LDQ);
                wmma::load_matrix_sync(k_frag, KVs + n * LDQ + kk, LDQ);
                wmma::mma_sync(s_frag, q_frag, k_frag, s_frag);
            }
            wmma::store_matrix_sync(Ss + wrow * LDS + n, s_frag, LDS, wmma::mem_row_major);
        }
        __syncthreads();                            // both warps are done with K

        // V is on its way while we do the softmax
        load_rows<D>(KVs, V, k0, BC, seq_len);

        // ---- online softmax, one lane = one row ----
        if (lane < 16) {
            const int r  = wrow + lane;
            const int qi = q0 + r;                  // position of this query
            float *s = Ss + r * LDS;
            half  *p = (half *)s;

            // last visible key of this row inside of the tile (exclusive)
            int visible = min(BC, seq_len - k0);
            if (causal)
                visible = min(visible, qi - k0 + 1);

            float m_old = row_m[r];
            float m_new = m_old;
            for (int j = 0; j < visible; j++)
                m_new = fmaxf(m_new, s[j] * scale);

            float l = 0.0f;
            for (int j = 0; j < BC; j++) {
                float e = 0.0f;
                if (j < visible)
                    e = __expf(s[j] * scale - m_new);
                l += e;
                p[j] = __float2half(e);
            }
            float alpha = __expf(m_old - m_new);    // first tile: exp(-inf) = 0
            row_l[r] = row_l[r] * alpha + l;
            row_m[r] = m_new;
            row_a[r] = alpha;
        }
        __syncthreads();                            // V is complete, P is written

        // ---- O = O * alpha + P V ----
        const half *Ps = (const half *)Ss;
        float *X = Xs + warp * 16 * LDX;
        for (int n = 0; n < D; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_frag;
            wmma::fill_fragment(o_frag, 0.0f);
            for (int kk = 0; kk < BC; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
                wmma::load_matrix_sync(p_frag, Ps + wrow * LDP + kk, LDP);
                wmma::load_matrix_sync(v_frag, KVs + kk * LDQ + n, LDQ);
                wmma::mma_sync(o_frag, p_frag, v_frag, o_frag);
            }
            // we don't know which lane holds which element -> through shared memory
            wmma::store_matrix_sync(X, o_frag, LDX, wmma::mem_row_major);
            __syncwarp();
            for (int i = lane; i < 16 * 16; i += 32) {
                int r = i / 16, c = i % 16;
                float *o = &Os[(wrow + r) * LDO + n + c];
                *o = *o * row_a[wrow + r] + X[r * LDX + c];
            }
            __syncwarp();                           // X is used again for the next 16 columns
        }
    }

    // ---- divide by the sum and write back, every warp its own rows ----
    for (int i = lane; i < 16 * D; i += 32) {
        int r = wrow + i / D;
        int c = i % D;
        if (q0 + r < seq_len)
            O[(size_t)(q0 + r) * D + c] = __float2half(Os[r * LDO + c] / row_l[r]);
    }
}

#ifndef NO_HOST
size_t flash_smem_bytes(int D) {
    return (BR + BC) * (D + 8) * sizeof(half) +
           (BR * LDS + BR * (D + 4) + NWARPS * 16 * LDX + 3 * BR) * sizeof(float);
}

void flash_forward(const half *Q, const half *K, const half *V, half *O, int B, int H, int S, bool causal) {
    dim3 grid((S + BR - 1) / BR, B * H);
    flash_attn_tc<64><<<grid, NTHREADS, flash_smem_bytes(64)>>>(Q, K, V, O, S, 1.0f / sqrtf(64.0f), causal);
}
#endif
