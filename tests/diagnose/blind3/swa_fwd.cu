// Sliding-window attention, forward, packed qkv, bf16 (sm_80+).
//
//   qkv  [batch, seqlen, 3, nheads, headdim]
//   out  [batch, seqlen, nheads, headdim]
//   lse  [batch, nheads, seqlen]
//
// Each of 4 warps owns 16 queries; scores, probabilities and output stay in registers. Keys and values come in
// tiles of 32 through two shared buffers.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

namespace swa {

using bf16 = __nv_bfloat16;

constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n"); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_u32(p)));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem_u32(p)));
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&v);
}

// the four lanes that share a row
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

template <int D, int ROWS>
__device__ __forceinline__ void load_rows(bf16 (*dst)[D + 8], const bf16 *src, int row0, int seqlen, int64_t stride) {
    for (int i = threadIdx.x; i < ROWS * (D / 8); i += kThreads) {
        int r = i / (D / 8);
        int c = i % (D / 8) * 8;
        bool valid = row0 + r < seqlen;
        cp_async16(&dst[r][c], src + (valid ? row0 + r : 0) * stride + c, valid);
    }
}

template <int D>
__global__ void __launch_bounds__(kThreads)
swa_fwd_kernel(const bf16 *__restrict__ qkv, bf16 *__restrict__ out, float *__restrict__ lse, int seqlen, int nheads,
               float scale, float softcap, int window) {
    __shared__ __align__(16) bf16 sQ[kBlockM][D + 8];
    __shared__ __align__(16) bf16 sK[2][kBlockN][D + 8];
    __shared__ __align__(16) bf16 sV[2][kBlockN][D + 8];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int row0 = blockIdx.x * kBlockM;
    const int head = blockIdx.y;
    const int batch = blockIdx.z;

    const int64_t stride = int64_t(3) * nheads * D;
    const bf16 *q = qkv + int64_t(batch) * seqlen * stride + head * D;
    const bf16 *k = q + nheads * D;
    const bf16 *v = k + nheads * D;

    // tiles that any query of this block sees
    const int n_begin = max(0, row0 - window) / kBlockN;
    const int n_end = (min(seqlen, row0 + kBlockM) + kBlockN - 1) / kBlockN;

    load_rows<D, kBlockM>(sQ, q, row0, seqlen, stride);
    load_rows<D, kBlockN>(sK[0], k, n_begin * kBlockN, seqlen, stride);
    load_rows<D, kBlockN>(sV[0], v, n_begin * kBlockN, seqlen, stride);
    cp_async_commit();

    float acc_o[D / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    uint32_t frag_q[D / 16][4];

    for (int n = n_begin; n < n_end; ++n) {
        const int buf = (n - n_begin) & 1;
        cp_async_wait<0>();
        __syncthreads();
        if (n + 1 < n_end) {
            load_rows<D, kBlockN>(sK[buf ^ 1], k, (n + 1) * kBlockN, seqlen, stride);
            load_rows<D, kBlockN>(sV[buf ^ 1], v, (n + 1) * kBlockN, seqlen, stride);
            cp_async_commit();
        }

        if (n == n_begin) {
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk)
                ldmatrix_x4(frag_q[kk], &sQ[warp * 16 + lane % 16][kk * 16 + lane / 16 * 8]);
        }

        // S = Q K^T
        float acc_s[kBlockN / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
#pragma unroll
            for (int j = 0; j < kBlockN / 16; ++j) {
                uint32_t b[4];
                ldmatrix_x4(b, &sK[buf][j * 16 + lane / 16 * 8 + lane % 8][kk * 16 + lane / 8 % 2 * 8]);
                mma(acc_s[2 * j], frag_q[kk], b[0], b[1]);
                mma(acc_s[2 * j + 1], frag_q[kk], b[2], b[3]);
            }
        }

        // scale, cap, mask
#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = row0 + warp * 16 + lane / 4 + e / 2 * 8;
                const int col = n * kBlockN + j * 8 + lane % 4 * 2 + e % 2;
                float x = acc_s[j][e] * scale;
                if (softcap > 0.f) x = softcap * tanhf(x / softcap);
                if (col > row || col < row - window || col >= seqlen) x = -INFINITY;
                acc_s[j][e] = x;
            }
        }

        // online softmax: rows lane / 4 and lane / 4 + 8
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float m = row_max[h];
#pragma unroll
            for (int j = 0; j < kBlockN / 8; ++j) m = fmaxf(m, fmaxf(acc_s[j][2 * h], acc_s[j][2 * h + 1]));
            m = quad_max(m);
            const float m_use = m == -INFINITY ? 0.f : m;
            const float alpha = __expf(row_max[h] - m_use);
            row_max[h] = m;
            row_sum[h] *= alpha;
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                acc_o[j][2 * h] *= alpha;
                acc_o[j][2 * h + 1] *= alpha;
            }
#pragma unroll
            for (int j = 0; j < kBlockN / 8; ++j) {
                acc_s[j][2 * h] = __expf(acc_s[j][2 * h] - m_use);
                acc_s[j][2 * h + 1] = __expf(acc_s[j][2 * h + 1] - m_use);
                row_sum[h] += acc_s[j][2 * h] + acc_s[j][2 * h + 1];
            }
        }

        // O += P V
#pragma unroll
        for (int t = 0; t < kBlockN / 16; ++t) {
            const uint32_t p[4] = {pack(acc_s[2 * t][0], acc_s[2 * t][1]), pack(acc_s[2 * t][2], acc_s[2 * t][3]),
                                   pack(acc_s[2 * t + 1][0], acc_s[2 * t + 1][1]),
                                   pack(acc_s[2 * t + 1][2], acc_s[2 * t + 1][3])};
#pragma unroll
            for (int j = 0; j < D / 16; ++j) {
                uint32_t b[4];
                ldmatrix_x4_trans(b, &sV[buf][t * 16 + lane % 16][j * 16 + lane / 16 * 8]);
                mma(acc_o[2 * j], p, b[0], b[1]);
                mma(acc_o[2 * j + 1], p, b[2], b[3]);
            }
        }
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int row = row0 + warp * 16 + lane / 4 + h * 8;
        const float sum = quad_sum(row_sum[h]);
        if (row >= seqlen) continue;
        const float inv = 1.f / sum;
        bf16 *dst = out + ((int64_t(batch) * seqlen + row) * nheads + head) * D;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
            const uint32_t two = pack(acc_o[j][2 * h] * inv, acc_o[j][2 * h + 1] * inv);
            *reinterpret_cast<uint32_t *>(dst + j * 8 + lane % 4 * 2) = two;
        }
        if (lane % 4 == 0) lse[(int64_t(batch) * nheads + head) * seqlen + row] = row_max[h] + __logf(sum);
    }
}

template <int D>
void launch(const bf16 *qkv, bf16 *out, float *lse, int batch, int seqlen, int nheads, float softcap, int window,
            cudaStream_t stream) {
    dim3 grid((seqlen + kBlockM - 1) / kBlockM, nheads, batch);
    swa_fwd_kernel<D><<<grid, kThreads, 0, stream>>>(qkv, out, lse, seqlen, nheads, 1.f / sqrtf(D), softcap, window);
}

}  // namespace swa

extern "C" int swa_fwd(const void *qkv, void *out, float *lse, int batch, int seqlen, int nheads, int headdim,
                       float softcap, int window, cudaStream_t stream) {
    auto in = static_cast<const swa::bf16 *>(qkv);
    auto o = static_cast<swa::bf16 *>(out);
    if (headdim == 32) swa::launch<32>(in, o, lse, batch, seqlen, nheads, softcap, window, stream);
    else if (headdim == 64) swa::launch<64>(in, o, lse, batch, seqlen, nheads, softcap, window, stream);
    else return 1;
    return cudaGetLastError() == cudaSuccess ? 0 : 2;
}
