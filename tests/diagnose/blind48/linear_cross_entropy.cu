// Cross entropy of a language model's head, without the logits in global memory:
//   logits = hidden @ weight.T + bias,   loss = logsumexp(logits) - logits[target]
// hidden: [n_tokens, dim] bf16, weight: [vocab, dim] bf16, targets: int64, with ignore_index where nothing is to be learned.
// A block has 32 tokens and goes through the vocabulary in tiles of 64; lse is kept for the backward pass.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int TOKENS  = 32;
constexpr int VTILE   = 64;
constexpr int KTILE   = 64;
constexpr int THREADS = 128;
constexpr int LDK     = KTILE + 8;
constexpr int LDL     = VTILE + 4;
constexpr int PARTS   = THREADS / TOKENS;    // threads of a token

__device__ __forceinline__ float minus_inf() { return -__int_as_float(0x7f800000); }

// a tile of ROWS x KTILE out of a matrix with n_rows rows of dim elements, zeros outside
template <int ROWS>
__device__ void stage_tile(__nv_bfloat16* tile, const __nv_bfloat16* mat, int row0, int n_rows, int k0, int dim)
{
    for (int i = threadIdx.x; i < ROWS * KTILE / 8; i += THREADS) {
        const int r = i / (KTILE / 8);
        const int c = i % (KTILE / 8) * 8;
        uint4 chunk = make_uint4(0, 0, 0, 0);
        if (row0 + r < n_rows && k0 + c < dim) {
            chunk = *reinterpret_cast<const uint4*>(mat + (size_t)(row0 + r) * dim + k0 + c);
        }
        *reinterpret_cast<uint4*>(tile + r * LDK + c) = chunk;
    }
}

extern "C" __global__ void linear_cross_entropy_fwd(const __nv_bfloat16* __restrict__ hidden,
                                                    const __nv_bfloat16* __restrict__ weight,
                                                    const float* __restrict__ bias,
                                                    const long long* __restrict__ targets,
                                                    float* __restrict__ loss,
                                                    float* __restrict__ lse,
                                                    int n_tokens, int vocab, int dim, int ignore_index)
{
    __shared__ __align__(128) __nv_bfloat16 s_hidden[TOKENS * LDK];
    __shared__ __align__(128) __nv_bfloat16 s_weight[VTILE * LDK];
    __shared__ __align__(128) float s_logits[TOKENS * LDL];

    const int warp = threadIdx.x / 32;
    const int m0   = blockIdx.x * TOKENS;

    // for the softmax: four neighbouring threads have a token
    const int row   = threadIdx.x / PARTS;
    const int part  = threadIdx.x % PARTS;
    const int token = m0 + row;
    const long long target = token < n_tokens ? targets[token] : ignore_index;

    float run_max = minus_inf();
    float run_sum = 0.0f;
    float target_logit = 0.0f;

    for (int v0 = 0; v0 < vocab; v0 += VTILE) {
        // a warp has 16 columns of the tile, all 32 tokens
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[TOKENS / 16];
        for (int i = 0; i < TOKENS / 16; ++i) {
            wmma::fill_fragment(acc[i], 0.0f);
        }

        for (int k0 = 0; k0 < dim; k0 += KTILE) {
            stage_tile<TOKENS>(s_hidden, hidden, m0, n_tokens, k0, dim);
            stage_tile<VTILE>(s_weight, weight, v0, vocab, k0, dim);
            __syncthreads();

            for (int kk = 0; kk < KTILE; kk += 16) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> w_frag;
                wmma::load_matrix_sync(w_frag, s_weight + warp * 16 * LDK + kk, LDK);
                for (int i = 0; i < TOKENS / 16; ++i) {
                    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> h_frag;
                    wmma::load_matrix_sync(h_frag, s_hidden + i * 16 * LDK + kk, LDK);
                    wmma::mma_sync(acc[i], h_frag, w_frag, acc[i]);
                }
            }
            __syncthreads();    // before the tiles are staged again
        }

        for (int i = 0; i < TOKENS / 16; ++i) {
            wmma::store_matrix_sync(s_logits + i * 16 * LDL + warp * 16, acc[i], LDL, wmma::mem_row_major);
        }
        __syncthreads();

        // online logsumexp of the token's row
        float x[VTILE / PARTS];
        float tile_max = minus_inf();
#pragma unroll
        for (int i = 0; i < VTILE / PARTS; ++i) {
            const int c = i * PARTS + part;
            x[i] = v0 + c < vocab ? s_logits[row * LDL + c] + bias[v0 + c] : minus_inf();
            if (v0 + c == target) {
                target_logit = x[i];
            }
            tile_max = fmaxf(tile_max, x[i]);
        }
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 1));
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 2));

        const float new_max = fmaxf(run_max, tile_max);
        float tile_sum = 0.0f;
#pragma unroll
        for (int i = 0; i < VTILE / PARTS; ++i) {
            tile_sum += __expf(x[i] - new_max);
        }
        // of the thread's columns only
        run_sum = run_sum * __expf(run_max - new_max) + tile_sum;
        run_max = new_max;
    }

    // one of the four has seen the target, the others have 0
    for (int mask = 1; mask < PARTS; mask *= 2) {
        run_sum += __shfl_xor_sync(0xffffffff, run_sum, mask);
        target_logit += __shfl_xor_sync(0xffffffff, target_logit, mask);
    }

    if (part == 0 && token < n_tokens) {
        const float log_sum = run_max + logf(run_sum);
        lse[token]  = log_sum;
        loss[token] = target == ignore_index ? 0.0f : log_sum - target_logit;
    }
}
