// Fused attention of T5 encoders/decoders (self attention): no 1/sqrt(d), a learned bias by bucket of relative
// position added to the scores. FP16 in and out, FP32 softmax, head size 64.
#include <cuda_fp16.h>
#include <cfloat>
#include <cstdint>

namespace t5 {

constexpr int kHead = 64;
constexpr int kQ = 64;            // queries of a block, 16 a warp
constexpr int kK = 64;            // keys of a tile
constexpr int kPitch = kHead + 8;
constexpr int kBuckets = 32;
constexpr int kSpan = kQ + kK - 1;     // relative positions that a pair of tiles has

// where the logarithmic buckets of 16 per direction start: ceil(8 * 16^(i/8)); distances from 128 on share the last
__constant__ int c_start[8] = {8, 12, 16, 23, 32, 46, 64, 91};
// the same for the decoder, which has all 32 for the past: ceil(16 * 8^(i/16))
__constant__ int c_start_uni[16] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};

template <bool kBidirectional>
__device__ __forceinline__ int bucket_of(int relative)      // key - query
{
    if (kBidirectional) {
        const int side = relative > 0 ? kBuckets / 2 : 0;
        const int dist = abs(relative);
        if (dist < 8) return side + dist;
        int b = 7;
#pragma unroll
        for (int i = 0; i < 8; ++i) b += dist >= c_start[i];
        return side + b;
    } else {
        const int dist = max(-relative, 0);
        if (dist < 16) return dist;
        int b = 15;
#pragma unroll
        for (int i = 0; i < 16; ++i) b += dist >= c_start_uni[i];
        return b;
    }
}

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ldsm4(uint32_t r[4], const half *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}

__device__ __forceinline__ void ldsm4t(uint32_t r[4], const half *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}

__device__ __forceinline__ void hmma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// rows first .. first + 63 of a [seq, 64] matrix; rows behind the end become zeros
__device__ __forceinline__ void copy_tile(half *dst, const half *src, int first, int seq)
{
    for (int i = threadIdx.x; i < 64 * 8; i += blockDim.x) {
        const int r = i >> 3, c = (i & 7) * 8;
        const int bytes = first + r < seq ? 16 : 0;
        const half *from = src + (size_t)min(first + r, seq - 1) * kHead + c;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_u32(dst + r * kPitch + c)), "l"(from), "r"(bytes));
    }
}

__device__ __forceinline__ uint32_t half2_of(float x, float y)
{
    half2 h = __floats2half2_rn(x, y);
    return reinterpret_cast<uint32_t &>(h);
}

template <bool kBidirectional>
__global__ void __launch_bounds__(128)
attention_fwd(half *__restrict__ out, const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
              const float *__restrict__ rel_table,      // [32, heads], as nn.Embedding keeps it
              const int *__restrict__ lengths, int seq, int heads)
{
    __shared__ __align__(16) half s_k[2][kK * kPitch];
    __shared__ __align__(16) half s_v[kK * kPitch];
    __shared__ float s_bias[2][kSpan + 1];
    half *s_q = s_v;                                     // Q is in registers before the first V comes

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int head = blockIdx.y, batch = blockIdx.z;
    const int q0 = blockIdx.x * kQ;
    const int len = lengths[batch];
    const size_t base = ((size_t)batch * heads + head) * seq * kHead;

    // the bias of a pair of tiles depends on key - query only: a line of 127 numbers
    auto bias_line = [&](int buf, int k0) {
        const int i = threadIdx.x;
        if (i < kSpan) s_bias[buf][i] = rel_table[bucket_of<kBidirectional>(k0 - q0 + i - (kQ - 1)) * heads + head];
    };

    const int last_key = kBidirectional ? len : min(len, q0 + kQ);
    const int tiles = (last_key + kK - 1) / kK;

    copy_tile(s_q, q + base, q0, seq);
    copy_tile(s_k[0], k + base, 0, seq);
    asm volatile("cp.async.commit_group;");
    bias_line(0, 0);
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();

    uint32_t fq[kHead / 16][4];
    for (int i = 0; i < kHead / 16; ++i)
        ldsm4(fq[i], s_q + (warp * 16 + (lane & 15)) * kPitch + i * 16 + (lane >> 4) * 8);
    __syncthreads();

    float o[kHead / 8][4] = {};
    float row_max[2] = {-FLT_MAX, -FLT_MAX}, row_sum[2] = {0.f, 0.f};
    const int q_row = warp * 16 + (lane >> 2);           // within the block, and 8 more

    for (int tile = 0; tile < tiles; ++tile) {
        const int k0 = tile * kK, buf = tile & 1;
        copy_tile(s_v, v + base, k0, seq);
        asm volatile("cp.async.commit_group;");
        if (tile + 1 < tiles) {
            copy_tile(s_k[buf ^ 1], k + base, k0 + kK, seq);
            bias_line(buf ^ 1, k0 + kK);
        }
        asm volatile("cp.async.commit_group;");

        float s[kK / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < kHead / 16; ++kk)
#pragma unroll
            for (int n = 0; n < kK / 16; ++n) {
                uint32_t b[4];
                ldsm4(b, s_k[buf] + (n * 16 + (lane & 7) + (lane >> 4) * 8) * kPitch + kk * 16 + ((lane >> 3) & 1) * 8);
                hmma(s[2 * n], fq[kk], b[0], b[1]);
                hmma(s[2 * n + 1], fq[kk], b[2], b[3]);
            }

        float tile_max[2] = {-FLT_MAX, -FLT_MAX};
#pragma unroll
        for (int n = 0; n < kK / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = q_row + (e >> 1) * 8, col = n * 8 + (lane & 3) * 2 + (e & 1);
                s[n][e] += s_bias[buf][col - row + kQ - 1];
                const bool hidden = k0 + col >= len || (!kBidirectional && k0 + col > q0 + row);
                if (hidden) s[n][e] = -FLT_MAX;
                tile_max[e >> 1] = fmaxf(tile_max[e >> 1], s[n][e]);
            }

        float correction[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            tile_max[h] = fmaxf(tile_max[h], __shfl_xor_sync(0xffffffffu, tile_max[h], 1));
            tile_max[h] = fmaxf(tile_max[h], __shfl_xor_sync(0xffffffffu, tile_max[h], 2));
            const float m = fmaxf(row_max[h], tile_max[h]);
            correction[h] = __expf(row_max[h] - m);
            row_max[h] = m;
            row_sum[h] *= correction[h];
        }
#pragma unroll
        for (int n = 0; n < kK / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                s[n][e] = s[n][e] == -FLT_MAX ? 0.f : __expf(s[n][e] - row_max[e >> 1]);
                row_sum[e >> 1] += s[n][e];
            }
#pragma unroll
        for (int d = 0; d < kHead / 8; ++d)
#pragma unroll
            for (int e = 0; e < 4; ++e) o[d][e] *= correction[e >> 1];

        asm volatile("cp.async.wait_group 1;");          // V is there, the next K may still come
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < kK / 16; ++kk) {
            const uint32_t p[4] = {half2_of(s[2 * kk][0], s[2 * kk][1]), half2_of(s[2 * kk][2], s[2 * kk][3]),
                                   half2_of(s[2 * kk + 1][0], s[2 * kk + 1][1]), half2_of(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
            for (int d = 0; d < kHead / 16; ++d) {
                uint32_t b[4];
                ldsm4t(b, s_v + (kk * 16 + (lane & 15)) * kPitch + d * 16 + (lane >> 4) * 8);
                hmma(o[2 * d], p, b[0], b[1]);
                hmma(o[2 * d + 1], p, b[2], b[3]);
            }
        }
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
        const int row = q0 + q_row + h * 8;
        if (row >= seq) continue;
        const float inv = row_sum[h] > 0.f ? 1.f / row_sum[h] : 0.f;
        for (int d = 0; d < kHead / 8; ++d)
            *reinterpret_cast<half2 *>(out + base + (size_t)row * kHead + d * 8 + (lane & 3) * 2) =
                __floats2half2_rn(o[d][2 * h] * inv, o[d][2 * h + 1] * inv);
    }
}

}  // namespace t5
