// 8-bit attention in the manner of SageAttention: Q and K come as int8 with one scale per block of tokens,
// S = Q K^T on the integer tensor cores, softmax in float, P and V in half.
//   q, k      int8   [batch, seq, heads, 64]      ("NHD")
//   v, o      half   [batch, seq, heads, 64]
//   q_scale   float  [batch, heads, ceil(qo_len / 64)]
//   k_scale   float  [batch, heads, ceil(kv_len / 32)]
// CTA: 64 queries of one head, 4 warps x 16 rows; 32 keys per step.
#include <cuda_fp16.h>
#include <stdint.h>

namespace sage8 {

constexpr int CTA_Q = 64;
constexpr int CTA_K = 32;
constexpr int HEAD  = 64;
constexpr int PK    = HEAD + 16;   // bytes of a row of K in shared memory
constexpr int PV    = HEAD + 8;    // halves of a row of V
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void load_128b_async(void* smem, const void* gmem, bool pred)
{
    const int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(smem)), "l"(gmem), "r"(bytes));
}
__device__ __forceinline__ void commit_group() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void wait_group() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void mma_s8(int32_t* c, const uint32_t* a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_f16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t* r, const void* p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}

__device__ __forceinline__ uint32_t pack_half2(float lo, float hi)
{
    half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&h);
}

enum class MaskMode { kNone, kCausal };

template <MaskMode mask_mode>
__global__ void __launch_bounds__(128)
qk_int8_sv_f16_attn(const int8_t* __restrict__ q, const int8_t* __restrict__ k, const half* __restrict__ v,
                    half* __restrict__ o, const float* __restrict__ q_scale, const float* __restrict__ k_scale,
                    int qo_len, int kv_len, int num_heads, float sm_scale)
{
    __shared__ __align__(16) int8_t sK[CTA_K * PK];
    __shared__ __align__(16) half sV[CTA_K * PV];

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int gid = lane / 4, tig = lane % 4;
    const int bx = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const int stride_seq = num_heads * HEAD;

    const int8_t* q_ptr = q + ((size_t)batch * qo_len * num_heads + head) * HEAD;
    const int8_t* k_ptr = k + ((size_t)batch * kv_len * num_heads + head) * HEAD;
    const half*   v_ptr = v + ((size_t)batch * kv_len * num_heads + head) * HEAD;

    const int num_q_blocks = (qo_len + CTA_Q - 1) / CTA_Q;
    const int num_k_blocks = (kv_len + CTA_K - 1) / CTA_K;
    const float qs = q_scale[(batch * num_heads + head) * num_q_blocks + bx];
    const float* ks = k_scale + (batch * num_heads + head) * num_k_blocks;

    auto load_K = [&](int key0) {
        for (int i = threadIdx.x; i < CTA_K * (HEAD / 16); i += 128) {
            const int r = i / (HEAD / 16), c = (i % (HEAD / 16)) * 16;
            const bool in = key0 + r < kv_len;
            load_128b_async(&sK[r * PK + c], in ? k_ptr + (size_t)(key0 + r) * stride_seq + c : k, in);
        }
        commit_group();
    };
    auto load_V = [&](int key0) {
        for (int i = threadIdx.x; i < CTA_K * (HEAD / 8); i += 128) {
            const int r = i / (HEAD / 8), c = (i % (HEAD / 8)) * 8;
            const bool in = key0 + r < kv_len;
            load_128b_async(&sV[r * PV + c], in ? v_ptr + (size_t)(key0 + r) * stride_seq + c : v, in);
        }
        commit_group();
    };

    // Q never leaves the registers
    const int row0 = bx * CTA_Q + warp * 16 + gid;
    const int row1 = row0 + 8;
    uint32_t rQ[HEAD / 32][4];
    for (int kk = 0; kk < HEAD / 32; kk++) {
        const int c = kk * 32 + tig * 4;
        rQ[kk][0] = row0 < qo_len ? *(const uint32_t*)(q_ptr + (size_t)row0 * stride_seq + c) : 0u;
        rQ[kk][1] = row1 < qo_len ? *(const uint32_t*)(q_ptr + (size_t)row1 * stride_seq + c) : 0u;
        rQ[kk][2] = row0 < qo_len ? *(const uint32_t*)(q_ptr + (size_t)row0 * stride_seq + c + 16) : 0u;
        rQ[kk][3] = row1 < qo_len ? *(const uint32_t*)(q_ptr + (size_t)row1 * stride_seq + c + 16) : 0u;
    }

    float rO[HEAD / 8][4] = {};
    float m[2] = {-5e4f, -5e4f};
    float d[2] = {1.0f, 1.0f};       // a row starts as if it had one key with score m; it is rescaled to nothing

    int num_iters = num_k_blocks;
    if (mask_mode == MaskMode::kCausal)
        num_iters = min(num_iters, ((bx + 1) * CTA_Q + CTA_K - 1) / CTA_K);

    load_K(0);
    load_V(0);

    for (int iter = 0; iter < num_iters; iter++) {
        const int key0 = iter * CTA_K;
        wait_group<1>();             // K is there, V may still be on its way
        __syncthreads();

        int32_t rS[CTA_K / 8][4] = {};
#pragma unroll
        for (int kk = 0; kk < HEAD / 32; kk++)
#pragma unroll
            for (int n = 0; n < CTA_K / 8; n++) {
                const int8_t* p = &sK[(n * 8 + gid) * PK + kk * 32 + tig * 4];
                mma_s8(rS[n], rQ[kk], *(const uint32_t*)p, *(const uint32_t*)(p + 16));
            }
        __syncthreads();
        if (iter + 1 < num_iters) load_K(key0 + CTA_K);

        const float dequant = qs * ks[iter] * sm_scale * LOG2E;
        float rP[CTA_K / 8][4];
        float m_new[2] = {m[0], m[1]};
#pragma unroll
        for (int n = 0; n < CTA_K / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int key = key0 + n * 8 + tig * 2 + (e & 1);
                const int row = e < 2 ? row0 : row1;
                bool out = key >= kv_len;
                if (mask_mode == MaskMode::kCausal) out |= key > row;
                rP[n][e] = out ? -5e4f : __int2float_rn(rS[n][e]) * dequant;
                m_new[e / 2] = fmaxf(m_new[e / 2], rP[n][e]);
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            m_new[h] = fmaxf(m_new[h], __shfl_xor_sync(0xffffffff, m_new[h], 1));
            m_new[h] = fmaxf(m_new[h], __shfl_xor_sync(0xffffffff, m_new[h], 2));
            const float o_scale = exp2f(m[h] - m_new[h]);
            m[h] = m_new[h];
            d[h] *= o_scale;
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++) {
                rO[n][2 * h] *= o_scale;
                rO[n][2 * h + 1] *= o_scale;
            }
        }

        // d is this lane's share of the row; the four lanes are added up at the very end
        uint32_t rP16[CTA_K / 16][4];
#pragma unroll
        for (int n = 0; n < CTA_K / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                rP[n][e] = exp2f(rP[n][e] - m[e / 2]);
                d[e / 2] += rP[n][e];
            }
            rP16[n / 2][(n % 2) * 2 + 0] = pack_half2(rP[n][0], rP[n][1]);
            rP16[n / 2][(n % 2) * 2 + 1] = pack_half2(rP[n][2], rP[n][3]);
        }

        if (iter + 1 < num_iters) wait_group<1>();
        else                      wait_group<0>();
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < CTA_K / 16; kk++)
#pragma unroll
            for (int n = 0; n < HEAD / 16; n++) {
                uint32_t rV[4];
                ldmatrix_x4_trans(rV, &sV[(kk * 16 + lane % 16) * PV + n * 16 + (lane / 16) * 8]);
                mma_f16(rO[2 * n], rP16[kk], rV[0], rV[1]);
                mma_f16(rO[2 * n + 1], rP16[kk], rV[2], rV[3]);
            }
        __syncthreads();
        if (iter + 1 < num_iters) load_V(key0 + CTA_K);
    }

    half* o_ptr = o + ((size_t)batch * qo_len * num_heads + head) * HEAD;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        d[h] += __shfl_xor_sync(0xffffffff, d[h], 1);
        d[h] += __shfl_xor_sync(0xffffffff, d[h], 2);
        const float inv = 1.0f / d[h];
        const int row = h == 0 ? row0 : row1;
        if (row >= qo_len) continue;
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(uint32_t*)(o_ptr + (size_t)row * stride_seq + n * 8 + tig * 2) =
                pack_half2(rO[n][2 * h] * inv, rO[n][2 * h + 1] * inv);
    }
}

template __global__ void qk_int8_sv_f16_attn<MaskMode::kCausal>(const int8_t*, const int8_t*, const half*, half*,
                                                                const float*, const float*, int, int, int, float);

}  // namespace sage8
