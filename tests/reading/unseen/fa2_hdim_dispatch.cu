// FlashAttention-2 style forward pass, registers only between the two GEMMs.
// mma.sync.m16n8k16 + ldmatrix, bf16 in / bf16 out, fp32 softmax.
// Layout [batch, seqlen, heads, head_dim]; grouped-query attention supported.
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

struct Flash_fwd_params {
    const __nv_bfloat16 *__restrict__ q_ptr;
    const __nv_bfloat16 *__restrict__ k_ptr;
    const __nv_bfloat16 *__restrict__ v_ptr;
    __nv_bfloat16 *__restrict__ o_ptr;

    // strides in elements
    int64_t q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
    int q_row_stride, k_row_stride, v_row_stride, o_row_stride;
    int q_head_stride, k_head_stride, v_head_stride, o_head_stride;

    int b, seqlen_q, seqlen_k, h, h_h_k_ratio;
    float scale_softmax;
    float scale_softmax_log2;
    bool is_causal;
};

__device__ __forceinline__ uint32_t smem_u32(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void *dst, const void *src, bool pred) {
    // zfill: when pred is false nothing is read and 16 zero bytes are written
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"(smem_u32(dst)), "l"(src), "r"(pred ? 16 : 0));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&v);
}

template <int kRows, int kHeadDim, int kLd, int kThreads>
__device__ __forceinline__ void load_rows(__nv_bfloat16 *s, const __nv_bfloat16 *g, int row_stride, int rows_left) {
    constexpr int kChunks = kHeadDim / 8;
    #pragma unroll
    for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
        const int r = i / kChunks, c = (i % kChunks) * 8;
        const bool ok = r < rows_left;
        cp_async16(s + r * kLd + c, g + (ok ? int64_t(r) * row_stride : 0) + c, ok);
    }
}

template <int kHeadDim, int kBlockM = 64, int kBlockN = 64, int kNWarps = kBlockM / 16>
__global__ void __launch_bounds__(kNWarps * 32)
flash_fwd_kernel(const Flash_fwd_params params) {
    constexpr int kLd = kHeadDim + 8;
    constexpr int kThreads = kNWarps * 32;
    extern __shared__ __align__(16) __nv_bfloat16 smem[];
    __nv_bfloat16 *sQ = smem;
    __nv_bfloat16 *sK = sQ + kBlockM * kLd;
    __nv_bfloat16 *sV = sK + kBlockN * kLd;

    const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
    const int bidh_k = bidh / params.h_h_k_ratio;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row0 = m_block * kBlockM;

    const __nv_bfloat16 *gQ = params.q_ptr + bidb * params.q_batch_stride + int64_t(row0) * params.q_row_stride + bidh * params.q_head_stride;
    const __nv_bfloat16 *gK = params.k_ptr + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
    const __nv_bfloat16 *gV = params.v_ptr + bidb * params.v_batch_stride + bidh_k * params.v_head_stride;

    load_rows<kBlockM, kHeadDim, kLd, kThreads>(sQ, gQ, params.q_row_stride, params.seqlen_q - row0);
    cp_async_commit();

    float acc_o[kHeadDim / 8][4];
    #pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) acc_o[i][0] = acc_o[i][1] = acc_o[i][2] = acc_o[i][3] = 0.f;
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};

    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (params.is_causal) n_block_max = min(n_block_max, (row0 + kBlockM + kBlockN - 1) / kBlockN);

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        const int col0 = n_block * kBlockN;
        load_rows<kBlockN, kHeadDim, kLd, kThreads>(sK, gK + int64_t(col0) * params.k_row_stride, params.k_row_stride, params.seqlen_k - col0);
        cp_async_commit();
        load_rows<kBlockN, kHeadDim, kLd, kThreads>(sV, gV + int64_t(col0) * params.v_row_stride, params.v_row_stride, params.seqlen_k - col0);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();

        // S = Q K^T
        float s[kBlockN / 8][4];
        #pragma unroll
        for (int i = 0; i < kBlockN / 8; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.f;
        #pragma unroll
        for (int k = 0; k < kHeadDim / 16; ++k) {
            uint32_t a[4];
            ldsm_x4(a, sQ + (warp * 16 + lane % 16) * kLd + k * 16 + (lane / 16) * 8);
            #pragma unroll
            for (int n = 0; n < kBlockN / 16; ++n) {
                uint32_t b[4];
                ldsm_x4(b, sK + (n * 16 + (lane / 16) * 8 + lane % 8) * kLd + k * 16 + ((lane / 8) % 2) * 8);
                mma_bf16(s[2 * n], a, b[0], b[1]);
                mma_bf16(s[2 * n + 1], a, b[2], b[3]);
            }
        }

        // mask, online softmax
        const int qrow = row0 + warp * 16 + lane / 4;
        #pragma unroll
        for (int i = 0; i < kBlockN / 8; ++i) {
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int col = col0 + i * 8 + (lane % 4) * 2 + (e & 1);
                const int row = qrow + (e >> 1) * 8;
                if (col >= params.seqlen_k || (params.is_causal && col > row)) s[i][e] = -INFINITY;
            }
        }
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            float mx = row_max[h];
            #pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) mx = fmaxf(mx, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
            mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 1));
            mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 2));
            const float m_used = mx == -INFINITY ? 0.f : mx;
            const float scale = exp2f((row_max[h] - m_used) * params.scale_softmax_log2);
            row_max[h] = mx;
            float sum = 0.f;
            #pragma unroll
            for (int i = 0; i < kBlockN / 8; ++i) {
                #pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    s[i][e] = exp2f((s[i][e] - m_used) * params.scale_softmax_log2);
                    sum += s[i][e];
                }
            }
            row_sum[h] = row_sum[h] * scale + sum;
            #pragma unroll
            for (int i = 0; i < kHeadDim / 8; ++i) { acc_o[i][2 * h] *= scale; acc_o[i][2 * h + 1] *= scale; }
        }

        cp_async_wait<0>();
        __syncthreads();

        // O += P V, P comes straight out of the accumulator registers
        #pragma unroll
        for (int k = 0; k < kBlockN / 16; ++k) {
            const uint32_t p[4] = {pack_bf16(s[2 * k][0], s[2 * k][1]), pack_bf16(s[2 * k][2], s[2 * k][3]),
                                   pack_bf16(s[2 * k + 1][0], s[2 * k + 1][1]), pack_bf16(s[2 * k + 1][2], s[2 * k + 1][3])};
            #pragma unroll
            for (int n = 0; n < kHeadDim / 16; ++n) {
                uint32_t b[4];
                ldsm_x4_t(b, sV + (k * 16 + lane % 16) * kLd + n * 16 + (lane / 16) * 8);
                mma_bf16(acc_o[2 * n], p, b[0], b[1]);
                mma_bf16(acc_o[2 * n + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
        const float inv = row_sum[h] == 0.f ? 1.f : 1.f / row_sum[h];
        const int row = row0 + warp * 16 + lane / 4 + h * 8;
        if (row >= params.seqlen_q) continue;
        __nv_bfloat16 *gO = params.o_ptr + bidb * params.o_batch_stride + int64_t(row) * params.o_row_stride + bidh * params.o_head_stride;
        #pragma unroll
        for (int i = 0; i < kHeadDim / 8; ++i)
            *reinterpret_cast<uint32_t *>(gO + i * 8 + (lane % 4) * 2) = pack_bf16(acc_o[i][2 * h] * inv, acc_o[i][2 * h + 1] * inv);
    }
}

#define HEADDIM_SWITCH(HEADDIM, ...)                                   \
    [&] {                                                              \
        switch (HEADDIM) {                                             \
            case 32:  { constexpr static int kHeadDim = 32;  return __VA_ARGS__(); } \
            case 64:  { constexpr static int kHeadDim = 64;  return __VA_ARGS__(); } \
            case 128: { constexpr static int kHeadDim = 128; return __VA_ARGS__(); } \
            default: fprintf(stderr, "unsupported head_dim %d\n", int(HEADDIM)); \
        }                                                              \
    }()

template <int kHeadDim>
void run_flash_fwd(Flash_fwd_params &params, cudaStream_t stream) {
    constexpr int kBlockM = 64, kBlockN = 64;
    constexpr size_t smem_size = (kBlockM + 2 * kBlockN) * (kHeadDim + 8) * sizeof(__nv_bfloat16);
    const int num_m_block = (params.seqlen_q + kBlockM - 1) / kBlockM;
    dim3 grid(num_m_block, params.b, params.h);
    auto kernel = &flash_fwd_kernel<kHeadDim, kBlockM, kBlockN>;
    if (smem_size >= 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_size);
    kernel<<<grid, kBlockM / 16 * 32, smem_size, stream>>>(params);
}

// q: [b, seqlen_q, h, d], k/v: [b, seqlen_k, h_k, d], o like q
void flash_attn_fwd(const void *q, const void *k, const void *v, void *o, int b, int seqlen_q, int seqlen_k,
                    int h, int h_k, int d, bool is_causal, cudaStream_t stream) {
    Flash_fwd_params params = {};
    params.q_ptr = static_cast<const __nv_bfloat16 *>(q);
    params.k_ptr = static_cast<const __nv_bfloat16 *>(k);
    params.v_ptr = static_cast<const __nv_bfloat16 *>(v);
    params.o_ptr = static_cast<__nv_bfloat16 *>(o);
    params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = d;
    params.q_row_stride = params.o_row_stride = h * d;
    params.k_row_stride = params.v_row_stride = h_k * d;
    params.q_batch_stride = params.o_batch_stride = int64_t(seqlen_q) * h * d;
    params.k_batch_stride = params.v_batch_stride = int64_t(seqlen_k) * h_k * d;
    params.b = b; params.h = h; params.h_h_k_ratio = h / h_k;
    params.seqlen_q = seqlen_q; params.seqlen_k = seqlen_k;
    params.scale_softmax = 1.f / sqrtf(float(d));
    params.scale_softmax_log2 = params.scale_softmax * M_LOG2E;
    params.is_causal = is_causal;
    HEADDIM_SWITCH(d, [&] { run_flash_fwd<kHeadDim>(params, stream); });
}
