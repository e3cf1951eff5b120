// Attention backward, the part for keys and values: a thread block owns kBlockN keys of one key head and runs over all
// blocks of queries of all query heads that share it. Everything is computed transposed (keys x queries), so that
// P^T and dS^T can be fed from the accumulators straight into the next mma.
#include <cuda_bf16.h>
#include <cstdint>

using Element = __nv_bfloat16;

struct Bwd_params {
    const Element *q, *k, *v, *dout;      // [batch, seqlen, heads, D]
    const float *lse, *delta;             // [batch, heads, seqlen_q]
    Element *dk, *dv;
    int seqlen_q, seqlen_k, heads, heads_k;
    float scale;
    int is_causal;
};

template <int kHeadDim_, int kBlockM_, int kNWarps_>
struct Bwd_traits {
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kBlockM = kBlockM_;            // queries of a step
    static constexpr int kNWarps = kNWarps_;
    static constexpr int kBlockN = 16 * kNWarps;        // keys of a block
    static constexpr int kThreads = 32 * kNWarps;
    static constexpr int kRow = kHeadDim + 8;
    static constexpr int kChunks = kHeadDim / 8;
};

__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&v);
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool kTrans>
__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const Element *p) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    if constexpr (kTrans)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

template <int kBytes>
__device__ __forceinline__ void cp_async_zfill(void *dst, const void *src, bool valid) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    int n = valid ? kBytes : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(addr), "l"(src), "n"(kBytes), "r"(n));
}

// rows key, key + 8 of a [seqlen, heads, D] tensor as an A operand of depth 16
__device__ __forceinline__ void load_a(uint32_t (&a)[4], const Element *base, int stride, int key, int limit, int col) {
    auto word = [&](int row, int c) -> uint32_t {
        return row < limit ? *reinterpret_cast<const uint32_t *>(base + (size_t)row * stride + c) : 0u;
    };
    a[0] = word(key, col);
    a[1] = word(key + 8, col);
    a[2] = word(key, col + 8);
    a[3] = word(key + 8, col + 8);
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads) dkdv_kernel(const Bwd_params p) {
    constexpr int D = Traits::kHeadDim, M = Traits::kBlockM, ROW = Traits::kRow;
    __shared__ __align__(16) Element s_q[2][M * ROW];
    __shared__ __align__(16) Element s_do[2][M * ROW];
    __shared__ float s_lse[2][M], s_delta[2][M];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int head_k = blockIdx.y, batch = blockIdx.z;
    const int n0 = blockIdx.x * Traits::kBlockN;
    const int key = n0 + warp * 16 + g;
    const int ratio = p.heads / p.heads_k;
    const float log2e = 1.44269504088896f;

    const int stride_q = p.heads * D, stride_k = p.heads_k * D;
    const size_t off_k = (size_t)batch * p.seqlen_k * stride_k + head_k * D;

    uint32_t frag_k[D / 16][4], frag_v[D / 16][4];
    for (int i = 0; i < D / 16; ++i) {
        load_a(frag_k[i], p.k + off_k, stride_k, key, p.seqlen_k, i * 16 + 2 * t);
        load_a(frag_v[i], p.v + off_k, stride_k, key, p.seqlen_k, i * 16 + 2 * t);
    }

    float acc_dk[D / 8][4] = {}, acc_dv[D / 8][4] = {};

    const int m_first = p.is_causal ? n0 / M : 0;
    const int m_blocks = (p.seqlen_q + M - 1) / M - m_first;
    const int steps = m_blocks > 0 ? m_blocks * ratio : 0;

    auto fetch = [&](int step, int buf) {
        const int head = head_k * ratio + step / m_blocks;
        const int m0 = (m_first + step % m_blocks) * M;
        const size_t off = (size_t)batch * p.seqlen_q * stride_q + head * D;
        for (int c = tid; c < M * Traits::kChunks; c += Traits::kThreads) {
            const int row = c / Traits::kChunks, col = (c % Traits::kChunks) * 8;
            const bool valid = m0 + row < p.seqlen_q;
            const size_t src = off + (size_t)(valid ? m0 + row : 0) * stride_q + col;
            cp_async_zfill<16>(&s_q[buf][row * ROW + col], p.q + src, valid);
            cp_async_zfill<16>(&s_do[buf][row * ROW + col], p.dout + src, valid);
        }
        if (tid < M) {
            const bool valid = m0 + tid < p.seqlen_q;
            const size_t src = ((size_t)batch * p.heads + head) * p.seqlen_q + (valid ? m0 + tid : 0);
            cp_async_zfill<4>(&s_lse[buf][tid], p.lse + src, valid);
            cp_async_zfill<4>(&s_delta[buf][tid], p.delta + src, valid);
        }
        asm volatile("cp.async.commit_group;\n" ::);
    };

    if (steps > 0) fetch(0, 0);
    for (int step = 0; step < steps; ++step) {
        const int buf = step & 1;
        if (step + 1 < steps) {
            fetch(step + 1, buf ^ 1);
            asm volatile("cp.async.wait_group 1;\n" ::);
        } else {
            asm volatile("cp.async.wait_group 0;\n" ::);
        }
        __syncthreads();

        // S^T = K Q^T and dP^T = V dO^T
        float st[M / 8][4] = {}, dpt[M / 8][4] = {};
        const int b_row = (lane & 7) + (lane >> 4) * 8, b_col = ((lane >> 3) & 1) * 8;
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
            for (int nn = 0; nn < M / 16; ++nn) {
                uint32_t bq[4], bo[4];
                ldsm_x4<false>(bq, &s_q[buf][(nn * 16 + b_row) * ROW + kk * 16 + b_col]);
                ldsm_x4<false>(bo, &s_do[buf][(nn * 16 + b_row) * ROW + kk * 16 + b_col]);
                mma_bf16(st[2 * nn], frag_k[kk], bq[0], bq[1]);
                mma_bf16(st[2 * nn + 1], frag_k[kk], bq[2], bq[3]);
                mma_bf16(dpt[2 * nn], frag_v[kk], bo[0], bo[1]);
                mma_bf16(dpt[2 * nn + 1], frag_v[kk], bo[2], bo[3]);
            }
        }

        // P^T = exp(scale S^T - lse), dS^T = P^T (dP^T - delta)
        const int m0 = (m_first + step % m_blocks) * M;
#pragma unroll
        for (int nt = 0; nt < M / 8; ++nt) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int qi = nt * 8 + 2 * t + (e & 1);
                const int kj = key + (e >> 1) * 8;
                const bool seen = m0 + qi < p.seqlen_q && kj < p.seqlen_k && (!p.is_causal || kj <= m0 + qi);
                const float pe = seen ? exp2f((st[nt][e] * p.scale - s_lse[buf][qi]) * log2e) : 0.f;
                st[nt][e] = pe;
                dpt[nt][e] = pe * (dpt[nt][e] - s_delta[buf][qi]);
            }
        }

        // dV += P^T dO and dK += dS^T Q
        const int r_row = (lane & 7) + ((lane >> 3) & 1) * 8, r_col = (lane >> 4) * 8;
#pragma unroll
        for (int kk = 0; kk < M / 16; ++kk) {
            const uint32_t ap[4] = {pack2(st[2 * kk][0], st[2 * kk][1]), pack2(st[2 * kk][2], st[2 * kk][3]),
                                    pack2(st[2 * kk + 1][0], st[2 * kk + 1][1]), pack2(st[2 * kk + 1][2], st[2 * kk + 1][3])};
            const uint32_t as[4] = {pack2(dpt[2 * kk][0], dpt[2 * kk][1]), pack2(dpt[2 * kk][2], dpt[2 * kk][3]),
                                    pack2(dpt[2 * kk + 1][0], dpt[2 * kk + 1][1]), pack2(dpt[2 * kk + 1][2], dpt[2 * kk + 1][3])};
#pragma unroll
            for (int dd = 0; dd < D / 16; ++dd) {
                uint32_t bo[4], bq[4];
                ldsm_x4<true>(bo, &s_do[buf][(kk * 16 + r_row) * ROW + dd * 16 + r_col]);
                ldsm_x4<true>(bq, &s_q[buf][(kk * 16 + r_row) * ROW + dd * 16 + r_col]);
                mma_bf16(acc_dv[2 * dd], ap, bo[0], bo[1]);
                mma_bf16(acc_dv[2 * dd + 1], ap, bo[2], bo[3]);
                mma_bf16(acc_dk[2 * dd], as, bq[0], bq[1]);
                mma_bf16(acc_dk[2 * dd + 1], as, bq[2], bq[3]);
            }
        }
        __syncthreads();      // the next step fills the other buffer's successor
    }

    for (int dt = 0; dt < D / 8; ++dt) {
        for (int half = 0; half < 2; ++half) {
            const int row = key + half * 8;
            if (row >= p.seqlen_k) continue;
            const size_t at = off_k + (size_t)row * stride_k + dt * 8 + 2 * t;
            *reinterpret_cast<uint32_t *>(p.dk + at) = pack2(acc_dk[dt][2 * half] * p.scale, acc_dk[dt][2 * half + 1] * p.scale);
            *reinterpret_cast<uint32_t *>(p.dv + at) = pack2(acc_dv[dt][2 * half], acc_dv[dt][2 * half + 1]);
        }
    }
}

template __global__ void dkdv_kernel<Bwd_traits<64, 32, 4>>(const Bwd_params);
