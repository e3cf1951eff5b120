// Decoding with multi-head latent attention: every head of a sequence reads the same latent cache, so the heads are the rows
// of the tensor-core tile. A cached row holds kDimV latent dims (key *and* value) followed by kDimR rotary dims (key only).
// One CTA: 16 heads of one sequence. Queries have been absorbed (q_nope * W_uk) and concatenated with q_pe beforehand.

#include <cuda_bf16.h>

#include <cstdint>

namespace mla {

using bf16 = __nv_bfloat16;

struct DecodeParams {
    const bf16 *q;            // [batch, heads, kDimV + kDimR]
    const bf16 *kv_cache;     // [num_pages, kPage, kDimV + kDimR]
    const int *block_table;   // [batch, table_stride]
    const int *seqlens_k;     // [batch]
    bf16 *out;                // [batch, heads, kDimV]
    float *lse;               // [batch, heads]
    int heads;
    int table_stride;
    float scale_log2;         // softmax scale * log2(e)
};

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool valid) {
    const int bytes = valid ? 16 : 0;      // the rest of the 16 is zero-filled
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void ldsm_x2(uint32_t (&r)[2], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void ldsm_x2_t(uint32_t (&r)[2], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int m = 16; m > 0; m >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, m));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int m = 16; m > 0; m >>= 1) v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}

template <int kDimV, int kDimR, int kPage>
__global__ void __launch_bounds__(128) mla_decode_kernel(const DecodeParams p) {
    constexpr int kDimK = kDimV + kDimR;
    constexpr int kHeads = 16, kTileN = 32;
    constexpr int kLd = kDimK + 8, kLdS = kTileN + 4, kLdP = kTileN + 8;
    constexpr int kChunks = kDimK / 8;
    constexpr int kColsPerWarp = kDimV / 4;
    static_assert(kDimK % 16 == 0 && kColsPerWarp % 8 == 0, "dims do not fit the instruction");

    __shared__ alignas(16) bf16 sQ[kHeads * kLd];
    __shared__ alignas(16) bf16 sKV[2][kTileN * kLd];
    __shared__ float sS[kHeads * kLdS];
    __shared__ alignas(16) bf16 sP[kHeads * kLdP];
    __shared__ float sAlpha[kHeads];
    __shared__ float sSum[kHeads];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int g = lane / 4, t = lane % 4;
    const int b = blockIdx.y, h0 = blockIdx.x * kHeads;
    const int seqlen = p.seqlens_k[b];
    const int *table = p.block_table + b * p.table_stride;
    const int n_tiles = (seqlen + kTileN - 1) / kTileN;

    auto load_tile = [&](int stage, int tile) {
        for (int c = tid; c < kTileN * kChunks; c += 128) {
            const int row = c / kChunks, col = c % kChunks * 8;
            const int key = tile * kTileN + row;
            const bool valid = key < seqlen;
            const int page = valid ? table[key / kPage] : 0;
            const bf16 *src = p.kv_cache + (static_cast<int64_t>(page) * kPage + key % kPage) * kDimK + col;
            cp_async16(&sKV[stage][row * kLd + col], src, valid);
        }
    };

    for (int c = tid; c < kHeads * kChunks; c += 128) {
        const int row = c / kChunks, col = c % kChunks * 8;
        const bool valid = h0 + row < p.heads;
        const bf16 *src = p.q + (static_cast<int64_t>(b) * p.heads + (valid ? h0 + row : h0)) * kDimK + col;
        cp_async16(&sQ[row * kLd + col], src, valid);
    }
    load_tile(0, 0);
    asm volatile("cp.async.commit_group;\n" ::: "memory");

    float o[kColsPerWarp / 8][4] = {};
    float row_max[4], row_sum[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        row_max[r] = -INFINITY;
        row_sum[r] = 0.f;
    }

    for (int tile = 0; tile < n_tiles; ++tile) {
        const bf16 *kv = sKV[tile % 2];
        if (tile + 1 < n_tiles) load_tile((tile + 1) % 2, tile + 1);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
        asm volatile("cp.async.wait_group 1;\n" ::: "memory");
        __syncthreads();

        // scores of 16 heads with this warp's 8 keys
        float s[4] = {};
#pragma unroll
        for (int kk = 0; kk < kDimK / 16; ++kk) {
            uint32_t qa[4], kb[2];
            ldsm_x4(qa, &sQ[(lane % 16) * kLd + kk * 16 + lane / 16 * 8]);
            ldsm_x2(kb, &kv[(warp * 8 + lane % 8) * kLd + kk * 16 + lane / 8 % 2 * 8]);
            mma_16816(s, qa, kb);
        }
        sS[g * kLdS + warp * 8 + t * 2] = s[0];
        sS[g * kLdS + warp * 8 + t * 2 + 1] = s[1];
        sS[(g + 8) * kLdS + warp * 8 + t * 2] = s[2];
        sS[(g + 8) * kLdS + warp * 8 + t * 2 + 1] = s[3];
        __syncthreads();

        // online softmax: a warp has four heads, a lane one key
        const bool seen = tile * kTileN + lane < seqlen;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int row = warp * 4 + r;
            const float x = seen ? sS[row * kLdS + lane] * p.scale_log2 : -INFINITY;
            const float m = fmaxf(row_max[r], warp_max(x));
            const float alpha = exp2f(row_max[r] - m);
            const float e = exp2f(x - m);
            row_sum[r] = row_sum[r] * alpha + warp_sum(e);
            row_max[r] = m;
            sP[row * kLdP + lane] = __float2bfloat16(e);
            if (lane == 0) sAlpha[row] = alpha;
        }
        __syncthreads();

        const float alpha0 = sAlpha[g], alpha1 = sAlpha[g + 8];
#pragma unroll
        for (int j = 0; j < kColsPerWarp / 8; ++j) {
            o[j][0] *= alpha0;
            o[j][1] *= alpha0;
            o[j][2] *= alpha1;
            o[j][3] *= alpha1;
        }
#pragma unroll
        for (int kk = 0; kk < kTileN / 16; ++kk) {
            uint32_t pa[4], vb[2];
            ldsm_x4(pa, &sP[(lane % 16) * kLdP + kk * 16 + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < kColsPerWarp / 8; ++j) {
                ldsm_x2_t(vb, &kv[(kk * 16 + lane % 16) * kLd + warp * kColsPerWarp + j * 8]);
                mma_16816(o[j], pa, vb);
            }
        }
        __syncthreads();   // the next prefetch goes where this tile lies
    }

    if (lane == 0) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int row = warp * 4 + r;
            sSum[row] = row_sum[r];
            if (h0 + row < p.heads) p.lse[b * p.heads + h0 + row] = row_max[r] * 0.69314718f + logf(row_sum[r]);
        }
    }
    __syncthreads();

#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = g + half * 8;
        if (h0 + row >= p.heads) continue;
        const float inv = 1.f / sSum[row];
        bf16 *dst = p.out + (static_cast<int64_t>(b) * p.heads + h0 + row) * kDimV + warp * kColsPerWarp + t * 2;
#pragma unroll
        for (int j = 0; j < kColsPerWarp / 8; ++j)
            *reinterpret_cast<__nv_bfloat162 *>(dst + j * 8) =
                __floats2bfloat162_rn(o[j][half * 2] * inv, o[j][half * 2 + 1] * inv);
    }
}

template __global__ void mla_decode_kernel<64, 16, 8>(const DecodeParams);

}  // namespace mla
