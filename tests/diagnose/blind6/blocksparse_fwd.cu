// Block-sparse attention, forward (BigBird / sparse-transformer style layouts), fp16, head dim 64.
//
// The layout is a CSR list shared by all heads: query block i (64 rows) attends to the key blocks (32 keys)
// col_idx[row_ptr[i]] ... col_idx[row_ptr[i + 1] - 1]. Scores, probabilities and output stay in registers
// (mma.m16n8k16); K arrives by cp.async while nothing else is to do, V while the scores are being computed.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DEVICE_INLINE __device__ __forceinline__

constexpr int kQueryBlock = 64;
constexpr int kKeyBlock = 32;
constexpr int kHeadDim = 64;
constexpr int kPad = 8;
constexpr int kRowPitch = kHeadDim + kPad;
constexpr int kNumThreads = 128;

DEVICE_INLINE uint32_t shared_address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

DEVICE_INLINE void async_16(void *dst, const void *src, bool pred) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)), "l"(src), "r"(pred ? 16 : 0));
}
DEVICE_INLINE void async_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> DEVICE_INLINE void async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

DEVICE_INLINE void ldsm4(uint32_t (&r)[4], const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
DEVICE_INLINE void ldsm4_t(uint32_t (&r)[4], const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
DEVICE_INLINE void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE_INLINE uint32_t pack_half2(float x, float y) {
    half2 h = __floats2half2_rn(x, y);
    return *reinterpret_cast<uint32_t *>(&h);
}
DEVICE_INLINE float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}
DEVICE_INLINE float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// tensors are [batch, seq, heads, 64]
__global__ void __launch_bounds__(kNumThreads)
blocksparse_attention_kernel(const half *__restrict__ Q, const half *__restrict__ K, const half *__restrict__ V,
                             half *__restrict__ Out, const int *__restrict__ row_ptr, const int *__restrict__ col_idx,
                             int seq, int heads, float scale_log2e) {
    __shared__ __align__(16) half k_smem[kKeyBlock][kRowPitch];
    __shared__ __align__(16) half v_smem[kKeyBlock][kRowPitch];

    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int quad = lane >> 2, in_quad = lane & 3;
    const int q_block = blockIdx.x;
    const int64_t token_stride = (int64_t)heads * kHeadDim;
    const int64_t base = (int64_t)blockIdx.z * seq * token_stride + blockIdx.y * kHeadDim;
    const int row_lo = q_block * kQueryBlock + warp * 16 + quad, row_hi = row_lo + 8;

    // Q straight into operand registers
    uint32_t q_frag[4][4];
    for (int kk = 0; kk < 4; ++kk) {
        for (int r = 0; r < 4; ++r) {
            const int row = r & 1 ? row_hi : row_lo;
            const int col = kk * 16 + in_quad * 2 + (r & 2 ? 8 : 0);
            q_frag[kk][r] = row < seq ? *reinterpret_cast<const uint32_t *>(Q + base + row * token_stride + col) : 0u;
        }
    }

    auto fetch = [&](half (*tile)[kRowPitch], const half *src, int key0) {
        for (int i = tid; i < kKeyBlock * kHeadDim / 8; i += kNumThreads) {
            const int r = i >> 3, c = (i & 7) * 8;
            const bool in = key0 + r < seq;
            async_16(&tile[r][c], in ? src + base + (key0 + r) * token_stride + c : src, in);
        }
        async_commit();
    };

    float o[8][4] = {};
    float max_lo = -INFINITY, max_hi = -INFINITY, sum_lo = 0.f, sum_hi = 0.f;

    for (int nz = row_ptr[q_block]; nz < row_ptr[q_block + 1]; ++nz) {
        const int key0 = col_idx[nz] * kKeyBlock;
        fetch(k_smem, K, key0);
        fetch(v_smem, V, key0);
        async_wait<1>();
        __syncthreads();

        float s[4][4] = {};
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                uint32_t b[4];
                ldsm4(b, &k_smem[n * 16 + (lane >> 4) * 8 + (lane & 7)][kk * 16 + (lane >> 3 & 1) * 8]);
                mma_f16(s[2 * n], q_frag[kk], b[0], b[1]);
                mma_f16(s[2 * n + 1], q_frag[kk], b[2], b[3]);
            }
        }

        float new_lo = max_lo, new_hi = max_hi;
        for (int j = 0; j < 4; ++j) {
            for (int e = 0; e < 4; ++e) {
                const int key = key0 + j * 8 + in_quad * 2 + (e & 1);
                s[j][e] = key < seq ? s[j][e] * scale_log2e : -INFINITY;
            }
            new_lo = fmaxf(new_lo, fmaxf(s[j][0], s[j][1]));
            new_hi = fmaxf(new_hi, fmaxf(s[j][2], s[j][3]));
        }
        new_lo = quad_max(new_lo);
        new_hi = quad_max(new_hi);
        const float fix_lo = exp2f(max_lo - new_lo), fix_hi = exp2f(max_hi - new_hi);
        max_lo = new_lo;
        max_hi = new_hi;
        sum_lo *= fix_lo;
        sum_hi *= fix_hi;
        for (int j = 0; j < 8; ++j) {
            o[j][0] *= fix_lo;
            o[j][1] *= fix_lo;
            o[j][2] *= fix_hi;
            o[j][3] *= fix_hi;
        }
        for (int j = 0; j < 4; ++j) {
            s[j][0] = exp2f(s[j][0] - max_lo);
            s[j][1] = exp2f(s[j][1] - max_lo);
            s[j][2] = exp2f(s[j][2] - max_hi);
            s[j][3] = exp2f(s[j][3] - max_hi);
            sum_lo += s[j][0] + s[j][1];
            sum_hi += s[j][2] + s[j][3];
        }

        async_wait<0>();
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            const uint32_t p[4] = {pack_half2(s[2 * kk][0], s[2 * kk][1]), pack_half2(s[2 * kk][2], s[2 * kk][3]),
                                   pack_half2(s[2 * kk + 1][0], s[2 * kk + 1][1]),
                                   pack_half2(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
            for (int d = 0; d < 4; ++d) {
                uint32_t b[4];
                ldsm4_t(b, &v_smem[kk * 16 + (lane & 15)][d * 16 + (lane >> 4) * 8]);
                mma_f16(o[2 * d], p, b[0], b[1]);
                mma_f16(o[2 * d + 1], p, b[2], b[3]);
            }
        }
        __syncthreads();  // all have read K and V
    }

    sum_lo = quad_sum(sum_lo);
    sum_hi = quad_sum(sum_hi);
    const float inv_lo = sum_lo > 0.f ? 1.f / sum_lo : 0.f, inv_hi = sum_hi > 0.f ? 1.f / sum_hi : 0.f;
    for (int j = 0; j < 8; ++j) {
        half *to = Out + base + j * 8 + in_quad * 2;
        if (row_lo < seq)
            *reinterpret_cast<half2 *>(to + row_lo * token_stride) = __floats2half2_rn(o[j][0] * inv_lo, o[j][1] * inv_lo);
        if (row_hi < seq)
            *reinterpret_cast<half2 *>(to + row_hi * token_stride) = __floats2half2_rn(o[j][2] * inv_hi, o[j][3] * inv_hi);
    }
}

void blocksparse_attention(const half *q, const half *k, const half *v, half *out, const int *row_ptr,
                           const int *col_idx, int batch, int seq, int heads, cudaStream_t stream) {
    const float scale_log2e = 0.125f * 1.4426950408889634f;
    dim3 grid((seq + kQueryBlock - 1) / kQueryBlock, heads, batch);
    blocksparse_attention_kernel<<<grid, kNumThreads, 0, stream>>>(q, k, v, out, row_ptr, col_idx, seq, heads, scale_log2e);
}
