// Minimal FlashAttention-2 forward, head_dim = 64, bf16 in / bf16 out, fp32 softmax statistics.
//
//   O = softmax(scale * Q K^T [+ causal mask]) V          LSE = log sum exp of the scaled scores
//
// q, k, v, o: [batch, seqlen, heads, 64] contiguous.   lse: [batch, heads, seqlen]
// One CTA = 4 warps = 64 query rows; every warp owns 16 of them. K/V tiles of 64 keys are double buffered with
// cp.async. Shared memory is XOR-swizzled in 16-byte chunks, so neither cp.async nor ldmatrix has bank conflicts.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

constexpr int kHeadDim = 64;
constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kChunks = kHeadDim / 8;  // 16-byte chunks in a row
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ uint32_t smem_ptr(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// element offset of (row, col) in a swizzled tile
__device__ __forceinline__ int swz(int row, int col) {
    return row * kHeadDim + (((col >> 3) ^ (row & 7)) << 3) + (col & 7);
}

// 16 bytes global -> shared; bytes == 0 fills with zeros
__device__ __forceinline__ void cp_async16(uint32_t dst, const void *src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory"); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}
__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&v);
}

// one tile of 64 rows, zero filled behind the end of the sequence
__device__ __forceinline__ void load_tile(bf16 *tile, const bf16 *base, int row0, int seqlen, int row_stride) {
    for (int i = threadIdx.x; i < kBlockN * kChunks; i += kThreads) {
        int r = i / kChunks, col = (i % kChunks) * 8;
        int g = row0 + r;
        bool ok = g < seqlen;
        cp_async16(smem_ptr(tile + swz(r, col)), base + (size_t)(ok ? g : 0) * row_stride + col, ok ? 16 : 0);
    }
}

__global__ void __launch_bounds__(kThreads)
flash_fwd_kernel(const bf16 *__restrict__ q, const bf16 *__restrict__ k, const bf16 *__restrict__ v,
                 bf16 *__restrict__ o, float *__restrict__ lse, int seqlen, int heads, float scale, int is_causal) {
    __shared__ __align__(128) bf16 sQ[kBlockM * kHeadDim];
    __shared__ __align__(128) bf16 sK[2][kBlockN * kHeadDim];
    __shared__ __align__(128) bf16 sV[2][kBlockN * kHeadDim];

    const int m0 = blockIdx.x * kBlockM, head = blockIdx.y, batch = blockIdx.z;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int row_stride = heads * kHeadDim;
    const size_t offset = ((size_t)batch * seqlen * heads + head) * kHeadDim;
    q += offset; k += offset; v += offset; o += offset;

    int n_tiles = (seqlen + kBlockN - 1) / kBlockN;
    if (is_causal) n_tiles = min(n_tiles, (m0 + kBlockM + kBlockN - 1) / kBlockN);

    load_tile(sQ, q, m0, seqlen, row_stride);
    load_tile(sK[0], k, 0, seqlen, row_stride);
    load_tile(sV[0], v, 0, seqlen, row_stride);
    cp_async_commit();

    uint32_t qf[kHeadDim / 16][4];
    float acc_o[kHeadDim / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const float scale_log2 = scale * kLog2e;
    const int row_lo = m0 + warp * 16 + (lane >> 2);  // this thread's rows: row_lo and row_lo + 8

    for (int j = 0; j < n_tiles; ++j) {
        const int stage = j & 1;
        if (j + 1 < n_tiles) {  // prefetch the next tile into the other stage
            load_tile(sK[stage ^ 1], k, (j + 1) * kBlockN, seqlen, row_stride);
            load_tile(sV[stage ^ 1], v, (j + 1) * kBlockN, seqlen, row_stride);
            cp_async_commit();
            cp_async_wait<1>();
        } else {
            cp_async_wait<0>();
        }
        __syncthreads();

        if (j == 0) {  // Q stays in registers
#pragma unroll
            for (int kk = 0; kk < kHeadDim / 16; ++kk)
                ldsm_x4(qf[kk], smem_ptr(sQ + swz(warp * 16 + (lane & 15), kk * 16 + (lane >> 4) * 8)));
        }

        // S = Q K^T
        float s[kBlockN / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < kHeadDim / 16; ++kk) {
#pragma unroll
            for (int n = 0; n < kBlockN / 16; ++n) {
                uint32_t kf[4];
                int key = n * 16 + ((lane >> 4) << 3) + (lane & 7);
                ldsm_x4(kf, smem_ptr(sK[stage] + swz(key, kk * 16 + ((lane >> 3) & 1) * 8)));
                mma_16816(s[2 * n], qf[kk], kf[0], kf[1]);
                mma_16816(s[2 * n + 1], qf[kk], kf[2], kf[3]);
            }
        }

        // mask: only tiles at the end of the sequence or on the diagonal need it
        const int n0 = j * kBlockN;
        if (n0 + kBlockN > seqlen || (is_causal && n0 + kBlockN - 1 > m0)) {
#pragma unroll
            for (int n = 0; n < kBlockN / 8; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    int col = n0 + n * 8 + (lane & 3) * 2 + (e & 1);
                    int row = row_lo + (e >> 1) * 8;
                    if (col >= seqlen || (is_causal && col > row)) s[n][e] = -INFINITY;
                }
        }

        // online softmax, for each of the two rows of this thread
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m_new = row_max[r];
#pragma unroll
            for (int n = 0; n < kBlockN / 8; ++n) m_new = fmaxf(m_new, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(0xffffffffu, m_new, 2));

            const float correction = exp2f((row_max[r] - m_new) * scale_log2);
            float sum = 0.f;
#pragma unroll
            for (int n = 0; n < kBlockN / 8; ++n) {
                s[n][2 * r] = exp2f(s[n][2 * r] * scale_log2 - m_new * scale_log2);
                s[n][2 * r + 1] = exp2f(s[n][2 * r + 1] * scale_log2 - m_new * scale_log2);
                sum += s[n][2 * r] + s[n][2 * r + 1];
            }
            row_sum[r] = row_sum[r] * correction + sum;  // the quad's sums are added up at the end
            row_max[r] = m_new;
#pragma unroll
            for (int d = 0; d < kHeadDim / 8; ++d) {
                acc_o[d][2 * r] *= correction;
                acc_o[d][2 * r + 1] *= correction;
            }
        }

        // O += P V: two neighbouring accumulators of S are one A operand
#pragma unroll
        for (int kk = 0; kk < kBlockN / 16; ++kk) {
            uint32_t pf[4];
            pf[0] = pack_bf16(s[2 * kk][0], s[2 * kk][1]);
            pf[1] = pack_bf16(s[2 * kk][2], s[2 * kk][3]);
            pf[2] = pack_bf16(s[2 * kk + 1][0], s[2 * kk + 1][1]);
            pf[3] = pack_bf16(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
            for (int d = 0; d < kHeadDim / 16; ++d) {
                uint32_t vf[4];
                ldsm_x4_t(vf, smem_ptr(sV[stage] + swz(kk * 16 + (lane & 15), d * 16 + (lane >> 4) * 8)));
                mma_16816(acc_o[2 * d], pf, vf[0], vf[1]);
                mma_16816(acc_o[2 * d + 1], pf, vf[2], vf[3]);
            }
        }
        __syncthreads();  // this stage may be overwritten now
    }

    // epilogue: normalise, and through shared memory (sQ is free) to 16-byte stores
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 1);
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 2);
        const float inv = 1.f / row_sum[r];
        const int local = warp * 16 + (lane >> 2) + r * 8;
#pragma unroll
        for (int d = 0; d < kHeadDim / 8; ++d)
            *reinterpret_cast<uint32_t *>(sQ + swz(local, d * 8 + (lane & 3) * 2)) =
                pack_bf16(acc_o[d][2 * r] * inv, acc_o[d][2 * r + 1] * inv);
        if ((lane & 3) == 0 && m0 + local < seqlen)
            lse[((size_t)batch * heads + head) * seqlen + m0 + local] = row_max[r] * scale + logf(row_sum[r]);
    }
    __syncwarp();  // a warp writes only what it put there itself
    for (int i = lane; i < 16 * kChunks; i += 32) {
        int r = warp * 16 + i / kChunks, col = (i % kChunks) * 8;
        if (m0 + r < seqlen)
            *reinterpret_cast<uint4 *>(o + (size_t)(m0 + r) * row_stride + col) =
                *reinterpret_cast<const uint4 *>(sQ + swz(r, col));
    }
}

void flash_fwd(const bf16 *q, const bf16 *k, const bf16 *v, bf16 *o, float *lse, int batch, int seqlen, int heads,
               float scale, bool causal, cudaStream_t stream) {
    dim3 grid((seqlen + kBlockM - 1) / kBlockM, heads, batch);
    flash_fwd_kernel<<<grid, kThreads, 0, stream>>>(q, k, v, o, lse, seqlen, heads, scale, causal);
}
