// Fused decoder-layer prologue:  qkv = x @ Wqkv^T + b,  RoPE on q and k,  k and v written straight into the paged cache.
//
//   hidden_states   [num_tokens, hidden]                             bf16
//   qkv_weight      [(num_heads + 2 * num_kv_heads) * 64, hidden]    bf16   (q heads, then k heads, then v heads)
//   qkv_bias        [(num_heads + 2 * num_kv_heads) * 64]            bf16
//   cos_sin_cache   [max_position, 64]                               fp32   (32 cosines, then 32 sines)
//   positions, slot_mapping [num_tokens]                             slot = block * block_size + offset, -1: padding
//   q_out           [num_tokens, num_heads, 64]                      bf16
//   k_cache         [num_blocks, num_kv_heads, block_size, 64]       bf16
//   v_cache         [num_blocks, num_kv_heads, 64, block_size]       bf16   (transposed, for the P*V product)
//
// grid = (num_heads + 2 * num_kv_heads, ceil(num_tokens / 32)), one head of 32 tokens per block, 128 threads.
#include <cuda_bf16.h>
#include <mma.h>

namespace infer {
namespace kernels {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

static constexpr int kHeadDim = 64;
static constexpr int kRotHalf = kHeadDim / 2;
static constexpr int kTokens = 32;   // tokens per block
static constexpr int kHidden = 64;   // slice of the hidden dimension per step
static constexpr int kLdt = kHidden + 16;
static constexpr int kLdc = kHeadDim + 4;

struct __align__(16) bf16x8 {
    __nv_bfloat162 v[4];
};

__device__ inline bf16x8 zero8() {
    bf16x8 z;
#pragma unroll
    for (int i = 0; i < 4; ++i) z.v[i] = __floats2bfloat162_rn(0.f, 0.f);
    return z;
}

__global__ void qkv_rope_cache_kernel(const __nv_bfloat16* __restrict__ hidden_states,
                                      const __nv_bfloat16* __restrict__ qkv_weight,
                                      const __nv_bfloat16* __restrict__ qkv_bias,
                                      const float* __restrict__ cos_sin_cache,
                                      const int* __restrict__ positions,
                                      const int* __restrict__ slot_mapping,
                                      __nv_bfloat16* __restrict__ q_out,
                                      __nv_bfloat16* __restrict__ k_cache,
                                      __nv_bfloat16* __restrict__ v_cache,
                                      const int num_tokens,
                                      const int hidden,
                                      const int num_heads,
                                      const int num_kv_heads,
                                      const int block_size) {
    __shared__ __align__(32) __nv_bfloat16 sx[kTokens][kLdt];
    __shared__ __align__(32) __nv_bfloat16 sw[kHeadDim][kLdt];
    __shared__ __align__(32) float sc[kTokens][kLdc];

    const int head = blockIdx.x;
    const int token0 = blockIdx.y * kTokens;
    const int warp_id = threadIdx.x >> 5;
    const int warp_row = (warp_id >> 1) * 16;   // 2 x 2 warps, 16 x 32 each
    const int warp_col = (warp_id & 1) * 32;

    const __nv_bfloat16* w_head = qkv_weight + (size_t)head * kHeadDim * hidden;

    fragment<accumulator, 16, 16, 16, float> acc[2];
    nvcuda::wmma::fill_fragment(acc[0], 0.f);
    nvcuda::wmma::fill_fragment(acc[1], 0.f);

    for (int k0 = 0; k0 < hidden; k0 += kHidden) {
        for (int i = threadIdx.x; i < kTokens * kHidden / 8; i += blockDim.x) {
            const int r = i / (kHidden / 8);
            const int c = (i % (kHidden / 8)) * 8;
            const bool ok = token0 + r < num_tokens && k0 + c < hidden;
            *reinterpret_cast<bf16x8*>(&sx[r][c]) =
                ok ? *reinterpret_cast<const bf16x8*>(hidden_states + (size_t)(token0 + r) * hidden + k0 + c) : zero8();
        }
        for (int i = threadIdx.x; i < kHeadDim * kHidden / 8; i += blockDim.x) {
            const int r = i / (kHidden / 8);
            const int c = (i % (kHidden / 8)) * 8;
            *reinterpret_cast<bf16x8*>(&sw[r][c]) =
                k0 + c < hidden ? *reinterpret_cast<const bf16x8*>(w_head + (size_t)r * hidden + k0 + c) : zero8();
        }
        __syncthreads();

#pragma unroll
        for (int kk = 0; kk < kHidden; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a;
            nvcuda::wmma::load_matrix_sync(a, &sx[warp_row][kk], kLdt);
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> b;
                nvcuda::wmma::load_matrix_sync(b, &sw[warp_col + j * 16][kk], kLdt);
                nvcuda::wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    nvcuda::wmma::store_matrix_sync(&sc[warp_row][warp_col], acc[0], kLdc, nvcuda::wmma::mem_row_major);
    nvcuda::wmma::store_matrix_sync(&sc[warp_row][warp_col + 16], acc[1], kLdc, nvcuda::wmma::mem_row_major);
    __syncthreads();

    const __nv_bfloat16* bias = qkv_bias + head * kHeadDim;
    const bool is_q = head < num_heads;
    const bool is_v = head >= num_heads + num_kv_heads;
    const int kv_head = is_v ? head - num_heads - num_kv_heads : head - num_heads;

    // One thread per pair (d, d + 32) of a token: NeoX style rotation.
    for (int i = threadIdx.x; i < kTokens * kRotHalf; i += blockDim.x) {
        const int r = i / kRotHalf;
        const int d = i % kRotHalf;
        const int token = token0 + r;
        if (token >= num_tokens) break;

        float x1 = sc[r][d] + __bfloat162float(bias[d]);
        float x2 = sc[r][d + kRotHalf] + __bfloat162float(bias[d + kRotHalf]);

        if (!is_v) {
            const float* cs = cos_sin_cache + (size_t)positions[token] * kHeadDim;
            const float cos_ = cs[d];
            const float sin_ = cs[kRotHalf + d];
            const float r1 = x1 * cos_ - x2 * sin_;
            const float r2 = x2 * cos_ + x1 * sin_;
            x1 = r1;
            x2 = r2;
        }

        const __nv_bfloat16 y1 = __float2bfloat16(x1);
        const __nv_bfloat16 y2 = __float2bfloat16(x2);

        if (is_q) {
            __nv_bfloat16* dst = q_out + ((size_t)token * num_heads + head) * kHeadDim;
            dst[d] = y1;
            dst[d + kRotHalf] = y2;
            continue;
        }

        const int slot = slot_mapping[token];
        if (slot < 0) continue;   // padding token
        const int block = slot / block_size;
        const int offset = slot % block_size;

        if (is_v) {
            __nv_bfloat16* dst = v_cache + ((size_t)block * num_kv_heads + kv_head) * kHeadDim * block_size + offset;
            dst[d * block_size] = y1;
            dst[(d + kRotHalf) * block_size] = y2;
        } else {
            __nv_bfloat16* dst = k_cache + (((size_t)block * num_kv_heads + kv_head) * block_size + offset) * kHeadDim;
            dst[d] = y1;
            dst[d + kRotHalf] = y2;
        }
    }
}

void invoke_qkv_rope_cache(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b, const float* cs,
                           const int* positions, const int* slots, __nv_bfloat16* q, __nv_bfloat16* k_cache,
                           __nv_bfloat16* v_cache, int num_tokens, int hidden, int num_heads, int num_kv_heads,
                           int block_size, cudaStream_t stream) {
    const dim3 grid(num_heads + 2 * num_kv_heads, (num_tokens + kTokens - 1) / kTokens);
    qkv_rope_cache_kernel<<<grid, 128, 0, stream>>>(x, w, b, cs, positions, slots, q, k_cache, v_cache, num_tokens,
                                                    hidden, num_heads, num_kv_heads, block_size);
}

}  // namespace kernels
}  // namespace infer
