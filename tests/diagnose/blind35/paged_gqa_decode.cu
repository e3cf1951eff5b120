// Decode step of paged attention with grouped query heads, on tensor cores.
//
// All query heads of a group read the same K/V head, so they form the M dimension of an m16n8k16 MMA
// (rows behind the group are zero).  A CTA serves one (sequence, kv head); its warps take the pages of
// the sequence in turn, each with a softmax state of its own, and the states are merged at the end.
#include <cuda_fp16.h>
#include <cstdint>

namespace minillm::kernels {

constexpr int kPageSize = 16;
constexpr int kNumWarps = 4;
constexpr int kMaxGroup = 16;
constexpr int kStages = 2;

struct PagedDecodeArgs {
    half* out;                  // [num_seqs, num_heads, D]
    float* lse;                 // [num_seqs, num_heads]
    const half* query;          // [num_seqs, num_heads, D]
    const half* key_cache;      // [num_pages, kPageSize, num_kv_heads, D]
    const half* value_cache;    // [num_pages, kPageSize, num_kv_heads, D]
    const int* block_tables;    // [num_seqs, max_pages_per_seq]
    const int* context_lens;    // [num_seqs]
    int num_heads;
    int num_kv_heads;
    int max_pages_per_seq;
    float sm_scale;
};

__device__ __forceinline__ uint32_t smem_ptr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp_async_16(half* dst, const half* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" :: "r"(smem_ptr(dst)), "l"(src));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" :: "n"(N)); }

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_ptr(p)));
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const half* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_ptr(p)));
}
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&h);
}

template <int D>
__global__ void __launch_bounds__(kNumWarps * 32) paged_gqa_decode_kernel(const PagedDecodeArgs args) {
    constexpr int kPitch = D + 8;
    constexpr int kPageElems = kPageSize * kPitch;
    constexpr int kOutPitch = D + 2;

    __shared__ __align__(16) half q_smem[kMaxGroup * kPitch];
    __shared__ __align__(16) half kv_smem[kNumWarps * kStages * 2 * kPageElems];
    __shared__ float max_smem[kNumWarps][kMaxGroup];
    __shared__ float sum_smem[kNumWarps][kMaxGroup];

    const int seq = blockIdx.y;
    const int kv_head = blockIdx.x;
    const int group = args.num_heads / args.num_kv_heads;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int context_len = args.context_lens[seq];
    const int num_pages = (context_len + kPageSize - 1) / kPageSize;
    const int* table = args.block_tables + seq * args.max_pages_per_seq;

    const half* q_ptr = args.query + ((int64_t)seq * args.num_heads + kv_head * group) * D;
    for (int i = threadIdx.x; i < kMaxGroup * D; i += kNumWarps * 32) {
        const int h = i / D, d = i % D;
        q_smem[h * kPitch + d] = h < group ? q_ptr[h * D + d] : __float2half(0.f);
    }
    __syncthreads();

    uint32_t q_frag[D / 16][4];
#pragma unroll
    for (int kk = 0; kk < D / 16; ++kk)
        ldmatrix_x4(q_frag[kk], &q_smem[(lane % 16) * kPitch + kk * 16 + (lane / 16) * 8]);

    half* warp_smem = kv_smem + warp * kStages * 2 * kPageElems;
    const int64_t token_stride = (int64_t)args.num_kv_heads * D;

    auto fetch_page = [&](int page, int stage) {
        if (page < num_pages) {
            const int64_t base = (int64_t)table[page] * kPageSize * token_stride + kv_head * D;
            half* k_dst = warp_smem + stage * 2 * kPageElems;
            half* v_dst = k_dst + kPageElems;
            for (int c = lane; c < kPageSize * D / 8; c += 32) {
                const int token = c / (D / 8), col = (c % (D / 8)) * 8;
                cp_async_16(k_dst + token * kPitch + col, args.key_cache + base + token * token_stride + col);
                cp_async_16(v_dst + token * kPitch + col, args.value_cache + base + token * token_stride + col);
            }
        }
        cp_async_commit();
    };

    float o[D / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const float scale_log2 = args.sm_scale * 1.44269504f;

    fetch_page(warp, 0);
    int stage = 0;
    for (int page = warp; page < num_pages; page += kNumWarps, stage ^= 1) {
        fetch_page(page + kNumWarps, stage ^ 1);
        cp_async_wait<1>();
        __syncwarp();
        const half* k_page = warp_smem + stage * 2 * kPageElems;
        const half* v_page = k_page + kPageElems;

        float s[2][4] = {};
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            uint32_t kf[4];
            ldmatrix_x4(kf, k_page + ((lane / 16) * 8 + lane % 8) * kPitch + kk * 16 + ((lane / 8) % 2) * 8);
            mma_f16(s[0], q_frag[kk], kf[0], kf[1]);
            mma_f16(s[1], q_frag[kk], kf[2], kf[3]);
        }

#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int token = page * kPageSize + n * 8 + (lane % 4) * 2 + (e & 1);
                s[n][e] = token < context_len ? s[n][e] * scale_log2 : -INFINITY;
            }

#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            m = fmaxf(m, row_max[r]);
            const float corr = exp2f(row_max[r] - m);
            row_max[r] = m;
            row_sum[r] *= corr;
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                s[n][2 * r] = exp2f(s[n][2 * r] - m);
                s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] - m);
                row_sum[r] += s[n][2 * r] + s[n][2 * r + 1];
            }
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                o[j][2 * r] *= corr;
                o[j][2 * r + 1] *= corr;
            }
        }

        const uint32_t p_frag[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]),
                                    pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
#pragma unroll
        for (int j = 0; j < D / 16; ++j) {
            uint32_t vf[4];
            ldmatrix_x4_trans(vf, v_page + (lane % 16) * kPitch + j * 16 + (lane / 16) * 8);
            mma_f16(o[2 * j], p_frag, vf[0], vf[1]);
            mma_f16(o[2 * j + 1], p_frag, vf[2], vf[3]);
        }
        __syncwarp();
    }

    // sums of a row lie in four lanes
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(0xffffffff, row_sum[r], 1);
        row_sum[r] += __shfl_xor_sync(0xffffffff, row_sum[r], 2);
        if (lane % 4 == 0) {
            max_smem[warp][lane / 4 + r * 8] = row_max[r];
            sum_smem[warp][lane / 4 + r * 8] = row_sum[r];
        }
    }

    // the pages are no longer needed, their memory holds the warps' partial outputs
    cp_async_wait<0>();
    __syncthreads();
    float* o_smem = reinterpret_cast<float*>(kv_smem);
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int row = lane / 4 + (e / 2) * 8;
            o_smem[(warp * kMaxGroup + row) * kOutPitch + j * 8 + (lane % 4) * 2 + e % 2] = o[j][e];
        }
    __syncthreads();

    for (int i = threadIdx.x; i < group * D; i += kNumWarps * 32) {
        const int h = i / D, d = i % D;
        float m = -INFINITY;
        for (int w = 0; w < kNumWarps; ++w) m = fmaxf(m, max_smem[w][h]);
        float total = 0.f, acc = 0.f;
        for (int w = 0; w < kNumWarps; ++w) {
            const float f = exp2f(max_smem[w][h] - m);
            total += f * sum_smem[w][h];
            acc += f * o_smem[(w * kMaxGroup + h) * kOutPitch + d];
        }
        const int64_t row = (int64_t)seq * args.num_heads + kv_head * group + h;
        args.out[row * D + d] = __float2half(acc / total);
        if (d == 0) args.lse[row] = (m + log2f(total)) * 0.69314718f;
    }
}

void launch_paged_gqa_decode(const PagedDecodeArgs& args, int num_seqs, cudaStream_t stream) {
    paged_gqa_decode_kernel<64><<<dim3(args.num_kv_heads, num_seqs), kNumWarps * 32, 0, stream>>>(args);
}

}  // namespace minillm::kernels
