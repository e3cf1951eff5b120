// Decoding over a KV cache with grouped heads: one new token of each sequence attends to the
// keys that are cached. The query heads that share a KV head are the 16 rows of one
// mma.m16n8k16, so that the cache is read once for all of them.
//   q, out             bf16 [batch, num_kv_heads * group, kHeadDim], group <= 16
//   k_cache, v_cache   bf16 [batch, max_seq_len, num_kv_heads, kHeadDim]
//   context_lens       int  [batch]
//   grid (num_kv_heads, batch), 4 warps. Each tile has 64 keys, 16 of each warp; what the
//   warps have found is merged at the end.
#include <cuda_bf16.h>

#ifndef INFINITY   // NVRTC has no math.h
#define INFINITY __int_as_float(0x7f800000)
#endif

typedef __nv_bfloat16 bf16;

constexpr int kTile = 64;
constexpr int kNumWarps = 4;
constexpr int kNumThreads = kNumWarps * 32;
constexpr int kRows = 16;

__device__ __forceinline__ unsigned smem_u32(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async(unsigned dst, const void* src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }

__device__ __forceinline__ void ldsm_x4(unsigned* r, unsigned addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void ldsm_x4_t(unsigned* r, unsigned addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void mma_bf16(float* c, const unsigned* a, unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<unsigned*>(&v);
}

// byte offset of a chunk of 8 elements in a tile; chunks of a row are xor-ed with its number
template <int kHeadDim>
__device__ __forceinline__ int swizzle(int row, int chunk) {
    return (row * (kHeadDim / 8) + (chunk ^ (row & 7))) * 16;
}

template <int kHeadDim>
__device__ __forceinline__ void load_tile(unsigned dst, const bf16* src, int first, int len, int stride) {
    for (int i = threadIdx.x; i < kTile * (kHeadDim / 8); i += kNumThreads) {
        const int row = i / (kHeadDim / 8);
        const int chunk = i % (kHeadDim / 8);
        const bool valid = first + row < len;
        const bf16* p = src + static_cast<size_t>(valid ? first + row : 0) * stride + chunk * 8;
        cp_async(dst + swizzle<kHeadDim>(row, chunk), p, valid ? 16 : 0);
    }
}

template <int kHeadDim>
__global__ void __launch_bounds__(kNumThreads)
gqa_decode_kernel(bf16* __restrict__ out, const bf16* __restrict__ q, const bf16* __restrict__ k_cache,
                  const bf16* __restrict__ v_cache, const int* __restrict__ context_lens,
                  float scale, int group, int num_kv_heads, int max_seq_len) {
    __shared__ __align__(128) unsigned char smem[2 * kTile * kHeadDim * sizeof(bf16)];
    __shared__ float s_max[kNumWarps][kRows];
    __shared__ float s_sum[kNumWarps][kRows];

    const int kv_head = blockIdx.x;
    const int seq = blockIdx.y;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int gid = lane / 4;
    const int tig = lane % 4;

    const int len = context_lens[seq];
    const int num_heads = num_kv_heads * group;
    const int stride = num_kv_heads * kHeadDim;
    const size_t q_offset = (static_cast<size_t>(seq) * num_heads + kv_head * group) * kHeadDim;
    const size_t kv_offset = static_cast<size_t>(seq) * max_seq_len * stride + kv_head * kHeadDim;
    const bf16* k_ptr = k_cache + kv_offset;
    const bf16* v_ptr = v_cache + kv_offset;

    const unsigned smem_k = smem_u32(smem);
    const unsigned smem_v = smem_k + kTile * kHeadDim * sizeof(bf16);

    load_tile<kHeadDim>(smem_k, k_ptr, 0, len, stride);
    cp_commit();

    // queries stay in registers; rows from group on are zeros
    unsigned q_frag[kHeadDim / 16][4];
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = gid + (i % 2) * 8;
            const int col = d * 16 + (i / 2) * 8 + tig * 2;
            q_frag[d][i] = row < group ? *reinterpret_cast<const unsigned*>(q + q_offset + row * kHeadDim + col) : 0u;
        }
    }

    float o[kHeadDim / 8][4] = {};
    float m[2] = {-INFINITY, -INFINITY};
    float l[2] = {0.0f, 0.0f};
    const float scale_log2 = scale * 1.44269504f;

    const int num_tiles = (len + kTile - 1) / kTile;
    for (int t = 0; t < num_tiles; ++t) {
        load_tile<kHeadDim>(smem_v, v_ptr, t * kTile, len, stride);
        cp_commit();
        cp_wait<1>();          // K is here, V is on its way
        __syncthreads();

        float s[2][4] = {};
#pragma unroll
        for (int d = 0; d < kHeadDim / 16; ++d) {
            unsigned k_frag[4];
            const int row = warp * 16 + (lane & 7) + ((lane >> 4) << 3);
            ldsm_x4(k_frag, smem_k + swizzle<kHeadDim>(row, d * 2 + ((lane >> 3) & 1)));
            mma_bf16(s[0], q_frag[d], k_frag[0], k_frag[1]);
            mma_bf16(s[1], q_frag[d], k_frag[2], k_frag[3]);
        }
        __syncthreads();       // K may be overwritten
        if (t + 1 < num_tiles)
            load_tile<kHeadDim>(smem_k, k_ptr, (t + 1) * kTile, len, stride);
        cp_commit();

#pragma unroll
        for (int h = 0; h < 2; ++h) {          // rows gid and gid + 8
            float m_new = m[h];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = t * kTile + warp * 16 + (i / 2) * 8 + tig * 2 + i % 2;
                float& score = s[i / 2][h * 2 + i % 2];
                score = key < len ? score * scale_log2 : -INFINITY;
                m_new = fmaxf(m_new, score);
            }
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 2));
            const float m_ref = m_new == -INFINITY ? 0.0f : m_new;   // no key yet
            const float alpha = exp2f(m[h] - m_ref);
            m[h] = m_new;
            l[h] *= alpha;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& p = s[i / 2][h * 2 + i % 2];
                p = exp2f(p - m_ref);
                l[h] += p;
            }
#pragma unroll
            for (int j = 0; j < kHeadDim / 8; ++j) {
                o[j][h * 2] *= alpha;
                o[j][h * 2 + 1] *= alpha;
            }
        }

        unsigned p_frag[4];
        p_frag[0] = pack(s[0][0], s[0][1]);
        p_frag[1] = pack(s[0][2], s[0][3]);
        p_frag[2] = pack(s[1][0], s[1][1]);
        p_frag[3] = pack(s[1][2], s[1][3]);

        cp_wait<1>();          // V is here, the next K is on its way
        __syncthreads();
#pragma unroll
        for (int d = 0; d < kHeadDim / 16; ++d) {
            unsigned v_frag[4];
            ldsm_x4_t(v_frag, smem_v + swizzle<kHeadDim>(warp * 16 + (lane & 15), d * 2 + (lane >> 4)));
            mma_bf16(o[d * 2], p_frag, v_frag[0], v_frag[1]);
            mma_bf16(o[d * 2 + 1], p_frag, v_frag[2], v_frag[3]);
        }
        __syncthreads();       // V may be overwritten
    }

    // merge the warps; the tiles are not needed any more
    float* s_out = reinterpret_cast<float*>(smem);   // [kNumWarps][kRows][kHeadDim]
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        l[h] += __shfl_xor_sync(0xffffffffu, l[h], 1);
        l[h] += __shfl_xor_sync(0xffffffffu, l[h], 2);
        const int row = gid + h * 8;
        if (tig == 0) {
            s_max[warp][row] = m[h];
            s_sum[warp][row] = l[h];
        }
#pragma unroll
        for (int j = 0; j < kHeadDim / 8; ++j) {
            float* dst = s_out + (warp * kRows + row) * kHeadDim + j * 8 + tig * 2;
            dst[0] = o[j][h * 2];
            dst[1] = o[j][h * 2 + 1];
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < group * kHeadDim; i += kNumThreads) {
        const int row = i / kHeadDim;
        const int col = i % kHeadDim;
        float m_all = s_max[0][row];
        for (int w = 1; w < kNumWarps; ++w) m_all = fmaxf(m_all, s_max[w][row]);
        float sum = 0.0f;
        float val = 0.0f;
        for (int w = 0; w < kNumWarps; ++w) {
            const float f = exp2f(s_max[w][row] - m_all);
            sum += f * s_sum[w][row];
            val += f * s_out[(w * kRows + row) * kHeadDim + col];
        }
        out[q_offset + i] = __float2bfloat16(val / sum);
    }
}
