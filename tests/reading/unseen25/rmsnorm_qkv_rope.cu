// rmsnorm_qkv_rope.cu
//
// Front half of a decoder layer, two launches instead of five:
//
//   1. qkv = rmsnorm(hidden, gamma, eps) @ w_qkv^T         (the norm is folded into the GEMM's A tile)
//   2. q, k = rope(q, k, positions)  in place              (GPT-NeoX halves: i pairs with i + head_dim/2)
//
// hidden [num_tokens, hidden_size] bf16, w_qkv [(nq + 2 * nkv) * head_dim, hidden_size] bf16,
// qkv    [num_tokens, (nq + 2 * nkv) * head_dim] bf16, v is left alone by step 2.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

struct QkvRopeParams {
    const __nv_bfloat16* hidden;
    const __nv_bfloat16* gamma;
    const __nv_bfloat16* w_qkv;
    const int32_t* positions;
    __nv_bfloat16* qkv;
    int num_tokens;
    int hidden_size;   // multiple of 32
    int num_q_heads;
    int num_kv_heads;
    int head_dim;      // multiple of 16
    float rms_eps;
    float rope_theta;
};

#define TOKENS_PER_CTA 16
#define COLS_PER_CTA   64
#define K_STEP         32
#define SKEW           8
#define CTA_THREADS    128

__device__ __forceinline__ float warp_sum(float x) {
    #pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1)
        x += __shfl_xor_sync(0xffffffff, x, mask);
    return x;
}

__device__ __forceinline__ void ldmatrix_a(uint32_t* a, const __nv_bfloat16* p) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_b(uint32_t* b, const __nv_bfloat16* p) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(addr));
}

__device__ __forceinline__ void mma_m16n8k16(float* c, const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 16 tokens x 64 columns a CTA, each of the four warps has 16 columns
__global__ void __launch_bounds__(CTA_THREADS)
rmsnorm_qkv_gemm_kernel(const QkvRopeParams p) {
    __shared__ __align__(16) __nv_bfloat16 a_tile[TOKENS_PER_CTA][K_STEP + SKEW];
    __shared__ __align__(16) __nv_bfloat16 b_tile[COLS_PER_CTA][K_STEP + SKEW];
    __shared__ float inv_rms[TOKENS_PER_CTA];

    const int token0 = blockIdx.x * TOKENS_PER_CTA;
    const int col0   = blockIdx.y * COLS_PER_CTA;
    const int n_cols = (p.num_q_heads + 2 * p.num_kv_heads) * p.head_dim;
    const int warp   = threadIdx.x >> 5;
    const int lane   = threadIdx.x & 31;

    // pass over the rows first: 1 / rms of each token
    for (int t = warp; t < TOKENS_PER_CTA; t += CTA_THREADS / 32) {
        float ss = 0.f;
        if (token0 + t < p.num_tokens) {
            const __nv_bfloat16* row = p.hidden + (size_t)(token0 + t) * p.hidden_size;
            for (int i = lane; i < p.hidden_size; i += 32) {
                const float x = __bfloat162float(row[i]);
                ss += x * x;
            }
        }
        ss = warp_sum(ss);
        if (lane == 0) inv_rms[t] = rsqrtf(ss / p.hidden_size + p.rms_eps);
    }
    __syncthreads();

    float c[2][4] = {{0.f}};
    for (int k0 = 0; k0 < p.hidden_size; k0 += K_STEP) {
        // A: normalised on the way in
        for (int i = threadIdx.x; i < TOKENS_PER_CTA * K_STEP; i += CTA_THREADS) {
            const int t = i / K_STEP, k = i % K_STEP;
            float x = 0.f;
            if (token0 + t < p.num_tokens)
                x = __bfloat162float(p.hidden[(size_t)(token0 + t) * p.hidden_size + k0 + k]) * inv_rms[t] *
                    __bfloat162float(p.gamma[k0 + k]);
            a_tile[t][k] = __float2bfloat16(x);
        }
        // B: 64 rows of w_qkv, 16 bytes a thread and turn
        for (int i = threadIdx.x; i < COLS_PER_CTA * K_STEP / 8; i += CTA_THREADS) {
            const int n = i / (K_STEP / 8), k = (i % (K_STEP / 8)) * 8;
            uint4 w = {0u, 0u, 0u, 0u};
            if (col0 + n < n_cols)
                w = *reinterpret_cast<const uint4*>(p.w_qkv + (size_t)(col0 + n) * p.hidden_size + k0 + k);
            *reinterpret_cast<uint4*>(&b_tile[n][k]) = w;
        }
        __syncthreads();

        #pragma unroll
        for (int kk = 0; kk < K_STEP; kk += 16) {
            uint32_t a[4];
            ldmatrix_a(a, &a_tile[lane & 15][kk + (lane >> 4) * 8]);
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                uint32_t b[2];
                ldmatrix_b(b, &b_tile[warp * 16 + j * 8 + (lane & 7)][kk + ((lane >> 3) & 1) * 8]);
                mma_m16n8k16(c[j], a, b);
            }
        }
        __syncthreads();
    }

    #pragma unroll
    for (int j = 0; j < 2; ++j) {
        const int col = col0 + warp * 16 + j * 8 + (lane & 3) * 2;
        const int row = token0 + (lane >> 2);
        if (col >= n_cols) continue;
        if (row < p.num_tokens)
            *reinterpret_cast<__nv_bfloat162*>(p.qkv + (size_t)row * n_cols + col) = __floats2bfloat162_rn(c[j][0], c[j][1]);
        if (row + 8 < p.num_tokens)
            *reinterpret_cast<__nv_bfloat162*>(p.qkv + (size_t)(row + 8) * n_cols + col) = __floats2bfloat162_rn(c[j][2], c[j][3]);
    }
}

// one CTA per token; the heads of q and of k lie side by side, so both are one loop
__global__ void rope_inplace_kernel(const QkvRopeParams p) {
    const int token  = blockIdx.x;
    const int half_d = p.head_dim / 2;
    const int heads  = p.num_q_heads + p.num_kv_heads;
    const float pos  = (float)p.positions[token];
    __nv_bfloat16* row = p.qkv + (size_t)token * (p.num_q_heads + 2 * p.num_kv_heads) * p.head_dim;

    for (int i = threadIdx.x; i < heads * half_d; i += blockDim.x) {
        const int head = i / half_d, d = i % half_d;
        const float inv_freq = powf(p.rope_theta, -2.f * d / p.head_dim);
        float sin_v, cos_v;
        sincosf(pos * inv_freq, &sin_v, &cos_v);
        __nv_bfloat16* x = row + head * p.head_dim;
        const float x0 = __bfloat162float(x[d]);
        const float x1 = __bfloat162float(x[d + half_d]);
        x[d]          = __float2bfloat16(x0 * cos_v - x1 * sin_v);
        x[d + half_d] = __float2bfloat16(x1 * cos_v + x0 * sin_v);
    }
}

extern "C" void launch_rmsnorm_qkv_rope(const QkvRopeParams* params, cudaStream_t stream) {
    const QkvRopeParams& p = *params;
    const int n_cols = (p.num_q_heads + 2 * p.num_kv_heads) * p.head_dim;
    const dim3 grid((p.num_tokens + TOKENS_PER_CTA - 1) / TOKENS_PER_CTA, (n_cols + COLS_PER_CTA - 1) / COLS_PER_CTA);
    rmsnorm_qkv_gemm_kernel<<<grid, CTA_THREADS, 0, stream>>>(p);
    rope_inplace_kernel<<<p.num_tokens, 128, 0, stream>>>(p);
}
