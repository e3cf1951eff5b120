// Sliding-window attention with one learned sink logit per head (gpt-oss). mma.sync, everything in registers:
// a warp has 16 queries and goes over keys by 16. Grouped KV heads. head_dim 32.
#include <cuda_fp16.h>
#include <stdint.h>

namespace {

constexpr int HDIM = 32;
constexpr int WARPS = 2;
constexpr int QT = 16;
constexpr int KT = 16;

__device__ inline uint32_t pack(float lo, float hi) {
    half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}

__device__ inline uint32_t pair(half lo, half hi) {
    half2 h = __halves2half2(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}

__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// reductions over the four lanes that share a row
__device__ inline float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

}  // namespace

// q, out: [T, Hq, 32]; k, v: [T, Hkv, 32]; sinks: [Hq]
__global__ void sink_attention(const half *q, const half *k, const half *v, const float *sinks, half *out, int T,
                               int Hq, int Hkv, int window, float scale) {
    const int lane = threadIdx.x, g = lane >> 2, t = lane & 3;
    const int head = blockIdx.y, kv_head = head * Hkv / Hq;
    const int q0 = (blockIdx.x * WARPS + threadIdx.y) * QT;
    if (q0 >= T) return;

    const int rows[2] = {q0 + g, q0 + g + 8};
    uint32_t qf[2][4];
    for (int c = 0; c < 2; ++c)
        for (int i = 0; i < 4; ++i) {
            const int r = min(rows[i & 1], T - 1);
            const int d = c * 16 + (i >> 1) * 8 + t * 2;
            qf[c][i] = *reinterpret_cast<const uint32_t *>(q + ((size_t)r * Hq + head) * HDIM + d);
        }

    // the sink is a key with this score and no value
    float m[2] = {sinks[head], sinks[head]};
    float l[2] = {1.f, 1.f};
    float o[HDIM / 8][4] = {};

    const int first = max(0, q0 - window + 1) / KT * KT;
    const int last = min(T, q0 + QT);
    for (int k0 = first; k0 < last; k0 += KT) {
        float s[2][4] = {};
        for (int n = 0; n < 2; ++n) {
            const int key = min(k0 + n * 8 + g, T - 1);
            const half *row = k + ((size_t)key * Hkv + kv_head) * HDIM + t * 2;
            for (int c = 0; c < 2; ++c)
                mma(s[n], qf[c], *reinterpret_cast<const uint32_t *>(row + c * 16),
                    *reinterpret_cast<const uint32_t *>(row + c * 16 + 8));
        }

        float top[2] = {m[0], m[1]};
        for (int n = 0; n < 2; ++n)
            for (int e = 0; e < 4; ++e) {
                const int row = rows[e >> 1], key = k0 + n * 8 + t * 2 + (e & 1);
                const bool seen = key <= row && row - key < window && key < T;
                s[n][e] = seen ? s[n][e] * scale : -INFINITY;
                top[e >> 1] = fmaxf(top[e >> 1], s[n][e]);
            }

        float alpha[2], sum[2] = {0.f, 0.f};
        for (int h = 0; h < 2; ++h) {
            top[h] = quad_max(top[h]);
            alpha[h] = __expf(m[h] - top[h]);
            m[h] = top[h];
        }
        for (int n = 0; n < 2; ++n)
            for (int e = 0; e < 4; ++e) {
                s[n][e] = __expf(s[n][e] - m[e >> 1]);
                sum[e >> 1] += s[n][e];
            }
        for (int h = 0; h < 2; ++h) l[h] = l[h] * alpha[h] + quad_sum(sum[h]);

        const uint32_t p[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]),
                               pack(s[1][2], s[1][3])};
        for (int n = 0; n < HDIM / 8; ++n) {
            for (int e = 0; e < 4; ++e) o[n][e] *= alpha[e >> 1];
            half b[4];
            for (int i = 0; i < 4; ++i) {
                const int key = min(k0 + (i >> 1) * 8 + t * 2 + (i & 1), T - 1);
                b[i] = v[((size_t)key * Hkv + kv_head) * HDIM + n * 8 + g];
            }
            mma(o[n], p, pair(b[0], b[1]), pair(b[2], b[3]));
        }
    }

    for (int h = 0; h < 2; ++h) {
        if (rows[h] >= T) continue;
        half *dst = out + ((size_t)rows[h] * Hq + head) * HDIM + t * 2;
        for (int n = 0; n < HDIM / 8; ++n)
            *reinterpret_cast<uint32_t *>(dst + n * 8) = pack(o[n][h * 2] / l[h], o[n][h * 2 + 1] / l[h]);
    }
}
