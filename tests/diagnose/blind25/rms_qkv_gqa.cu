/* tinyllm: attention input = RMSNorm + fused QKV projection (bf16, tensor cores)
 *
 *   xn = x * rsqrt(mean(x^2) + eps) * gamma                 x    [batch * seq, dim]
 *   qkv = xn @ wqkv^T                                       wqkv [(n_heads + 2 * n_kv_heads) * HEAD_DIM, dim]
 *   q = qkv[:, :n_heads * HEAD_DIM] * q_scale               q    [batch, n_heads, seq, HEAD_DIM]
 *   k, v = the rest                                         k, v [batch, n_kv_heads, seq, HEAD_DIM]
 *
 * A block takes 32 tokens x 64 output columns and keeps its normalized rows in shared memory, the norm is thus
 * recomputed for each column block, which is cheap as long as dim is moderate. dim must be even.
 */
#include <cuda_bf16.h>
#include <mma.h>

namespace tinyllm {

namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;

constexpr int TOK_TILE = 32;
constexpr int OUT_TILE = 64;
constexpr int K_TILE = 32;
constexpr int N_WARPS = 4;
constexpr int W_LD = K_TILE + 8;
constexpr int C_LD = OUT_TILE + 4;

__device__ inline float warp_reduce_sum(float v) {
    for (int mask = 16; mask > 0; mask >>= 1) {
        v += __shfl_xor_sync(0xFFFFFFFFu, v, mask);
    }
    return v;
}

// One warp normalizes one row into shared memory. dim_pad - dim columns behind the row are cleared.
__device__ inline void rmsnorm_row(bf16 * dst, const bf16 * src, const bf16 * gamma, int dim, int dim_pad, float eps, int lane) {
    const bf162 * src2 = reinterpret_cast<const bf162 *>(src);
    const bf162 * gamma2 = reinterpret_cast<const bf162 *>(gamma);
    bf162 * dst2 = reinterpret_cast<bf162 *>(dst);

    float ss = 0.0f;
    for (int i = lane; i < dim / 2; i += 32) {
        const float2 v = __bfloat1622float2(src2[i]);
        ss += v.x * v.x + v.y * v.y;
    }
    ss = warp_reduce_sum(ss);
    const float inv_rms = rsqrtf(ss / dim + eps);

    for (int i = lane; i < dim / 2; i += 32) {
        const float2 v = __bfloat1622float2(src2[i]);
        const float2 g = __bfloat1622float2(gamma2[i]);
        dst2[i] = __floats2bfloat162_rn(v.x * inv_rms * g.x, v.y * inv_rms * g.y);
    }
    for (int i = dim + lane; i < dim_pad; i += 32) {
        dst[i] = __float2bfloat16(0.0f);
    }
}

template <int HEAD_DIM>
__global__ void rmsnorm_qkv(
        const bf16 * __restrict__ x,
        const bf16 * __restrict__ gamma,
        const bf16 * __restrict__ wqkv,
        bf16 * __restrict__ q,
        bf16 * __restrict__ k,
        bf16 * __restrict__ v,
        int n_tokens, int seq, int dim, int n_heads, int n_kv_heads, float eps, float q_scale) {
    extern __shared__ __align__(128) unsigned char dyn_smem[];
    __shared__ __align__(128) bf16 w_tile[OUT_TILE * W_LD];
    __shared__ __align__(128) float c_tile[TOK_TILE * C_LD];

    const int dim_pad = (dim + K_TILE - 1) / K_TILE * K_TILE;
    const int x_ld = dim_pad + 8;
    bf16 * xn = reinterpret_cast<bf16 *>(dyn_smem); // [TOK_TILE][x_ld]

    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int tok0 = blockIdx.x * TOK_TILE;
    const int out0 = blockIdx.y * OUT_TILE;
    const int q_dim = n_heads * HEAD_DIM;
    const int kv_dim = n_kv_heads * HEAD_DIM;
    const int out_dim = q_dim + 2 * kv_dim;

    // 1. normalize
    for (int r = warp; r < TOK_TILE; r += N_WARPS) {
        const int tok = tok0 + r;
        if (tok < n_tokens) {
            rmsnorm_row(xn + r * x_ld, x + (size_t) tok * dim, gamma, dim, dim_pad, eps, lane);
        } else {
            for (int i = lane; i < dim_pad; i += 32) {
                xn[r * x_ld + i] = __float2bfloat16(0.0f);
            }
        }
    }

    // 2. project, warps are 2 (tokens) x 2 (outputs)
    const int warp_row = warp / 2 * 16;
    const int warp_col = warp % 2 * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int k0 = 0; k0 < dim_pad; k0 += K_TILE) {
        for (int i = threadIdx.x; i < OUT_TILE * K_TILE / 2; i += blockDim.x) {
            const int n = i / (K_TILE / 2);
            const int kk = i % (K_TILE / 2) * 2;
            bf162 w2 = __floats2bfloat162_rn(0.0f, 0.0f);
            if (out0 + n < out_dim && k0 + kk < dim) {
                w2 = *reinterpret_cast<const bf162 *>(wqkv + (size_t) (out0 + n) * dim + k0 + kk);
            }
            *reinterpret_cast<bf162 *>(w_tile + n * W_LD + kk) = w2;
        }
        __syncthreads();

        for (int kk = 0; kk < K_TILE; kk += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
            wmma::load_matrix_sync(a, xn + warp_row * x_ld + k0 + kk, x_ld);
            for (int j = 0; j < 2; ++j) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b;
                wmma::load_matrix_sync(b, w_tile + (warp_col + j * 16) * W_LD + kk, W_LD);
                wmma::mma_sync(acc[j], a, b, acc[j]);
            }
        }
        __syncthreads();
    }

    // 3. scatter to heads
    for (int j = 0; j < 2; ++j) {
        wmma::store_matrix_sync(c_tile + warp_row * C_LD + warp_col + j * 16, acc[j], C_LD, wmma::mem_row_major);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < TOK_TILE * OUT_TILE; i += blockDim.x) {
        const int tok = tok0 + i / OUT_TILE;
        int n = out0 + i % OUT_TILE;
        if (tok >= n_tokens || n >= out_dim) {
            continue;
        }
        float val = c_tile[i / OUT_TILE * C_LD + i % OUT_TILE];

        bf16 * dst = q;
        int heads = n_heads;
        if (n < q_dim) {
            val *= q_scale;
        } else if (n < q_dim + kv_dim) {
            dst = k;
            heads = n_kv_heads;
            n -= q_dim;
        } else {
            dst = v;
            heads = n_kv_heads;
            n -= q_dim + kv_dim;
        }
        const int b = tok / seq;
        const int pos = tok % seq;
        const int head = n / HEAD_DIM;
        dst[(((size_t) b * heads + head) * seq + pos) * HEAD_DIM + n % HEAD_DIM] = __float2bfloat16(val);
    }
}

void launch_rmsnorm_qkv(const bf16 * x, const bf16 * gamma, const bf16 * wqkv, bf16 * q, bf16 * k, bf16 * v,
                        int batch, int seq, int dim, int n_heads, int n_kv_heads, float eps, cudaStream_t stream) {
    constexpr int HEAD_DIM = 32;
    const int out_dim = (n_heads + 2 * n_kv_heads) * HEAD_DIM;
    const int dim_pad = (dim + K_TILE - 1) / K_TILE * K_TILE;
    const dim3 grid((batch * seq + TOK_TILE - 1) / TOK_TILE, (out_dim + OUT_TILE - 1) / OUT_TILE);
    const size_t smem = TOK_TILE * (dim_pad + 8) * sizeof(bf16);
    rmsnorm_qkv<HEAD_DIM><<<grid, N_WARPS * 32, smem, stream>>>(
        x, gamma, wqkv, q, k, v, batch * seq, seq, dim, n_heads, n_kv_heads, eps, 0.17677669f);
}

} // namespace tinyllm
