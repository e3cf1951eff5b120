// flash_fwd_mma.cu -- FlashAttention-2 forward in one file, raw mma.sync.
//
//   O   = softmax(scale * Q K^T [+ causal mask]) V        fp16, [b, h, s, d]
//   LSE = log sum exp of the scaled scores                fp32, [b, h, s]
//
// One block = 64 query rows (16 per warp), K/V walked in tiles of 32 keys. P never
// leaves registers: the accumulator layout of S is the A operand layout of P.
//
//   nvcc -std=c++17 -arch=sm_80 flash_fwd_mma.cu -o flash && ./flash
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(expr)                                                                  \
    if (auto e_ = (expr); e_ != cudaSuccess) {                                         \
        std::fprintf(stderr, "%s failed: %s\n", #expr, cudaGetErrorString(e_));        \
        std::exit(2);                                                                  \
    }

struct FlashFwdParams {
    const half *q;
    const half *k;
    const half *v;
    half *o;
    float *lse;
    int b, h;
    int seqlen_q, seqlen_k;
    float scale;
    bool causal;
};

template <int kHeadDim_, int kBlockM_ = 64, int kBlockN_ = 32>
struct KernelTraits {
    static constexpr int kHeadDim = kHeadDim_, kBlockM = kBlockM_, kBlockN = kBlockN_;
    static constexpr int kNWarps = kBlockM / 16, kNThreads = kNWarps * 32;
    static constexpr int kStride = kHeadDim + 8;  // conflict-free ldmatrix
};

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x2(uint32_t (&r)[2], const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x2_trans(uint32_t (&r)[2], const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ uint32_t pack_half2(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t *>(&h);
}

// rows past `limit` become zero
template <typename Traits>
__device__ __forceinline__ void copy_tile(half *dst, const half *src, int row0, int rows, int limit) {
    constexpr int kVecs = Traits::kHeadDim / 8;
    for (int i = threadIdx.x; i < rows * kVecs; i += Traits::kNThreads) {
        int r = i / kVecs, c = i % kVecs * 8;
        int4 val = make_int4(0, 0, 0, 0);
        if (row0 + r < limit) val = *reinterpret_cast<const int4 *>(src + (size_t)(row0 + r) * Traits::kHeadDim + c);
        *reinterpret_cast<int4 *>(dst + r * Traits::kStride + c) = val;
    }
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kNThreads) flash_fwd_kernel(FlashFwdParams p) {
    constexpr int D = Traits::kHeadDim, BM = Traits::kBlockM, BN = Traits::kBlockN, LD = Traits::kStride;
    __shared__ __align__(16) half sQ[BM * LD];
    __shared__ __align__(16) half sK[BN * LD];
    __shared__ __align__(16) half sV[BN * LD];

    const int m0 = blockIdx.x * BM, bh = blockIdx.y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const half *q = p.q + (size_t)bh * p.seqlen_q * D;
    const half *k = p.k + (size_t)bh * p.seqlen_k * D;
    const half *v = p.v + (size_t)bh * p.seqlen_k * D;

    copy_tile<Traits>(sQ, q, m0, BM, p.seqlen_q);
    __syncthreads();
    uint32_t q_frag[D / 16][4];
    for (int kk = 0; kk < D / 16; ++kk)
        ldsm_x4(q_frag[kk], sQ + (warp * 16 + lane % 16) * LD + kk * 16 + lane / 16 * 8);

    float acc_o[D / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
    const int row = m0 + warp * 16 + lane / 4;  // and row + 8
    // bottom-right aligned, as in flash-attn: query i sees keys up to i + sk - sq
    const int shift = p.seqlen_k - p.seqlen_q;
    const int n_end = p.causal ? min(p.seqlen_k, m0 + BM + shift) : p.seqlen_k;
    const float scale_log2 = p.scale * 1.4426950408889634f;

    for (int n0 = 0; n0 < n_end; n0 += BN) {
        __syncthreads();
        copy_tile<Traits>(sK, k, n0, BN, p.seqlen_k);
        copy_tile<Traits>(sV, v, n0, BN, p.seqlen_k);
        __syncthreads();

        float acc_s[BN / 8][4] = {};
        for (int j = 0; j < BN / 8; ++j)
            for (int kk = 0; kk < D / 16; ++kk) {
                uint32_t kf[2];
                ldsm_x2(kf, sK + (j * 8 + lane % 8) * LD + kk * 16 + lane / 8 % 2 * 8);
                mma(acc_s[j], q_frag[kk], kf);
            }

        // mask
        for (int j = 0; j < BN / 8; ++j)
            for (int e = 0; e < 4; ++e) {
                int col = n0 + j * 8 + lane % 4 * 2 + e % 2;
                int r = row + e / 2 * 8;
                if (col >= p.seqlen_k || (p.causal && col > r + shift)) acc_s[j][e] = -INFINITY;
            }

        // online softmax, one row in four lanes
        for (int i = 0; i < 2; ++i) {
            float m = row_max[i];
            for (int j = 0; j < BN / 8; ++j) m = fmaxf(m, fmaxf(acc_s[j][2 * i], acc_s[j][2 * i + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            float m_safe = m == -INFINITY ? 0.f : m;
            float corr = exp2f((row_max[i] - m_safe) * scale_log2);
            row_max[i] = m;
            row_sum[i] *= corr;
            for (int j = 0; j < D / 8; ++j) acc_o[j][2 * i] *= corr, acc_o[j][2 * i + 1] *= corr;
            for (int j = 0; j < BN / 8; ++j)
                for (int e = 2 * i; e < 2 * i + 2; ++e) {
                    acc_s[j][e] = exp2f((acc_s[j][e] - m_safe) * scale_log2);
                    row_sum[i] += acc_s[j][e];
                }
        }

        // O += P V
        for (int kk = 0; kk < BN / 16; ++kk) {
            uint32_t pf[4] = {pack_half2(acc_s[2 * kk][0], acc_s[2 * kk][1]),
                              pack_half2(acc_s[2 * kk][2], acc_s[2 * kk][3]),
                              pack_half2(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]),
                              pack_half2(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3])};
            for (int j = 0; j < D / 8; ++j) {
                uint32_t vf[2];
                ldsm_x2_trans(vf, sV + (kk * 16 + lane % 16) * LD + j * 8);
                mma(acc_o[j], pf, vf);
            }
        }
    }

    // epilogue
    for (int i = 0; i < 2; ++i) {
        row_sum[i] += __shfl_xor_sync(0xffffffff, row_sum[i], 1);
        row_sum[i] += __shfl_xor_sync(0xffffffff, row_sum[i], 2);
        const int r = row + 8 * i;
        if (r >= p.seqlen_q) continue;
        const float inv = row_sum[i] > 0.f ? 1.f / row_sum[i] : 0.f;
        half *o = p.o + ((size_t)bh * p.seqlen_q + r) * D + lane % 4 * 2;
        for (int j = 0; j < D / 8; ++j)
            *reinterpret_cast<uint32_t *>(o + j * 8) = pack_half2(acc_o[j][2 * i] * inv, acc_o[j][2 * i + 1] * inv);
        if (lane % 4 == 0) p.lse[(size_t)bh * p.seqlen_q + r] = row_max[i] * p.scale + logf(row_sum[i]);
    }
}

template <int D>
void run_flash_fwd(const FlashFwdParams &p, cudaStream_t stream = 0) {
    using Traits = KernelTraits<D>;
    dim3 grid((p.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM, p.b * p.h);
    flash_fwd_kernel<Traits><<<grid, Traits::kNThreads, 0, stream>>>(p);
    CUDA_OK(cudaGetLastError());
}

static bool test(int b, int h, int sq, int sk, bool causal) {
    constexpr int D = 64;
    std::vector<half> q(b * h * sq * D), k(b * h * sk * D), v(k.size()), o(q.size());
    std::vector<float> lse(b * h * sq);
    for (auto *x : {&q, &k, &v})
        for (auto &e : *x) e = __float2half(2.f * rand() / RAND_MAX - 1.f);
    FlashFwdParams p{};
    half *dq, *dk, *dv;
    CUDA_OK(cudaMalloc(&dq, q.size() * 2));
    CUDA_OK(cudaMalloc(&dk, k.size() * 2));
    CUDA_OK(cudaMalloc(&dv, v.size() * 2));
    CUDA_OK(cudaMalloc(&p.o, o.size() * 2));
    CUDA_OK(cudaMalloc(&p.lse, lse.size() * 4));
    CUDA_OK(cudaMemcpy(dq, q.data(), q.size() * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dk, k.data(), k.size() * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dv, v.data(), v.size() * 2, cudaMemcpyHostToDevice));
    p.q = dq, p.k = dk, p.v = dv;
    p.b = b, p.h = h, p.seqlen_q = sq, p.seqlen_k = sk, p.causal = causal;
    p.scale = 1.f / std::sqrt((float)D);
    run_flash_fwd<D>(p);
    CUDA_OK(cudaMemcpy(o.data(), p.o, o.size() * 2, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(lse.data(), p.lse, lse.size() * 4, cudaMemcpyDeviceToHost));

    double worst_o = 0, worst_lse = 0;
    std::vector<double> s(sk);
    for (int bh = 0; bh < b * h; ++bh)
        for (int i = 0; i < sq; ++i) {
            int n = causal ? std::min(sk, i + 1 + sk - sq) : sk;
            double mx = -1e30, sum = 0;
            for (int j = 0; j < n; ++j) {
                s[j] = 0;
                for (int d = 0; d < D; ++d)
                    s[j] += (double)__half2float(q[(bh * sq + i) * D + d]) * __half2float(k[(bh * sk + j) * D + d]);
                mx = std::max(mx, s[j] *= p.scale);
            }
            for (int j = 0; j < n; ++j) sum += s[j] = std::exp(s[j] - mx);
            double e = std::fabs(mx + std::log(sum) - lse[bh * sq + i]);
            worst_lse = e <= worst_lse ? worst_lse : e;
            for (int d = 0; d < D; ++d) {
                double ref = 0;
                for (int j = 0; j < n; ++j) ref += s[j] * __half2float(v[(bh * sk + j) * D + d]);
                e = std::fabs(ref / sum - __half2float(o[(bh * sq + i) * D + d]));
                worst_o = e < 1e9 ? std::max(worst_o, e) : 1e9;
            }
        }
    bool ok = worst_o < 4e-3 && worst_lse < 2e-3;
    std::printf("b=%d h=%d sq=%d sk=%d causal=%d  |dO| %.2e  |dLSE| %.2e  %s\n", b, h, sq, sk, causal, worst_o, worst_lse,
                ok ? "PASS" : "FAIL");
    cudaFree(dq), cudaFree(dk), cudaFree(dv), cudaFree(p.o), cudaFree(p.lse);
    return ok;
}

int main() {
    bool ok = test(1, 2, 128, 128, false);
    ok &= test(2, 1, 128, 128, true);
    ok &= test(1, 1, 77, 77, true);
    ok &= test(1, 1, 40, 100, true);
    return ok ? 0 : 1;
}
