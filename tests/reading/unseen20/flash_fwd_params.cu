// FlashAttention-2 style forward pass. q: (b, seqlen_q, h, d), k/v: (b, seqlen_k, h_k, d),
// any strides as long as the last dimension is contiguous and rows are 16-byte aligned.
// Supports MQA/GQA (h % h_k == 0), causal masking aligned to the bottom right, and the LSE output.
#include <cmath>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Flash_fwd_params {
    using index_t = int64_t;
    void *__restrict__ q_ptr, *__restrict__ k_ptr, *__restrict__ v_ptr, *__restrict__ o_ptr;
    float *__restrict__ softmax_lse_ptr;  // (b, h, seqlen_q)

    index_t q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
    index_t q_row_stride, k_row_stride, v_row_stride, o_row_stride;
    index_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;

    int b, h, h_k, h_h_k_ratio;
    int seqlen_q, seqlen_k, d;
    float scale_softmax;
    float scale_softmax_log2;  // scale_softmax * log2(e)
    bool is_causal;
};

namespace flash {

template <int kHeadDim_, int kBlockM_, int kBlockN_>
struct Kernel_traits {
    static constexpr int kHeadDim = kHeadDim_, kBlockM = kBlockM_, kBlockN = kBlockN_;
    static constexpr int kNWarps = kBlockM / 16;
    static constexpr int kNThreads = kNWarps * 32;
    static constexpr int kStride = kHeadDim + 8;
    static constexpr int kSmemSize = (kBlockM + 2 * kBlockN) * kStride * sizeof(half);
};

__device__ __forceinline__ uint32_t smem_addr(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

template <bool trans>
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half *p) {
    if constexpr (trans)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(p)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_addr(p)));
}

__device__ __forceinline__ void mma_16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// gmem -> smem, rows at or past max_rows become zeros (src-size 0)
template <typename Traits, int kRows>
__device__ __forceinline__ void copy_tile(half *smem, const half *gmem, int64_t row_stride, int max_rows) {
    constexpr int kVecs = Traits::kHeadDim / 8;
    for (int i = threadIdx.x; i < kRows * kVecs; i += Traits::kNThreads) {
        const int r = i / kVecs, c = (i % kVecs) * 8;
        const bool valid = r < max_rows;
        const half *src = gmem + (valid ? r * row_stride + c : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_addr(smem + r * Traits::kStride + c)),
                     "l"(src), "r"(valid ? 16 : 0));
    }
    asm volatile("cp.async.commit_group;");
}

template <int N> __device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

__device__ __forceinline__ uint32_t pack(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t *>(&h);
}

template <typename Traits, bool Is_causal>
__global__ void __launch_bounds__(Traits::kNThreads) flash_fwd_kernel(const Flash_fwd_params params) {
    constexpr int kBlockM = Traits::kBlockM, kBlockN = Traits::kBlockN, kD = Traits::kHeadDim, kS = Traits::kStride;
    extern __shared__ __align__(16) char smem_[];
    half *sQ = reinterpret_cast<half *>(smem_);
    half *sK = sQ + kBlockM * kS;
    half *sV = sK + kBlockN * kS;

    const int m_block = blockIdx.x, bidb = blockIdx.y, bidh = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int bidh_k = bidh / params.h_h_k_ratio;

    const half *gQ = static_cast<const half *>(params.q_ptr) + bidb * params.q_batch_stride +
                     bidh * params.q_head_stride + int64_t(m_block) * kBlockM * params.q_row_stride;
    const half *gK = static_cast<const half *>(params.k_ptr) + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
    const half *gV = static_cast<const half *>(params.v_ptr) + bidb * params.v_batch_stride + bidh_k * params.v_head_stride;

    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) {
        const int last = (m_block + 1) * kBlockM + params.seqlen_k - params.seqlen_q;
        n_block_max = max(0, min(n_block_max, (last + kBlockN - 1) / kBlockN));
    }

    copy_tile<Traits, kBlockM>(sQ, gQ, params.q_row_stride, params.seqlen_q - m_block * kBlockM);
    cp_async_wait<0>();
    __syncthreads();
    uint32_t rQ[kD / 16][4];
#pragma unroll
    for (int k = 0; k < kD / 16; ++k)
        ldmatrix_x4<false>(rQ[k], sQ + (warp * 16 + lane % 16) * kS + k * 16 + lane / 16 * 8);

    float acc_o[kD / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
    const int row0 = m_block * kBlockM + warp * 16 + lane / 4;  // and row0 + 8

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        const int n0 = n_block * kBlockN;
        copy_tile<Traits, kBlockN>(sK, gK + n0 * params.k_row_stride, params.k_row_stride, params.seqlen_k - n0);
        copy_tile<Traits, kBlockN>(sV, gV + n0 * params.v_row_stride, params.v_row_stride, params.seqlen_k - n0);
        cp_async_wait<1>();  // K is there, V may still be under way
        __syncthreads();

        float acc_s[kBlockN / 8][4] = {};
#pragma unroll
        for (int k = 0; k < kD / 16; ++k)
#pragma unroll
            for (int j = 0; j < kBlockN / 16; ++j) {
                uint32_t rK[4];
                ldmatrix_x4<false>(rK, sK + (j * 16 + lane % 8 + lane / 16 * 8) * kS + k * 16 + (lane / 8 % 2) * 8);
                mma_16816(acc_s[2 * j], rQ[k], rK[0], rK[1]);
                mma_16816(acc_s[2 * j + 1], rQ[k], rK[2], rK[3]);
            }

#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int col = n0 + j * 8 + (lane % 4) * 2 + (i & 1);
                const int row = row0 + (i >> 1) * 8;
                if (col >= params.seqlen_k || (Is_causal && col > row + params.seqlen_k - params.seqlen_q))
                    acc_s[j][i] = -INFINITY;
            }

#pragma unroll
        for (int mi = 0; mi < 2; ++mi) {
            float m = row_max[mi];
#pragma unroll
            for (int j = 0; j < kBlockN / 8; ++j) m = fmaxf(m, fmaxf(acc_s[j][2 * mi], acc_s[j][2 * mi + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            const float m_scaled = m == -INFINITY ? 0.f : m * params.scale_softmax_log2;
            const float scale = exp2f(row_max[mi] * params.scale_softmax_log2 - m_scaled);
            row_max[mi] = m;
            row_sum[mi] *= scale;
#pragma unroll
            for (int j = 0; j < kD / 8; ++j) { acc_o[j][2 * mi] *= scale; acc_o[j][2 * mi + 1] *= scale; }
#pragma unroll
            for (int j = 0; j < kBlockN / 8; ++j)
#pragma unroll
                for (int i = 2 * mi; i < 2 * mi + 2; ++i) {
                    acc_s[j][i] = exp2f(acc_s[j][i] * params.scale_softmax_log2 - m_scaled);
                    row_sum[mi] += acc_s[j][i];
                }
        }

        cp_async_wait<0>();
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kBlockN / 16; ++k) {
            const uint32_t rP[4] = {pack(acc_s[2 * k][0], acc_s[2 * k][1]), pack(acc_s[2 * k][2], acc_s[2 * k][3]),
                                    pack(acc_s[2 * k + 1][0], acc_s[2 * k + 1][1]), pack(acc_s[2 * k + 1][2], acc_s[2 * k + 1][3])};
#pragma unroll
            for (int j = 0; j < kD / 16; ++j) {
                uint32_t rV[4];
                ldmatrix_x4<true>(rV, sV + (k * 16 + lane % 16) * kS + j * 16 + lane / 16 * 8);
                mma_16816(acc_o[2 * j], rP, rV[0], rV[1]);
                mma_16816(acc_o[2 * j + 1], rP, rV[2], rV[3]);
            }
        }
        __syncthreads();
    }

    half *gO = static_cast<half *>(params.o_ptr) + bidb * params.o_batch_stride + bidh * params.o_head_stride;
#pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        float sum = row_sum[mi];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        const float inv_sum = sum == 0.f ? 1.f : 1.f / sum;
        const int row = row0 + mi * 8;
        if (row >= params.seqlen_q) continue;
#pragma unroll
        for (int j = 0; j < kD / 8; ++j)
            *reinterpret_cast<half2 *>(gO + row * params.o_row_stride + j * 8 + (lane % 4) * 2) =
                __floats2half2_rn(acc_o[j][2 * mi] * inv_sum, acc_o[j][2 * mi + 1] * inv_sum);
        if (lane % 4 == 0)
            params.softmax_lse_ptr[(int64_t(bidb) * params.h + bidh) * params.seqlen_q + row] =
                sum == 0.f ? INFINITY : row_max[mi] * params.scale_softmax + logf(sum);
    }
}

}  // namespace flash

template <typename Traits, bool Is_causal>
void run_flash_fwd(Flash_fwd_params &params, cudaStream_t stream) {
    const int num_m_block = (params.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM;
    dim3 grid(num_m_block, params.b, params.h);
    auto kernel = &flash::flash_fwd_kernel<Traits, Is_causal>;
    if (Traits::kSmemSize >= 48 * 1024)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSmemSize);
    kernel<<<grid, Traits::kNThreads, Traits::kSmemSize, stream>>>(params);
}

void run_mha_fwd(Flash_fwd_params &params, cudaStream_t stream) {
    params.h_h_k_ratio = params.h / params.h_k;
    params.scale_softmax_log2 = params.scale_softmax * float(M_LOG2E);
    if (params.d == 64) {
        using Traits = flash::Kernel_traits<64, 64, 64>;
        params.is_causal ? run_flash_fwd<Traits, true>(params, stream) : run_flash_fwd<Traits, false>(params, stream);
    } else if (params.d == 128) {
        using Traits = flash::Kernel_traits<128, 64, 64>;
        params.is_causal ? run_flash_fwd<Traits, true>(params, stream) : run_flash_fwd<Traits, false>(params, stream);
    }
}
