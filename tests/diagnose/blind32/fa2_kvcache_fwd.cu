// Forward pass after FlashAttention-2, for prefill on top of a KV cache. bf16, sm_80 and newer, no CUTLASS.
//
//   q, o : [batch, seqlen_q, heads_q, d]              (as the projection leaves them)
//   k, v : [batch, heads_k, cache_capacity, d]        (the first seqlen_k rows of each head are valid)
//
// heads_q is a multiple of heads_k (MQA / GQA). The causal mask is aligned to the bottom right corner.
// Blocks of keys are visited from the last one to the first one, as FA2 does it: the ones that need masks come first.
#include <cuda_bf16.h>
#include <cstdint>

typedef __nv_bfloat16 bf16_t;

namespace fa {

struct Params {
    const bf16_t *__restrict__ q_ptr;
    const bf16_t *__restrict__ k_ptr;
    const bf16_t *__restrict__ v_ptr;
    bf16_t *__restrict__ o_ptr;

    int64_t q_batch_stride, q_row_stride, q_head_stride;     // o has the same
    int64_t kv_batch_stride, kv_head_stride, kv_row_stride;

    int seqlen_q, seqlen_k;
    int h_h_k_ratio;            // query heads per key head
    float scale_softmax_log2;   // scale * log2(e)
};

__device__ __forceinline__ uint32_t cvta_smem(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_zfill(uint32_t dst, const void *src, bool pred) {
    int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr) : "memory");
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack2(float x, float y) {
    __nv_bfloat162 t = __floats2bfloat162_rn(x, y);
    return reinterpret_cast<uint32_t &>(t);
}

// Element offset of a 16 byte chunk; the low bits of the row are xored into the chunk's number
template <int kHeadDim>
__device__ __forceinline__ int swz(int row, int chunk) {
    return row * kHeadDim + ((chunk ^ (row & 7)) << 3);
}

template <int kRows, int kHeadDim, int kThreads>
__device__ __forceinline__ void copy_tile(bf16_t *smem, const bf16_t *gmem, int64_t row_stride, int max_rows) {
    constexpr int kChunks = kHeadDim / 8;
#pragma unroll
    for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
        const int idx = i * kThreads + threadIdx.x;
        const int row = idx / kChunks, chunk = idx % kChunks;
        const bool valid = row < max_rows;
        const bf16_t *src = gmem + (valid ? row : 0) * row_stride + chunk * 8;
        cp_async_zfill(cvta_smem(smem + swz<kHeadDim>(row, chunk)), src, valid);
    }
}

template <int kHeadDim, int kBlockM, int kBlockN, int Is_causal>
__global__ void __launch_bounds__(kBlockM * 2) flash_fwd_kernel(const Params params) {
    constexpr int kThreads = kBlockM * 2;  // a warp for each 16 rows
    constexpr int kNFrags = kBlockN / 8, kDFrags = kHeadDim / 8;

    __shared__ __align__(128) bf16_t smem_q[kBlockM * kHeadDim];
    __shared__ __align__(128) bf16_t smem_k[2][kBlockN * kHeadDim];
    __shared__ __align__(128) bf16_t smem_v[2][kBlockN * kHeadDim];

    const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int group = lane / 4, quad = lane % 4;

    const int64_t q_offset = bidb * params.q_batch_stride + bidh * params.q_head_stride +
                             int64_t(m_block) * kBlockM * params.q_row_stride;
    const int64_t kv_offset =
        bidb * params.kv_batch_stride + (bidh / params.h_h_k_ratio) * params.kv_head_stride;
    const bf16_t *gk = params.k_ptr + kv_offset;
    const bf16_t *gv = params.v_ptr + kv_offset;

    const int diag = params.seqlen_k - params.seqlen_q;  // query i sees keys up to i + diag
    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) {
        n_block_max = min(n_block_max, ((m_block + 1) * kBlockM + diag + kBlockN - 1) / kBlockN);
    }

    auto load_kv = [&](int n_block, int stage) {
        const int64_t offset = int64_t(n_block) * kBlockN * params.kv_row_stride;
        const int rows = params.seqlen_k - n_block * kBlockN;
        copy_tile<kBlockN, kHeadDim, kThreads>(smem_k[stage], gk + offset, params.kv_row_stride, rows);
        copy_tile<kBlockN, kHeadDim, kThreads>(smem_v[stage], gv + offset, params.kv_row_stride, rows);
    };

    copy_tile<kBlockM, kHeadDim, kThreads>(smem_q, params.q_ptr + q_offset, params.q_row_stride,
                                           params.seqlen_q - m_block * kBlockM);
    load_kv(n_block_max - 1, 0);
    cp_async_fence();

    float acc_o[kDFrags][4];
#pragma unroll
    for (int i = 0; i < kDFrags; ++i) acc_o[i][0] = acc_o[i][1] = acc_o[i][2] = acc_o[i][3] = 0.f;
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};  // of this thread's columns only, until the end

    int stage = 0;
    for (int n_block = n_block_max - 1; n_block >= 0; --n_block, stage ^= 1) {
        if (n_block > 0) load_kv(n_block - 1, stage ^ 1);
        cp_async_fence();
        cp_async_wait<1>();
        __syncthreads();

        // S = Q K^T
        float acc_s[kNFrags][4];
#pragma unroll
        for (int i = 0; i < kNFrags; ++i) acc_s[i][0] = acc_s[i][1] = acc_s[i][2] = acc_s[i][3] = 0.f;
#pragma unroll
        for (int k = 0; k < kHeadDim / 16; ++k) {
            uint32_t a[4];
            ldsm_x4(a, cvta_smem(smem_q + swz<kHeadDim>(warp * 16 + (lane & 15), k * 2 + (lane >> 4))));
#pragma unroll
            for (int n = 0; n < kNFrags; n += 2) {
                uint32_t b[4];
                const int row = n * 8 + (lane & 7) + ((lane & 16) >> 1);
                const int chunk = k * 2 + ((lane >> 3) & 1);
                ldsm_x4(b, cvta_smem(smem_k[stage] + swz<kHeadDim>(row, chunk)));
                mma_16816(acc_s[n], a, b[0], b[1]);
                mma_16816(acc_s[n + 1], a, b[2], b[3]);
            }
        }

        // masks: the end of the keys, the diagonal
        const int row_base = m_block * kBlockM + warp * 16 + group;
        if ((n_block + 1) * kBlockN > params.seqlen_k ||
            (Is_causal && (n_block + 1) * kBlockN > m_block * kBlockM + diag + 1)) {
#pragma unroll
            for (int n = 0; n < kNFrags; ++n) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int col = n_block * kBlockN + n * 8 + quad * 2 + (j & 1);
                    const int limit = Is_causal ? min(params.seqlen_k, row_base + (j >> 1) * 8 + diag + 1)
                                                : params.seqlen_k;
                    if (col >= limit) acc_s[n][j] = -INFINITY;
                }
            }
        }

        // online softmax; acc_s becomes P
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float prev = row_max[r];
            float cur = prev;
#pragma unroll
            for (int n = 0; n < kNFrags; ++n) cur = fmaxf(cur, fmaxf(acc_s[n][2 * r], acc_s[n][2 * r + 1]));
            cur = fmaxf(cur, __shfl_xor_sync(0xffffffffu, cur, 2));
            cur = fmaxf(cur, __shfl_xor_sync(0xffffffffu, cur, 1));
            row_max[r] = cur;
            // a block in which this row is all masked: (-inf) - (-inf) would be NaN
            const float max_scaled = cur == -INFINITY ? 0.f : cur * params.scale_softmax_log2;
            const float rescale = exp2f(prev * params.scale_softmax_log2 - max_scaled);
            row_sum[r] *= rescale;
#pragma unroll
            for (int d = 0; d < kDFrags; ++d) {
                acc_o[d][2 * r] *= rescale;
                acc_o[d][2 * r + 1] *= rescale;
            }
#pragma unroll
            for (int n = 0; n < kNFrags; ++n) {
#pragma unroll
                for (int c = 0; c < 2; ++c) {
                    const float p = exp2f(acc_s[n][2 * r + c] * params.scale_softmax_log2 - max_scaled);
                    acc_s[n][2 * r + c] = p;
                    row_sum[r] += p;
                }
            }
        }

        // O += P V: two neighbouring accumulators of S make one A operand
#pragma unroll
        for (int k = 0; k < kBlockN / 16; ++k) {
            const uint32_t p[4] = {pack2(acc_s[2 * k][0], acc_s[2 * k][1]), pack2(acc_s[2 * k][2], acc_s[2 * k][3]),
                                   pack2(acc_s[2 * k + 1][0], acc_s[2 * k + 1][1]),
                                   pack2(acc_s[2 * k + 1][2], acc_s[2 * k + 1][3])};
#pragma unroll
            for (int d = 0; d < kDFrags; d += 2) {
                uint32_t b[4];
                ldsm_x4_t(b, cvta_smem(smem_v[stage] + swz<kHeadDim>(k * 16 + (lane & 15), d + (lane >> 4))));
                mma_16816(acc_o[d], p, b[0], b[1]);
                mma_16816(acc_o[d + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();  // this stage is free for the copy of the next round
    }

    // normalise, and by way of this warp's rows of smem_q to full 16 byte stores
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 2);
        row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 1);
        const float inv_sum = row_sum[r] == 0.f ? 0.f : 1.f / row_sum[r];
        const int row = warp * 16 + group + r * 8;
#pragma unroll
        for (int d = 0; d < kDFrags; ++d) {
            const uint32_t o2 = pack2(acc_o[d][2 * r] * inv_sum, acc_o[d][2 * r + 1] * inv_sum);
            *reinterpret_cast<uint32_t *>(smem_q + swz<kHeadDim>(row, d) + quad * 2) = o2;
        }
    }
    __syncwarp();
    for (int i = lane; i < 16 * (kHeadDim / 8); i += 32) {
        const int row = warp * 16 + i / (kHeadDim / 8), chunk = i % (kHeadDim / 8);
        if (m_block * kBlockM + row < params.seqlen_q) {
            *reinterpret_cast<uint4 *>(params.o_ptr + q_offset + row * params.q_row_stride + chunk * 8) =
                *reinterpret_cast<const uint4 *>(smem_q + swz<kHeadDim>(row, chunk));
        }
    }
}

void run_flash_fwd(const Params &params, int batch, int heads_q, bool is_causal, cudaStream_t stream) {
    dim3 grid((params.seqlen_q + 63) / 64, batch, heads_q);
    auto kernel = is_causal ? flash_fwd_kernel<64, 64, 64, 1> : flash_fwd_kernel<64, 64, 64, 0>;
    kernel<<<grid, 128, 0, stream>>>(params);
}

}  // namespace fa
