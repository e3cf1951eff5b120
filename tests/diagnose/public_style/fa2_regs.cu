// FlashAttention-2 style forward: scores, probabilities and output in registers, bf16 mma.sync m16n8k16.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <iostream>
#include <stdexcept>

namespace fa2 {

#define CUDA_CHECK(call)                                                                    \
    do {                                                                                    \
        cudaError_t status_ = (call);                                                       \
        if (status_ != cudaSuccess) {                                                       \
            fprintf(stderr, "CUDA error (%s:%d): %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#define BOOL_SWITCH(COND, CONST_NAME, ...)         \
    [&] {                                          \
        if (COND) {                                \
            constexpr static bool CONST_NAME = true;  \
            return __VA_ARGS__();                  \
        } else {                                   \
            constexpr static bool CONST_NAME = false; \
            return __VA_ARGS__();                  \
        }                                          \
    }()

using bf16 = __nv_bfloat16;

struct Params {
    const bf16* __restrict__ q_ptr;
    const bf16* __restrict__ k_ptr;
    const bf16* __restrict__ v_ptr;
    bf16* __restrict__ o_ptr;
    float* __restrict__ softmax_lse_ptr;
    int64_t q_batch_stride, q_row_stride, q_head_stride;
    int64_t k_batch_stride, k_row_stride, k_head_stride;
    int64_t o_batch_stride, o_row_stride, o_head_stride;
    int b, h, h_k;
    int seqlen_q, seqlen_k;
    float scale_softmax_log2;
};

template <int kHeadDim_, int kBlockM_, int kBlockN_, int kNWarps_>
struct Traits {
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kBlockM = kBlockM_;
    static constexpr int kBlockN = kBlockN_;
    static constexpr int kNWarps = kNWarps_;
    static constexpr int kNThreads = kNWarps * 32;
    static constexpr int kPitch = kHeadDim + 8;
    static constexpr int kSmemSize = (kBlockM + 2 * kBlockN) * kPitch * sizeof(bf16);
    static_assert(kBlockM == kNWarps * 16, "a warp owns 16 rows");
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void* dst, const void* src, bool pred) {
    const int n = pred ? 16 : 0;  // the rest of the 16 bytes is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(n));
}
__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return reinterpret_cast<uint32_t&>(v);
}

template <int kThreadsPerRow, typename Op>
__device__ __forceinline__ float quad_reduce(float x, Op op) {
#pragma unroll
    for (int mask = kThreadsPerRow / 2; mask > 0; mask /= 2) x = op(x, __shfl_xor_sync(uint32_t(-1), x, mask));
    return x;
}

template <typename T, bool Is_causal>
__global__ void __launch_bounds__(T::kNThreads, 1) flash_fwd_kernel(const Params params) {
    extern __shared__ __align__(128) unsigned char smem_[];
    bf16* sQ = reinterpret_cast<bf16*>(smem_);
    bf16* sK = sQ + T::kBlockM * T::kPitch;
    bf16* sV = sK + T::kBlockN * T::kPitch;

    const int m_block = blockIdx.x;
    const int bidb = blockIdx.y;
    const int bidh = blockIdx.z;
    const int bidh_k = bidh / (params.h / params.h_k);
    const int tidx = threadIdx.x, warp = tidx / 32, lane = tidx % 32;

    const bf16* gQ = params.q_ptr + bidb * params.q_batch_stride + bidh * params.q_head_stride +
                     int64_t(m_block) * T::kBlockM * params.q_row_stride;
    const bf16* gK = params.k_ptr + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
    const bf16* gV = params.v_ptr + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;

    auto copy_tile = [&](bf16* dst, const bf16* src, int64_t row_stride, int rows, int valid) {
        constexpr int kChunks = T::kHeadDim / 8;
        for (int i = tidx; i < rows * kChunks; i += T::kNThreads) {
            const int r = i / kChunks, c = (i % kChunks) * 8;
            cp_async16(dst + r * T::kPitch + c, src + int64_t(min(r, valid - 1)) * row_stride + c, r < valid);
        }
    };

    int n_block_max = (params.seqlen_k + T::kBlockN - 1) / T::kBlockN;
    if constexpr (Is_causal) {
        // aligned to the bottom right corner
        const int last = (m_block + 1) * T::kBlockM + params.seqlen_k - params.seqlen_q;
        n_block_max = min(n_block_max, (last + T::kBlockN - 1) / T::kBlockN);
    }

    copy_tile(sQ, gQ, params.q_row_stride, T::kBlockM, min(T::kBlockM, params.seqlen_q - m_block * T::kBlockM));
    int n_block = n_block_max - 1;
    auto kv_rows = [&](int n) { return min(T::kBlockN, params.seqlen_k - n * T::kBlockN); };
    copy_tile(sK, gK + int64_t(n_block) * T::kBlockN * params.k_row_stride, params.k_row_stride, T::kBlockN,
              kv_rows(n_block));
    cp_async_fence();

    float acc_o[T::kHeadDim / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const int row0 = m_block * T::kBlockM + warp * 16 + lane / 4;

    // keys from the last block to the first
    for (; n_block >= 0; --n_block) {
        cp_async_wait<0>();
        __syncthreads();
        copy_tile(sV, gV + int64_t(n_block) * T::kBlockN * params.k_row_stride, params.k_row_stride, T::kBlockN,
                  kv_rows(n_block));
        cp_async_fence();

        float acc_s[T::kBlockN / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < T::kHeadDim / 16; ++kk) {
            uint32_t a[4];
            ldsm_x4(a, sQ + (warp * 16 + (lane & 15)) * T::kPitch + kk * 16 + (lane >> 4) * 8);
#pragma unroll
            for (int nn = 0; nn < T::kBlockN / 16; ++nn) {
                uint32_t b[4];
                ldsm_x4(b, sK + (nn * 16 + (lane & 7) + ((lane >> 4) << 3)) * T::kPitch + kk * 16 + ((lane >> 3) & 1) * 8);
                mma_bf16(acc_s[2 * nn], a, b[0], b[1]);
                mma_bf16(acc_s[2 * nn + 1], a, b[2], b[3]);
            }
        }

        const bool edge = (n_block + 1) * T::kBlockN > params.seqlen_k;
        if (Is_causal || edge) {
#pragma unroll
            for (int nn = 0; nn < T::kBlockN / 8; ++nn) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int col = n_block * T::kBlockN + nn * 8 + (lane & 3) * 2 + (i & 1);
                    const int row = row0 + (i >> 1) * 8;
                    bool masked = col >= params.seqlen_k;
                    if constexpr (Is_causal) masked |= col > row + params.seqlen_k - params.seqlen_q;
                    if (masked) acc_s[nn][i] = -INFINITY;
                }
            }
        }

        cp_async_wait<0>();
        __syncthreads();
        if (n_block > 0) {
            copy_tile(sK, gK + int64_t(n_block - 1) * T::kBlockN * params.k_row_stride, params.k_row_stride,
                      T::kBlockN, kv_rows(n_block - 1));
            cp_async_fence();
        }

        // softmax and rescale
#pragma unroll
        for (int mi = 0; mi < 2; ++mi) {
            float mx = row_max[mi];
#pragma unroll
            for (int nn = 0; nn < T::kBlockN / 8; ++nn)
                mx = fmaxf(mx, fmaxf(acc_s[nn][mi * 2], acc_s[nn][mi * 2 + 1]));
            mx = quad_reduce<4>(mx, [](float x, float y) { return fmaxf(x, y); });
            const float mx_scaled = mx == -INFINITY ? 0.f : mx * params.scale_softmax_log2;
            const float factor = exp2f(row_max[mi] * params.scale_softmax_log2 - mx_scaled);
            row_max[mi] = mx;
            row_sum[mi] *= factor;
#pragma unroll
            for (int nn = 0; nn < T::kBlockN / 8; ++nn) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float& s = acc_s[nn][mi * 2 + j];
                    s = exp2f(s * params.scale_softmax_log2 - mx_scaled);
                    row_sum[mi] += s;
                }
            }
#pragma unroll
            for (int dd = 0; dd < T::kHeadDim / 8; ++dd) {
                acc_o[dd][mi * 2] *= factor;
                acc_o[dd][mi * 2 + 1] *= factor;
            }
        }

        // O += P V
#pragma unroll
        for (int kk = 0; kk < T::kBlockN / 16; ++kk) {
            uint32_t p[4] = {pack(acc_s[2 * kk][0], acc_s[2 * kk][1]), pack(acc_s[2 * kk][2], acc_s[2 * kk][3]),
                             pack(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]),
                             pack(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3])};
#pragma unroll
            for (int dd = 0; dd < T::kHeadDim / 16; ++dd) {
                uint32_t b[4];
                ldsm_x4_t(b, sV + (kk * 16 + (lane & 15)) * T::kPitch + dd * 16 + (lane >> 4) * 8);
                mma_bf16(acc_o[2 * dd], p, b[0], b[1]);
                mma_bf16(acc_o[2 * dd + 1], p, b[2], b[3]);
            }
        }
    }

    // epilogue
#pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        const float sum = quad_reduce<4>(row_sum[mi], [](float x, float y) { return x + y; });
        const float inv = sum == 0.f ? 1.f : 1.f / sum;
        const int row = row0 + mi * 8;
        if (row >= params.seqlen_q) continue;
        bf16* o = params.o_ptr + bidb * params.o_batch_stride + bidh * params.o_head_stride + row * params.o_row_stride;
#pragma unroll
        for (int dd = 0; dd < T::kHeadDim / 8; ++dd) {
            const uint32_t v = pack(acc_o[dd][mi * 2] * inv, acc_o[dd][mi * 2 + 1] * inv);
            *reinterpret_cast<uint32_t*>(o + dd * 8 + (lane & 3) * 2) = v;
        }
        if ((lane & 3) == 0)
            params.softmax_lse_ptr[(int64_t(bidb) * params.h + bidh) * params.seqlen_q + row] =
                sum == 0.f ? INFINITY : row_max[mi] * params.scale_softmax_log2 * 0.69314718f + __logf(sum);
    }
}

template <typename T>
void run(const Params& params, bool is_causal, cudaStream_t stream) {
    const dim3 grid((params.seqlen_q + T::kBlockM - 1) / T::kBlockM, params.b, params.h);
    BOOL_SWITCH(is_causal, Is_causal, [&] {
        auto kernel = &flash_fwd_kernel<T, Is_causal>;
        if (T::kSmemSize >= 48 * 1024) {
            CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSmemSize));
        }
        kernel<<<grid, T::kNThreads, T::kSmemSize, stream>>>(params);
        CUDA_CHECK(cudaGetLastError());
    });
}

void mha_fwd(const bf16* q, const bf16* k, const bf16* v, bf16* o, float* lse, int b, int h, int h_k, int sq, int sk,
             int d, bool causal, cudaStream_t stream) {
    Params params = {};
    params.q_ptr = q;
    params.k_ptr = k;
    params.v_ptr = v;
    params.o_ptr = o;
    params.softmax_lse_ptr = lse;
    params.q_row_stride = params.o_row_stride = int64_t(h) * d;
    params.q_head_stride = params.o_head_stride = d;
    params.q_batch_stride = params.o_batch_stride = int64_t(sq) * h * d;
    params.k_row_stride = int64_t(h_k) * d;
    params.k_head_stride = d;
    params.k_batch_stride = int64_t(sk) * h_k * d;
    params.b = b;
    params.h = h;
    params.h_k = h_k;
    params.seqlen_q = sq;
    params.seqlen_k = sk;
    params.scale_softmax_log2 = 1.f / sqrtf(float(d)) * 1.44269504f;
    if (d == 64) run<Traits<64, 64, 64, 4>>(params, causal, stream);
    else if (d == 128) run<Traits<128, 64, 64, 4>>(params, causal, stream);
    else throw std::runtime_error("head dimension " + std::to_string(d) + " is not supported");
}

}  // namespace fa2
