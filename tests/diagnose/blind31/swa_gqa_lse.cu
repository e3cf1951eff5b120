// Prefill attention with a causal sliding window (Mistral style) and grouped KV heads, bf16 in / bf16 out.
//
//   Q   [B, Sq, Hq,  D]        O   [B, Sq, Hq, D]
//   K,V [B, Sk, Hkv, D]        LSE [B, Hq, Sq]  (natural log, for merging of chunks and for the backward pass)
//
// The queries are the last Sq positions of the Sk keys (bottom-right aligned): query i sits at position
// i + Sk - Sq and attends to `window` keys, itself included.
//
// One CTA works on Br queries of one head. Each of its 4 warps owns 16 rows, so softmax never leaves a quad.
// K and V have one buffer each; V(n) is copied while Q K(n)^T is computed, K(n+1) while P V(n) is.
#include <cuda_bf16.h>
#include <stdint.h>

using bf16 = __nv_bfloat16;

constexpr int kWarps = 4;
constexpr int kNThreads = kWarps * 32;

__device__ inline uint32_t shmem(const void *ptr) { return (uint32_t)__cvta_generic_to_shared(ptr); }

__device__ inline void cpAsync16(bf16 *dst, const bf16 *src, bool inRange) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shmem(dst)), "l"(src), "r"(inRange ? 16 : 0));
}
__device__ inline void cpAsyncCommit() { asm volatile("cp.async.commit_group;\n"); }
__device__ inline void cpAsyncWaitAll() { asm volatile("cp.async.wait_group 0;\n"); }

__device__ inline void ldmatrix(uint32_t *r, const bf16 *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shmem(p)));
}
__device__ inline void ldmatrixTrans(uint32_t *r, const bf16 *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shmem(p)));
}
__device__ inline void mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline uint32_t pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&v);
}
__device__ inline float quadMax(float v) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ inline float quadSum(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

// Rows row0 .. row0 + kRows of a [seq, heads, D] tensor, those behind its end as zeros
template <int kRows, int D>
__device__ inline void loadTile(bf16 (*tile)[D + 8], const bf16 *base, int row0, int seqLen, int rowStride) {
    for (int i = threadIdx.x; i < kRows * (D / 8); i += kNThreads) {
        const int r = i / (D / 8), c = (i % (D / 8)) * 8;
        const bool ok = row0 + r < seqLen;
        cpAsync16(&tile[r][c], base + (size_t)(ok ? row0 + r : 0) * rowStride + c, ok);
    }
}

template <int D, int Br, int Bc>
__global__ void __launch_bounds__(kNThreads)
swaPrefillKernel(const bf16 *__restrict__ Q, const bf16 *__restrict__ K, const bf16 *__restrict__ V,
                 bf16 *__restrict__ O, float *__restrict__ LSE, int Sq, int Sk, int Hq, int Hkv, int window,
                 float softmaxScale) {
    static_assert(Br == kWarps * 16, "one m16 tile per warp");
    __shared__ __align__(16) bf16 sQ[Br][D + 8];
    __shared__ __align__(16) bf16 sK[Bc][D + 8];
    __shared__ __align__(16) bf16 sV[Bc][D + 8];

    const int m0 = blockIdx.x * Br, head = blockIdx.y, batch = blockIdx.z;
    const int kvHead = head / (Hq / Hkv);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int qStride = Hq * D, kvStride = Hkv * D;
    const bf16 *gQ = Q + (size_t)batch * Sq * qStride + head * D;
    const bf16 *gK = K + (size_t)batch * Sk * kvStride + kvHead * D;
    const bf16 *gV = V + (size_t)batch * Sk * kvStride + kvHead * D;

    // range of key tiles that any row of this CTA can see
    const int shift = Sk - Sq;
    const int firstKey = max(m0 + shift - window + 1, 0);
    const int lastKey = min(m0 + Br - 1 + shift, Sk - 1);
    const int nBegin = firstKey / Bc, nEnd = lastKey / Bc + 1;

    loadTile<Br, D>(sQ, gQ, m0, Sq, qStride);
    loadTile<Bc, D>(sK, gK, nBegin * Bc, Sk, kvStride);
    cpAsyncCommit();

    uint32_t qFrag[D / 16][4];
    float acc[D / 8][4] = {};
    float rowMax[2] = {-INFINITY, -INFINITY};
    float rowSum[2] = {0.f, 0.f};
    const float scaleLog2 = softmaxScale * 1.4426950408889634f;
    const int myRow = warp * 16 + lane / 4;  // and myRow + 8

    for (int n = nBegin; n < nEnd; ++n) {
        cpAsyncWaitAll();
        __syncthreads();  // K(n) has come, and everybody is done with V(n - 1)
        loadTile<Bc, D>(sV, gV, n * Bc, Sk, kvStride);
        cpAsyncCommit();

        if (n == nBegin) {
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk)
                ldmatrix(qFrag[kk], &sQ[warp * 16 + lane % 16][kk * 16 + (lane / 16) * 8]);
        }

        // S = Q K^T
        float s[Bc / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
            for (int j = 0; j < Bc / 16; ++j) {
                uint32_t b[4];
                ldmatrix(b, &sK[j * 16 + (lane / 16) * 8 + lane % 8][kk * 16 + ((lane / 8) & 1) * 8]);
                mma(s[2 * j], qFrag[kk], b[0], b[1]);
                mma(s[2 * j + 1], qFrag[kk], b[2], b[3]);
            }
        }

        // causal mask and window; tiles in the middle of the band need none
        const int col0 = n * Bc;
        const bool full = col0 + Bc - 1 <= m0 + shift && col0 > m0 + Br - 1 + shift - window;
        if (!full) {
#pragma unroll
            for (int j = 0; j < Bc / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int pos = m0 + myRow + (e / 2) * 8 + shift;
                    const int key = col0 + j * 8 + (lane % 4) * 2 + (e & 1);
                    if (key > pos || key <= pos - window) s[j][e] = -INFINITY;
                }
            }
        }

        cpAsyncWaitAll();
        __syncthreads();  // V(n) has come, and everybody is done with K(n)
        if (n + 1 < nEnd) {
            loadTile<Bc, D>(sK, gK, (n + 1) * Bc, Sk, kvStride);
            cpAsyncCommit();
        }

        // online softmax
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float mx = rowMax[h];
#pragma unroll
            for (int j = 0; j < Bc / 8; ++j) mx = fmaxf(mx, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
            mx = quadMax(mx);
            const float mxScaled = mx == -INFINITY ? 0.f : mx * scaleLog2;  // nothing seen yet
            const float correction = exp2f(rowMax[h] * scaleLog2 - mxScaled);
            rowMax[h] = mx;
            rowSum[h] *= correction;
#pragma unroll
            for (int j = 0; j < Bc / 8; ++j) {
                s[j][2 * h] = exp2f(s[j][2 * h] * scaleLog2 - mxScaled);
                s[j][2 * h + 1] = exp2f(s[j][2 * h + 1] * scaleLog2 - mxScaled);
                rowSum[h] += s[j][2 * h] + s[j][2 * h + 1];
            }
#pragma unroll
            for (int d = 0; d < D / 8; ++d) {
                acc[d][2 * h] *= correction;
                acc[d][2 * h + 1] *= correction;
            }
        }

        // O += P V; the accumulators of S are laid out as the A operand of the next product
#pragma unroll
        for (int kk = 0; kk < Bc / 16; ++kk) {
            uint32_t p[4];
            p[0] = pack(s[2 * kk][0], s[2 * kk][1]);
            p[1] = pack(s[2 * kk][2], s[2 * kk][3]);
            p[2] = pack(s[2 * kk + 1][0], s[2 * kk + 1][1]);
            p[3] = pack(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
            for (int d = 0; d < D / 16; ++d) {
                uint32_t b[4];
                ldmatrixTrans(b, &sV[kk * 16 + lane % 16][d * 16 + (lane / 16) * 8]);
                mma(acc[2 * d], p, b[0], b[1]);
                mma(acc[2 * d + 1], p, b[2], b[3]);
            }
        }
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float sum = quadSum(rowSum[h]);
        const float inv = sum > 0.f ? 1.f / sum : 0.f;
        const int row = m0 + myRow + h * 8;
        if (row >= Sq) continue;
        bf16 *gO = O + ((size_t)batch * Sq + row) * qStride + head * D;
#pragma unroll
        for (int d = 0; d < D / 8; ++d)
            *reinterpret_cast<uint32_t *>(gO + d * 8 + (lane % 4) * 2) = pack(acc[d][2 * h] * inv, acc[d][2 * h + 1] * inv);
        if (lane % 4 == 0)
            LSE[((size_t)batch * Hq + head) * Sq + row] = rowMax[h] * softmaxScale + logf(sum);
    }
}

void swaPrefill(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *o, float *lse, int B, int Sq, int Sk, int Hq,
                int Hkv, int window, float scale, cudaStream_t stream) {
    dim3 grid((Sq + 63) / 64, Hq, B);
    swaPrefillKernel<64, 64, 32><<<grid, kNThreads, 0, stream>>>(q, k, v, o, lse, Sq, Sk, Hq, Hkv, window, scale);
}
