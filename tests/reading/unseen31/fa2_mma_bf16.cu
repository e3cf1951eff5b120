// Flash attention 2, forward, bf16 in / bf16 out, written with raw mma.sync for sm_80+.
//
//   Q        [B, S, H,   D]
//   K, V     [B, S, HKV, D]      H a multiple of HKV (MHA, GQA and MQA)
//   O        [B, S, H,   D]
//   D        64 or 128
//   S        anything, the rows behind the end are filled with zeros and masked
//
// One CTA does 64 query rows of one head with 4 warps, 16 rows each. S and P never leave
// the registers: the accumulator layout of S = QK^T is the A operand layout of PV.
//
//   nvcc -O3 -std=c++17 -arch=sm_80 fa2_mma_bf16.cu -o fa2 && ./fa2

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CK(x)                                                                           \
    if (cudaError_t e = (x); e != cudaSuccess) {                                        \
        std::printf("%s at %s:%d\n", cudaGetErrorString(e), __FILE__, __LINE__);        \
        std::exit(1);                                                                   \
    }

using bf16 = __nv_bfloat16;

struct Params {
    const bf16 *q, *k, *v;
    bf16* o;
    int B, S, H, HKV;
    float scale_log2;  // 1/sqrt(D) * log2(e)
};

// ------------------------------------------------------------------ PTX wrappers
__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// 16 bytes, zeros if !pred
__device__ __forceinline__ void cp_async_16(uint32_t dst, const void* src, bool pred) {
    int n = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(n));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 p = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&p);
}

// ------------------------------------------------------------------ the kernel
template <int D, bool CAUSAL>
__global__ void __launch_bounds__(128) fa2_fwd(Params p) {
    constexpr int BR = 64, BC = 64;
    constexpr int LD = D + 8;           // pitch in elements, the pad keeps ldmatrix free of conflicts
    constexpr int NT_S = BC / 8;        // n tiles of S
    constexpr int NT_O = D / 8;         // n tiles of O

    extern __shared__ __align__(16) bf16 smem[];
    bf16* sQ = smem;
    bf16* sK = sQ + BR * LD;
    bf16* sV = sK + BC * LD;

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int q0 = blockIdx.x * BR;
    const int h = blockIdx.y, b = blockIdx.z;
    const int hkv = h / (p.H / p.HKV);

    const bf16* gQ = p.q + ((size_t)b * p.S * p.H + h) * D;
    const bf16* gK = p.k + ((size_t)b * p.S * p.HKV + hkv) * D;
    const bf16* gV = p.v + ((size_t)b * p.S * p.HKV + hkv) * D;
    bf16* gO = p.o + ((size_t)b * p.S * p.H + h) * D;
    const int strideQ = p.H * D, strideKV = p.HKV * D;

    // 64 rows of D elements, 8 elements per copy
    auto load_tile = [&](bf16* dst, const bf16* src, int row0, int stride) {
        constexpr int CH = D / 8;
#pragma unroll
        for (int i = tid; i < 64 * CH; i += 128) {
            int r = i / CH, c = (i % CH) * 8;
            bool ok = row0 + r < p.S;
            const bf16* g = src + (size_t)(ok ? row0 + r : 0) * stride + c;
            cp_async_16(smem_u32(dst + r * LD + c), g, ok);
        }
    };

    const int n_end = CAUSAL ? min(p.S, q0 + BR) : p.S;
    const int n_tiles = (n_end + BC - 1) / BC;

    load_tile(sQ, gQ, q0, strideQ);
    load_tile(sK, gK, 0, strideKV);
    cp_async_commit();
    load_tile(sV, gV, 0, strideKV);
    cp_async_commit();

    float acc_o[NT_O][4];
#pragma unroll
    for (int i = 0; i < NT_O; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc_o[i][j] = 0.f;
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};

    uint32_t qf[D / 16][4];

    for (int t = 0; t < n_tiles; t++) {
        const int n0 = t * BC;

        // ---- S = Q K^T (the newest group is V of this tile, K is the one before)
        cp_async_wait<1>();
        __syncthreads();

        if (t == 0) {
#pragma unroll
            for (int kk = 0; kk < D / 16; kk++) {
                int r = warp * 16 + (lane & 15);
                int c = kk * 16 + (lane >> 4) * 8;
                ldsm_x4(qf[kk], smem_u32(sQ + r * LD + c));
            }
        }

        float acc_s[NT_S][4];
#pragma unroll
        for (int i = 0; i < NT_S; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) acc_s[i][j] = 0.f;

#pragma unroll
        for (int kk = 0; kk < D / 16; kk++) {
#pragma unroll
            for (int nn = 0; nn < BC / 16; nn++) {
                uint32_t kf[4];
                int r = nn * 16 + (lane & 7) + ((lane >> 4) << 3);
                int c = kk * 16 + ((lane >> 3) & 1) * 8;
                ldsm_x4(kf, smem_u32(sK + r * LD + c));
                mma_bf16(acc_s[2 * nn], qf[kk], kf[0], kf[1]);
                mma_bf16(acc_s[2 * nn + 1], qf[kk], kf[2], kf[3]);
            }
        }

        __syncthreads();  // everyone is done with sK
        if (t + 1 < n_tiles) load_tile(sK, gK, n0 + BC, strideKV);
        cp_async_commit();

        // ---- mask, only the tiles that touch the end or the diagonal
        const bool edge = n0 + BC > p.S || (CAUSAL && n0 + BC - 1 > q0 + warp * 16);
        if (edge) {
#pragma unroll
            for (int i = 0; i < NT_S; i++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    int col = n0 + i * 8 + (lane & 3) * 2 + (j & 1);
                    int row = q0 + warp * 16 + (lane >> 2) + (j >> 1) * 8;
                    if (col >= p.S || (CAUSAL && col > row)) acc_s[i][j] = -INFINITY;
                }
            }
        }

        // ---- online softmax, a row is spread over the 4 lanes of a quad
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float m = row_max[r];
#pragma unroll
            for (int i = 0; i < NT_S; i++) m = fmaxf(m, fmaxf(acc_s[i][2 * r], acc_s[i][2 * r + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));

            const float m_scaled = m == -INFINITY ? 0.f : m * p.scale_log2;
            const float corr = exp2f(row_max[r] * p.scale_log2 - m_scaled);
            row_max[r] = m;

            float sum = 0.f;
#pragma unroll
            for (int i = 0; i < NT_S; i++) {
                acc_s[i][2 * r] = exp2f(acc_s[i][2 * r] * p.scale_log2 - m_scaled);
                acc_s[i][2 * r + 1] = exp2f(acc_s[i][2 * r + 1] * p.scale_log2 - m_scaled);
                sum += acc_s[i][2 * r] + acc_s[i][2 * r + 1];
            }
            row_sum[r] = row_sum[r] * corr + sum;  // this lane's part, the quad is added up at the end
#pragma unroll
            for (int i = 0; i < NT_O; i++) {
                acc_o[i][2 * r] *= corr;
                acc_o[i][2 * r + 1] *= corr;
            }
        }

        // ---- O += P V (now the newest group is the next K)
        cp_async_wait<1>();
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < BC / 16; kk++) {
            uint32_t pf[4];
            pf[0] = pack_bf16(acc_s[2 * kk][0], acc_s[2 * kk][1]);
            pf[1] = pack_bf16(acc_s[2 * kk][2], acc_s[2 * kk][3]);
            pf[2] = pack_bf16(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]);
            pf[3] = pack_bf16(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3]);
#pragma unroll
            for (int nn = 0; nn < D / 16; nn++) {
                uint32_t vf[4];
                int r = kk * 16 + (lane & 15);
                int c = nn * 16 + (lane >> 4) * 8;
                ldsm_x4_t(vf, smem_u32(sV + r * LD + c));
                mma_bf16(acc_o[2 * nn], pf, vf[0], vf[1]);
                mma_bf16(acc_o[2 * nn + 1], pf, vf[2], vf[3]);
            }
        }

        __syncthreads();  // everyone is done with sV
        if (t + 1 < n_tiles) load_tile(sV, gV, n0 + BC, strideKV);
        cp_async_commit();
    }

    // ---- epilogue
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float s = row_sum[r];
        s += __shfl_xor_sync(0xffffffffu, s, 1);
        s += __shfl_xor_sync(0xffffffffu, s, 2);
        const float inv = s > 0.f ? 1.f / s : 0.f;
        const int row = q0 + warp * 16 + (lane >> 2) + r * 8;
        if (row < p.S) {
#pragma unroll
            for (int i = 0; i < NT_O; i++) {
                uint32_t w = pack_bf16(acc_o[i][2 * r] * inv, acc_o[i][2 * r + 1] * inv);
                *reinterpret_cast<uint32_t*>(gO + (size_t)row * strideQ + i * 8 + (lane & 3) * 2) = w;
            }
        }
    }
}

template <int D, bool CAUSAL>
void launch(const Params& p, cudaStream_t stream = 0) {
    constexpr int smem = 3 * 64 * (D + 8) * sizeof(bf16);
    CK(cudaFuncSetAttribute(fa2_fwd<D, CAUSAL>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    dim3 grid((p.S + 63) / 64, p.H, p.B);
    fa2_fwd<D, CAUSAL><<<grid, 128, smem, stream>>>(p);
    CK(cudaGetLastError());
}

// ------------------------------------------------------------------ reference and test
static void reference(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                      std::vector<float>& o, int B, int S, int H, int HKV, int D, bool causal) {
    std::vector<float> s(S);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++) {
            int hk = h / (H / HKV);
            for (int i = 0; i < S; i++) {
                int n = causal ? i + 1 : S;
                float mx = -INFINITY, sum = 0.f;
                for (int j = 0; j < n; j++) {
                    float acc = 0.f;
                    for (int d = 0; d < D; d++)
                        acc += q[(((size_t)b * S + i) * H + h) * D + d] * k[(((size_t)b * S + j) * HKV + hk) * D + d];
                    s[j] = acc / std::sqrt((float)D);
                    mx = std::fmax(mx, s[j]);
                }
                for (int j = 0; j < n; j++) sum += s[j] = std::exp(s[j] - mx);
                for (int d = 0; d < D; d++) {
                    float acc = 0.f;
                    for (int j = 0; j < n; j++) acc += s[j] * v[(((size_t)b * S + j) * HKV + hk) * D + d];
                    o[(((size_t)b * S + i) * H + h) * D + d] = acc / sum;
                }
            }
        }
}

template <int D, bool CAUSAL>
static bool test(int B, int S, int H, int HKV) {
    size_t nq = (size_t)B * S * H * D, nk = (size_t)B * S * HKV * D;
    std::mt19937 gen(S * 31 + H);
    std::normal_distribution<float> nd(0.f, 1.f);
    std::vector<float> q(nq), k(nk), v(nk), ref(nq);
    std::vector<bf16> hq(nq), hk(nk), hv(nk), ho(nq);
    auto fill = [&](std::vector<float>& f, std::vector<bf16>& h) {
        for (size_t i = 0; i < f.size(); i++) {
            h[i] = __float2bfloat16(nd(gen));
            f[i] = __bfloat162float(h[i]);
        }
    };
    fill(q, hq);
    fill(k, hk);
    fill(v, hv);
    reference(q, k, v, ref, B, S, H, HKV, D, CAUSAL);

    bf16 *dq, *dk, *dv, *dout;
    CK(cudaMalloc(&dq, nq * 2));
    CK(cudaMalloc(&dk, nk * 2));
    CK(cudaMalloc(&dv, nk * 2));
    CK(cudaMalloc(&dout, nq * 2));
    CK(cudaMemcpy(dq, hq.data(), nq * 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dk, hk.data(), nk * 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dv, hv.data(), nk * 2, cudaMemcpyHostToDevice));
    Params p{dq, dk, dv, dout, B, S, H, HKV, float(1.4426950408889634 / std::sqrt((double)D))};
    launch<D, CAUSAL>(p);
    CK(cudaDeviceSynchronize());
    CK(cudaMemcpy(ho.data(), dout, nq * 2, cudaMemcpyDeviceToHost));

    float err = 0.f;
    for (size_t i = 0; i < nq; i++) {
        float e = std::fabs(__bfloat162float(ho[i]) - ref[i]);
        if (!(e <= err)) err = e;
    }
    bool ok = err < 2e-2f;
    std::printf("B=%d S=%4d H=%d/%d D=%3d %-6s max err %.4f %s\n", B, S, H, HKV, D, CAUSAL ? "causal" : "full", err,
                ok ? "ok" : "FAILED");
    cudaFree(dq);
    cudaFree(dk);
    cudaFree(dv);
    cudaFree(dout);
    return ok;
}

int main() {
    bool ok = true;
    ok &= test<64, false>(1, 128, 2, 2);
    ok &= test<64, true>(2, 256, 4, 4);
    ok &= test<64, true>(1, 333, 4, 2);
    ok &= test<64, false>(1, 77, 2, 1);
    ok &= test<128, false>(1, 200, 4, 1);
    ok &= test<128, true>(2, 192, 2, 2);
    ok &= test<128, true>(1, 1, 2, 1);
    std::puts(ok ? "all passed" : "SOME FAILED");
    return !ok;
}
