// Forward attention, register resident, grouped-query, causal. Q: [B, Hq, N, 64], K, V: [B, Hkv, N, 64].
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

constexpr int kHeadDim = 64;
constexpr int kBlockQ = 64;
constexpr int kBlockKV = 32;
constexpr int kWarps = 4;
constexpr int kPad = 8;

using bf16 = __nv_bfloat16;

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&v);
}

__device__ __forceinline__ uint32_t pair(const bf16* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ __forceinline__ uint32_t pair(const bf16& lo, const bf16& hi) {
    __nv_bfloat162 v{lo, hi};
    return *reinterpret_cast<uint32_t*>(&v);
}

__global__ void __launch_bounds__(kWarps * 32)
attention_fwd(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v,
              bf16* __restrict__ out, int q_heads, int kv_heads, int seq_len, float softmax_scale) {
    __shared__ bf16 sK[kBlockKV][kHeadDim + kPad];
    __shared__ bf16 sV[kBlockKV][kHeadDim + kPad];

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int head = blockIdx.y, batch = blockIdx.z;
    const int kv_head = head / (q_heads / kv_heads);
    const int q0 = blockIdx.x * kBlockQ + warp * 16;

    const bf16* Q = q + (size_t)(batch * q_heads + head) * seq_len * kHeadDim;
    const bf16* K = k + (size_t)(batch * kv_heads + kv_head) * seq_len * kHeadDim;
    const bf16* V = v + (size_t)(batch * kv_heads + kv_head) * seq_len * kHeadDim;
    bf16* O = out + (size_t)(batch * q_heads + head) * seq_len * kHeadDim;

    // a warp's 16 queries stay in registers
    uint32_t rQ[kHeadDim / 16][4];
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
        const int r0 = q0 + g, r1 = q0 + g + 8, c = d * 16 + 2 * t;
        rQ[d][0] = r0 < seq_len ? pair(Q + r0 * kHeadDim + c) : 0u;
        rQ[d][1] = r1 < seq_len ? pair(Q + r1 * kHeadDim + c) : 0u;
        rQ[d][2] = r0 < seq_len ? pair(Q + r0 * kHeadDim + c + 8) : 0u;
        rQ[d][3] = r1 < seq_len ? pair(Q + r1 * kHeadDim + c + 8) : 0u;
    }

    float acc[kHeadDim / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};

    const int last = min(seq_len, (int)(blockIdx.x + 1) * kBlockQ);
    for (int kv0 = 0; kv0 < last; kv0 += kBlockKV) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBlockKV * kHeadDim / 8; i += blockDim.x) {
            const int r = i / (kHeadDim / 8), c = (i % (kHeadDim / 8)) * 8;
            const bool in = kv0 + r < seq_len;
            *reinterpret_cast<uint4*>(&sK[r][c]) =
                in ? *reinterpret_cast<const uint4*>(K + (kv0 + r) * kHeadDim + c) : make_uint4(0, 0, 0, 0);
            *reinterpret_cast<uint4*>(&sV[r][c]) =
                in ? *reinterpret_cast<const uint4*>(V + (kv0 + r) * kHeadDim + c) : make_uint4(0, 0, 0, 0);
        }
        __syncthreads();

        float s[kBlockKV / 8][4] = {};
#pragma unroll
        for (int n = 0; n < kBlockKV / 8; ++n)
#pragma unroll
            for (int d = 0; d < kHeadDim / 16; ++d)
                mma_16816(s[n], rQ[d], pair(&sK[n * 8 + g][d * 16 + 2 * t]), pair(&sK[n * 8 + g][d * 16 + 2 * t + 8]));

        float new_max[2] = {row_max[0], row_max[1]};
#pragma unroll
        for (int n = 0; n < kBlockKV / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = q0 + g + (e / 2) * 8, col = kv0 + n * 8 + 2 * t + (e & 1);
                s[n][e] = (col <= row && col < seq_len) ? s[n][e] * softmax_scale : -INFINITY;
                new_max[e / 2] = fmaxf(new_max[e / 2], s[n][e]);
            }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            new_max[h] = fmaxf(new_max[h], __shfl_xor_sync(0xffffffffu, new_max[h], 1));
            new_max[h] = fmaxf(new_max[h], __shfl_xor_sync(0xffffffffu, new_max[h], 2));
            const float rescale = new_max[h] == -INFINITY ? 1.f : __expf(row_max[h] - new_max[h]);
            row_max[h] = new_max[h];
            row_sum[h] *= rescale;
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d) {
                acc[d][2 * h] *= rescale;
                acc[d][2 * h + 1] *= rescale;
            }
        }
#pragma unroll
        for (int n = 0; n < kBlockKV / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float m = row_max[e / 2];
                s[n][e] = m == -INFINITY ? 0.f : __expf(s[n][e] - m);
                row_sum[e / 2] += s[n][e];
            }
#pragma unroll
        for (int kk = 0; kk < kBlockKV / 16; ++kk) {
            const uint32_t p[4] = {pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]),
                                   pack(s[2 * kk + 1][0], s[2 * kk + 1][1]), pack(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d) {
                const int r = kk * 16 + 2 * t, c = d * 8 + g;
                mma_16816(acc[d], p, pair(sV[r][c], sV[r + 1][c]), pair(sV[r + 8][c], sV[r + 9][c]));
            }
        }
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
        const int row = q0 + g + 8 * h;
        if (row < seq_len) {
            const float inv = 1.f / row_sum[h];
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d)
                *reinterpret_cast<uint32_t*>(O + row * kHeadDim + d * 8 + 2 * t) =
                    pack(acc[d][2 * h] * inv, acc[d][2 * h + 1] * inv);
        }
    }
}

}  // namespace fa

void launch_attention(const void* q, const void* k, const void* v, void* out, int batch, int q_heads, int kv_heads,
                      int seq_len, cudaStream_t stream) {
    dim3 grid((seq_len + fa::kBlockQ - 1) / fa::kBlockQ, q_heads, batch);
    const float scale = 1.0f / sqrtf((float)fa::kHeadDim);
    fa::attention_fwd<<<grid, fa::kWarps * 32, 0, stream>>>(
        static_cast<const fa::bf16*>(q), static_cast<const fa::bf16*>(k), static_cast<const fa::bf16*>(v),
        static_cast<fa::bf16*>(out), q_heads, kv_heads, seq_len, scale);
}
