// FlashAttention-2 style forward pass: everything between the two products stays in registers.
// Head dimension 64, bfloat16, grouped KV heads, optional causal mask; writes the log-sum-exp as well.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math_constants.h>
#include <stdint.h>

struct Flash_fwd_params {
    const __nv_bfloat16 *__restrict__ q_ptr;
    const __nv_bfloat16 *__restrict__ k_ptr;
    const __nv_bfloat16 *__restrict__ v_ptr;
    __nv_bfloat16 *__restrict__ o_ptr;
    float *__restrict__ softmax_lse_ptr;
    // (batch, seqlen, heads, 64): strides in elements
    int64_t q_batch_stride, kv_batch_stride;
    int q_row_stride, kv_row_stride;
    int h, h_h_k_ratio;  // heads, and how many of them share one KV head
    int seqlen_q, seqlen_k;
    float scale_softmax_log2;
};

constexpr int kHeadDim = 64;
constexpr int kBlockM = 64;
constexpr int kBlockN = 32;
constexpr int kNThreads = 128;

using bf16 = __nv_bfloat16;

static __device__ __forceinline__ void cp_async(bf16 *dst, const bf16 *src, bool pred) {
    uint32_t s = (uint32_t)__cvta_generic_to_shared(dst);
    int n = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(src), "r"(n));
}
static __device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N> static __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

static __device__ __forceinline__ void ldmatrix_x4(uint32_t *r, const bf16 *p) {
    uint32_t s = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
static __device__ __forceinline__ void ldmatrix_x4_trans(uint32_t *r, const bf16 *p) {
    uint32_t s = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(s));
}
static __device__ __forceinline__ void mma(float *c, const uint32_t *a, const uint32_t *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static __device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 t = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&t);
}

// 64 columns are eight chunks of 16 bytes, xor-ed with the row
static __device__ __forceinline__ int sw(int row, int col) { return row * kHeadDim + ((((col >> 3) ^ row) & 7) << 3); }

static __device__ __forceinline__ void copy_tile(bf16 *dst, const bf16 *src, int row_stride, int rows, int valid) {
    for (int i = threadIdx.x; i < rows * 8; i += kNThreads) {
        int r = i / 8, c = (i % 8) * 8;
        bool ok = r < valid;
        cp_async(dst + sw(r, c), src + (ok ? (int64_t)r * row_stride + c : 0), ok);
    }
}

static __device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
}
static __device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 2);
    return x + __shfl_xor_sync(0xffffffff, x, 1);
}

template <bool Is_causal>
__global__ void __launch_bounds__(kNThreads) flash_fwd_kernel(const Flash_fwd_params params) {
    __shared__ __align__(128) bf16 sQ[kBlockM * kHeadDim];
    __shared__ __align__(128) bf16 sK[kBlockN * kHeadDim];
    __shared__ __align__(128) bf16 sV[kBlockN * kHeadDim];

    const int m_block = blockIdx.x, bidh = blockIdx.y, bidb = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int q_start = m_block * kBlockM;

    const bf16 *gQ = params.q_ptr + bidb * params.q_batch_stride + (int64_t)q_start * params.q_row_stride + bidh * kHeadDim;
    const int64_t kv_head = bidb * params.kv_batch_stride + (bidh / params.h_h_k_ratio) * kHeadDim;
    const bf16 *gK = params.k_ptr + kv_head;
    const bf16 *gV = params.v_ptr + kv_head;

    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) n_block_max = min(n_block_max, (q_start + kBlockM + kBlockN - 1) / kBlockN);

    copy_tile(sQ, gQ, params.q_row_stride, kBlockM, params.seqlen_q - q_start);
    copy_tile(sK, gK, params.kv_row_stride, kBlockN, params.seqlen_k);
    cp_async_fence();

    float acc_o[8][4] = {};
    float row_max[2] = {-CUDART_INF_F, -CUDART_INF_F};
    float row_sum[2] = {0.f, 0.f};
    uint32_t tSrQ[4][4];

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        const int k_start = n_block * kBlockN;
        copy_tile(sV, gV + (int64_t)k_start * params.kv_row_stride, params.kv_row_stride, kBlockN, params.seqlen_k - k_start);
        cp_async_fence();
        cp_async_wait<1>();
        __syncthreads();  // K is there (and Q, the first time)

        if (n_block == 0) {
            for (int kd = 0; kd < 4; ++kd) ldmatrix_x4(tSrQ[kd], sQ + sw(warp * 16 + lane % 16, kd * 16 + lane / 16 * 8));
        }

        float acc_s[4][4] = {};
#pragma unroll
        for (int kd = 0; kd < 4; ++kd)
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                uint32_t tSrK[4];
                ldmatrix_x4(tSrK, sK + sw(n * 16 + lane / 16 * 8 + lane % 8, kd * 16 + (lane / 8 % 2) * 8));
                mma(acc_s[2 * n], tSrQ[kd], tSrK);
                mma(acc_s[2 * n + 1], tSrQ[kd], tSrK + 2);
            }

        cp_async_wait<0>();
        __syncthreads();  // V is there, K is free
        if (n_block + 1 < n_block_max) {
            copy_tile(sK, gK + (int64_t)(k_start + kBlockN) * params.kv_row_stride, params.kv_row_stride, kBlockN,
                      params.seqlen_k - k_start - kBlockN);
        }
        cp_async_fence();

        // masked keys
        const int row0 = q_start + warp * 16 + lane / 4;
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int col = k_start + n * 8 + (lane % 4) * 2 + (e & 1);
                const int row = row0 + (e >> 1) * 8;
                if (col >= params.seqlen_k || (Is_causal && col > row)) acc_s[n][e] = -CUDART_INF_F;
            }

        // online softmax, two rows for each thread
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = row_max[r];
            for (int n = 0; n < 4; ++n) m = fmaxf(m, fmaxf(acc_s[n][2 * r], acc_s[n][2 * r + 1]));
            m = quad_max(m);
            const float m_scaled = m == -CUDART_INF_F ? 0.f : m * params.scale_softmax_log2;
            const float scores_scale = exp2f(row_max[r] * params.scale_softmax_log2 - m_scaled);
            row_max[r] = m;
            row_sum[r] *= scores_scale;
            for (int n = 0; n < 8; ++n) {
                acc_o[n][2 * r] *= scores_scale;
                acc_o[n][2 * r + 1] *= scores_scale;
            }
            for (int n = 0; n < 4; ++n)
                for (int e = 2 * r; e < 2 * r + 2; ++e) {
                    acc_s[n][e] = exp2f(acc_s[n][e] * params.scale_softmax_log2 - m_scaled);
                    row_sum[r] += acc_s[n][e];
                }
        }

        // O += P V: the accumulators of S are the A operand of the second product
#pragma unroll
        for (int ks = 0; ks < 2; ++ks) {
            uint32_t tOrP[4] = {
                pack_bf16(acc_s[2 * ks][0], acc_s[2 * ks][1]), pack_bf16(acc_s[2 * ks][2], acc_s[2 * ks][3]),
                pack_bf16(acc_s[2 * ks + 1][0], acc_s[2 * ks + 1][1]), pack_bf16(acc_s[2 * ks + 1][2], acc_s[2 * ks + 1][3])};
#pragma unroll
            for (int d = 0; d < 4; ++d) {
                uint32_t tOrV[4];
                ldmatrix_x4_trans(tOrV, sV + sw(ks * 16 + lane % 16, d * 16 + lane / 16 * 8));
                mma(acc_o[2 * d], tOrP, tOrV);
                mma(acc_o[2 * d + 1], tOrP, tOrV + 2);
            }
        }
        __syncthreads();  // V is free
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[r]);
        const float inv = sum == 0.f ? 1.f : 1.f / sum;
        const int row = q_start + warp * 16 + r * 8 + lane / 4;
        if (row >= params.seqlen_q) continue;
        bf16 *out = params.o_ptr + bidb * params.q_batch_stride + (int64_t)row * params.q_row_stride + bidh * kHeadDim;
        for (int n = 0; n < 8; ++n)
            *reinterpret_cast<uint32_t *>(out + n * 8 + (lane % 4) * 2) = pack_bf16(acc_o[n][2 * r] * inv, acc_o[n][2 * r + 1] * inv);
        if (lane % 4 == 0)
            params.softmax_lse_ptr[((int64_t)bidb * params.h + bidh) * params.seqlen_q + row] =
                row_max[r] * params.scale_softmax_log2 * 0.69314718f + logf(sum);
    }
}

void run_flash_fwd(Flash_fwd_params &params, int batch, bool causal, cudaStream_t stream) {
    dim3 grid((params.seqlen_q + kBlockM - 1) / kBlockM, params.h, batch);
    if (causal)
        flash_fwd_kernel<true><<<grid, kNThreads, 0, stream>>>(params);
    else
        flash_fwd_kernel<false><<<grid, kNThreads, 0, stream>>>(params);
}
