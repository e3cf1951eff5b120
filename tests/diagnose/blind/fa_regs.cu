// Attention forward, mma.sync.m16n8k16 + ldmatrix; scores and output live in registers (GQA).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <stdio.h>

#define kHeadDim 64
#define kTileQ 64
#define kTileK 32
#define kPitch (kHeadDim + 8)

struct AttnParams {
    const half* q;
    const half* k;
    const half* v;
    half* o;
    int seqlen_q, seqlen_k;
    int num_heads, num_kv_heads;
    float scale_log2;
};

__device__ __forceinline__ uint32_t s2u(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp16(uint32_t dst, const void* src, bool ok) {
    int n = ok ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(n));
}
__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], uint32_t a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void ldsm4t(uint32_t (&r)[4], uint32_t a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void mma16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack2(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t*>(&h);
}

__global__ void __launch_bounds__(128) attn_fwd_regs(AttnParams p) {
    __shared__ __align__(128) half sq[kTileQ][kPitch];
    __shared__ __align__(128) half sk[2][kTileK][kPitch];
    __shared__ __align__(128) half sv[2][kTileK][kPitch];

    const int tid = threadIdx.x, lane = tid & 31, w = tid >> 5;
    const int g = lane >> 2, tg = lane & 3;
    const int head = blockIdx.y, bat = blockIdx.z;
    const int kvh = head / (p.num_heads / p.num_kv_heads);
    const int q0 = blockIdx.x * kTileQ;

    const half* qg = p.q + ((long)bat * p.num_heads + head) * p.seqlen_q * kHeadDim;
    const half* kg = p.k + ((long)bat * p.num_kv_heads + kvh) * p.seqlen_k * kHeadDim;
    const half* vg = p.v + ((long)bat * p.num_kv_heads + kvh) * p.seqlen_k * kHeadDim;
    half* og = p.o + ((long)bat * p.num_heads + head) * p.seqlen_q * kHeadDim;

    auto load_kv = [&](int tile, int buf) {
        for (int i = tid; i < kTileK * kHeadDim / 8; i += 128) {
            int r = i >> 3, c = (i & 7) * 8;
            int row = tile * kTileK + r;
            bool ok = row < p.seqlen_k;
            int src = ok ? row : 0;
            cp16(s2u(&sk[buf][r][c]), kg + (long)src * kHeadDim + c, ok);
            cp16(s2u(&sv[buf][r][c]), vg + (long)src * kHeadDim + c, ok);
        }
        asm volatile("cp.async.commit_group;\n");
    };

    for (int i = tid; i < kTileQ * kHeadDim / 8; i += 128) {
        int r = i >> 3, c = (i & 7) * 8;
        bool ok = q0 + r < p.seqlen_q;
        cp16(s2u(&sq[r][c]), qg + (long)(ok ? q0 + r : 0) * kHeadDim + c, ok);
    }
    load_kv(0, 0);

    float oacc[kHeadDim / 8][4] = {};
    float mrow[2] = {-INFINITY, -INFINITY};
    float lrow[2] = {0.f, 0.f};
    uint32_t qf[kHeadDim / 16][4];

    const int ntiles = (p.seqlen_k + kTileK - 1) / kTileK;
    for (int t = 0; t < ntiles; ++t) {
        const int buf = t & 1;
        if (t + 1 < ntiles) {
            load_kv(t + 1, buf ^ 1);
            asm volatile("cp.async.wait_group 1;\n");
        } else {
            asm volatile("cp.async.wait_group 0;\n");
        }
        __syncthreads();
        if (t == 0) {
            for (int kk = 0; kk < kHeadDim / 16; ++kk)
                ldsm4(qf[kk], s2u(&sq[w * 16 + (lane & 15)][kk * 16 + (lane >> 4) * 8]));
        }

        float sacc[kTileK / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < kHeadDim / 16; ++kk) {
#pragma unroll
            for (int nn = 0; nn < kTileK / 16; ++nn) {
                uint32_t kf[4];
                ldsm4(kf, s2u(&sk[buf][nn * 16 + (lane & 7) + ((lane >> 4) << 3)][kk * 16 + ((lane >> 3) & 1) * 8]));
                mma16816(sacc[2 * nn], qf[kk], kf[0], kf[1]);
                mma16816(sacc[2 * nn + 1], qf[kk], kf[2], kf[3]);
            }
        }

        float mnew[2] = {mrow[0], mrow[1]};
#pragma unroll
        for (int n = 0; n < kTileK / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int col = t * kTileK + n * 8 + tg * 2 + (e & 1);
                sacc[n][e] = col < p.seqlen_k ? sacc[n][e] * p.scale_log2 : -INFINITY;
                mnew[e >> 1] = fmaxf(mnew[e >> 1], sacc[n][e]);
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            mnew[r] = fmaxf(mnew[r], __shfl_xor_sync(0xffffffff, mnew[r], 1));
            mnew[r] = fmaxf(mnew[r], __shfl_xor_sync(0xffffffff, mnew[r], 2));
            float corr = exp2f(mrow[r] - mnew[r]);
            mrow[r] = mnew[r];
            lrow[r] *= corr;
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                oacc[n][2 * r] *= corr;
                oacc[n][2 * r + 1] *= corr;
            }
        }
#pragma unroll
        for (int n = 0; n < kTileK / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sacc[n][e] = exp2f(sacc[n][e] - mrow[e >> 1]);
                lrow[e >> 1] += sacc[n][e];
            }

#pragma unroll
        for (int kk = 0; kk < kTileK / 16; ++kk) {
            uint32_t pf[4];
            pf[0] = pack2(sacc[2 * kk][0], sacc[2 * kk][1]);
            pf[1] = pack2(sacc[2 * kk][2], sacc[2 * kk][3]);
            pf[2] = pack2(sacc[2 * kk + 1][0], sacc[2 * kk + 1][1]);
            pf[3] = pack2(sacc[2 * kk + 1][2], sacc[2 * kk + 1][3]);
#pragma unroll
            for (int nn = 0; nn < kHeadDim / 16; ++nn) {
                uint32_t vf[4];
                ldsm4t(vf, s2u(&sv[buf][kk * 16 + (lane & 15)][nn * 16 + (lane >> 4) * 8]));
                mma16816(oacc[2 * nn], pf, vf[0], vf[1]);
                mma16816(oacc[2 * nn + 1], pf, vf[2], vf[3]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        lrow[r] += __shfl_xor_sync(0xffffffff, lrow[r], 1);
        lrow[r] += __shfl_xor_sync(0xffffffff, lrow[r], 2);
        const float inv = 1.f / lrow[r];
        const int row = q0 + w * 16 + g + r * 8;
        if (row >= p.seqlen_q) continue;
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
            half2 h = __floats2half2_rn(oacc[n][2 * r] * inv, oacc[n][2 * r + 1] * inv);
            *reinterpret_cast<half2*>(og + (long)row * kHeadDim + n * 8 + tg * 2) = h;
        }
    }
}

extern "C" void launch_attn(AttnParams p, int batch, cudaStream_t st) {
    p.scale_log2 = 1.44269504f / 8.f;
    dim3 grid((p.seqlen_q + kTileQ - 1) / kTileQ, p.num_heads, batch);
    attn_fwd_regs<<<grid, 128, 0, st>>>(p);
}
