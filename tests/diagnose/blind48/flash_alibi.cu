// minflash - a small FlashAttention-2 for sm_80 and newer: fp16, ALiBi, causal or not, grouped heads (MQA / GQA)
// q, o: [batch, seqlen, n_heads, D]; k, v: [batch, seqlen, n_kv_heads, D]
#include <cuda_fp16.h>

namespace minflash {

typedef unsigned int u32;

struct FwdParams {
    const half*  q;
    const half*  k;
    const half*  v;
    half*        o;
    const float* alibi_slopes;    // one per head
    int          seqlen;
    int          n_heads;
    int          n_kv_heads;
    int          causal;
    float        scale;
};

constexpr int   kBlockM  = 64;    // queries of a block, 16 per warp
constexpr int   kBlockN  = 64;    // keys of a tile
constexpr int   kThreads = 128;
constexpr float kLog2e   = 1.4426950408889634f;

__device__ __forceinline__ u32 smem_addr(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async_16(u32 dst, const void* src, bool valid) {
    const int bytes = valid ? 16 : 0;    // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], u32 addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], u32 addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ __forceinline__ void mma_16816(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 pack(float lo, float hi) {
    const half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const u32*>(&h);
}

// 16-byte chunks of a row are permuted, so that eight rows of one chunk lie in different banks
template <int D>
__device__ __forceinline__ int swz(int row, int chunk) { return row * D + ((chunk ^ (row & 7)) << 3); }

template <int D>
__device__ __forceinline__ void load_tile(half* tile, const half* src, int row_stride, int rows_left) {
    for (int i = threadIdx.x; i < 64 * (D / 8); i += kThreads) {
        const int row = i / (D / 8), chunk = i % (D / 8);
        cp_async_16(smem_addr(tile + swz<D>(row, chunk)), src + static_cast<size_t>(row) * row_stride + chunk * 8, row < rows_left);
    }
}

template <int D>
__global__ void __launch_bounds__(kThreads) flash_fwd_kernel(const FwdParams p) {
    extern __shared__ __align__(128) half smem[];
    half* sQ = smem;                       // [kBlockM][D]
    half* sK = sQ + kBlockM * D;           // [2][kBlockN][D]
    half* sV = sK + 2 * kBlockN * D;       // [2][kBlockN][D]
    constexpr int kTile = kBlockN * D;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_start = (gridDim.x - 1 - blockIdx.x) * kBlockM;    // the longest rows first
    const int head    = blockIdx.y;
    const int batch   = blockIdx.z;
    const int kv_head = head / (p.n_heads / p.n_kv_heads);

    const int    q_stride  = p.n_heads * D;
    const int    kv_stride = p.n_kv_heads * D;
    const size_t q_base    = static_cast<size_t>(batch) * p.seqlen * q_stride + head * D;
    const size_t kv_base   = static_cast<size_t>(batch) * p.seqlen * kv_stride + kv_head * D;
    const half*  gK        = p.k + kv_base;
    const half*  gV        = p.v + kv_base;

    const int n_end    = p.causal ? min(p.seqlen, m_start + kBlockM) : p.seqlen;
    const int n_blocks = (n_end + kBlockN - 1) / kBlockN;

    const float scale_log2 = p.scale * kLog2e;
    const float slope_log2 = p.alibi_slopes[head] * kLog2e;
    const float neg_inf    = -__int_as_float(0x7f800000);

    load_tile<D>(sQ, p.q + q_base + static_cast<size_t>(m_start) * q_stride, q_stride, p.seqlen - m_start);
    load_tile<D>(sK, gK, kv_stride, p.seqlen);
    cp_async_commit();
    load_tile<D>(sV, gV, kv_stride, p.seqlen);
    cp_async_commit();

    // the 8x8 matrices of ldmatrix: Q and V by rows first, K by columns first
    const int a_row = lane & 15, a_chunk = lane >> 4;
    const int v_row = lane & 15, v_chunk = lane >> 4;
    const int k_row = (lane & 7) + ((lane >> 4) << 3), k_chunk = (lane >> 3) & 1;

    u32   rQ[D / 16][4];
    float acc_o[D / 8][4] = {};
    float row_max[2] = {neg_inf, neg_inf};
    float row_sum[2] = {0.f, 0.f};    // of this lane's columns
    const int row0 = m_start + warp * 16 + lane / 4;

    for (int n = 0; n < n_blocks; ++n) {
        const int cur  = n & 1;
        const int left = p.seqlen - (n + 1) * kBlockN;
        cp_async_wait<1>();    // K[n]; V[n] may be on its way
        __syncthreads();
        if (n + 1 < n_blocks)
            load_tile<D>(sK + (cur ^ 1) * kTile, gK + static_cast<size_t>(n + 1) * kBlockN * kv_stride, kv_stride, left);
        cp_async_commit();

        if (n == 0) {
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk)
                ldmatrix_x4(rQ[kk], smem_addr(sQ + swz<D>(warp * 16 + a_row, kk * 2 + a_chunk)));
        }

        float acc_s[kBlockN / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
            for (int j = 0; j < kBlockN / 16; ++j) {
                u32 b[4];
                ldmatrix_x4(b, smem_addr(sK + cur * kTile + swz<D>(j * 16 + k_row, kk * 2 + k_chunk)));
                mma_16816(acc_s[2 * j], rQ[kk], b[0], b[1]);
                mma_16816(acc_s[2 * j + 1], rQ[kk], b[2], b[3]);
            }
        }

        float corr[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = row0 + r * 8;
            float m = row_max[r];
#pragma unroll
            for (int i = 0; i < kBlockN / 4; ++i) {
                const int col = n * kBlockN + i / 2 * 8 + (lane & 3) * 2 + (i & 1);
                float& s = acc_s[i / 2][2 * r + (i & 1)];
                s = s * scale_log2 - slope_log2 * fabsf(static_cast<float>(row - col));
                if (col >= p.seqlen || (p.causal && col > row)) s = neg_inf;
                m = fmaxf(m, s);
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
            corr[r]    = exp2f(row_max[r] - m);
            row_max[r] = m;
            row_sum[r] *= corr[r];
#pragma unroll
            for (int i = 0; i < kBlockN / 4; ++i) {
                float& s = acc_s[i / 2][2 * r + (i & 1)];
                s = exp2f(s - m);
                row_sum[r] += s;
            }
        }
#pragma unroll
        for (int i = 0; i < D / 8; ++i) {
            acc_o[i][0] *= corr[0];
            acc_o[i][1] *= corr[0];
            acc_o[i][2] *= corr[1];
            acc_o[i][3] *= corr[1];
        }

        cp_async_wait<1>();    // V[n]; K[n + 1] may be on its way
        __syncthreads();
        if (n + 1 < n_blocks)
            load_tile<D>(sV + (cur ^ 1) * kTile, gV + static_cast<size_t>(n + 1) * kBlockN * kv_stride, kv_stride, left);
        cp_async_commit();

#pragma unroll
        for (int kk = 0; kk < kBlockN / 16; ++kk) {
            const u32 a[4] = {pack(acc_s[2 * kk][0], acc_s[2 * kk][1]), pack(acc_s[2 * kk][2], acc_s[2 * kk][3]),
                              pack(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]), pack(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3])};
#pragma unroll
            for (int j = 0; j < D / 16; ++j) {
                u32 b[4];
                ldmatrix_x4_trans(b, smem_addr(sV + cur * kTile + swz<D>(kk * 16 + v_row, j * 2 + v_chunk)));
                mma_16816(acc_o[2 * j], a, b[0], b[1]);
                mma_16816(acc_o[2 * j + 1], a, b[2], b[3]);
            }
        }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 1);
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 2);
        const int   row = row0 + r * 8;
        const float inv = 1.f / row_sum[r];
        if (row < p.seqlen) {
            half* dst = p.o + q_base + static_cast<size_t>(row) * q_stride + (lane & 3) * 2;
#pragma unroll
            for (int i = 0; i < D / 8; ++i)
                *reinterpret_cast<u32*>(dst + i * 8) = pack(acc_o[i][2 * r] * inv, acc_o[i][2 * r + 1] * inv);
        }
    }
}

}    // namespace minflash
