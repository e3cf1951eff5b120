// Fused linear layer + cross entropy: the logits (tokens x vocabulary) are never written to memory.
//
//   logits = hidden * weight^T              hidden [tokens, dim] half, weight [vocab, dim] half
//   lse    = logsumexp(logits)
//   loss   = lse - (1 - smoothing) * logits[target] - smoothing * mean(logits)       (label smoothing)
//
// Tokens whose target is IGNORE_INDEX have a loss of zero. dim must be a multiple of 8.
//
// 128 threads have 32 tokens and go through the vocabulary 64 entries at a time. Four threads share a token and keep
// running statistics of their own columns, which are merged once, at the very end.
#include <cuda_fp16.h>
#include <mma.h>

#define IGNORE_INDEX (-100)

using namespace nvcuda;

constexpr int TOKENS_PER_BLOCK = 32;
constexpr int VOCAB_TILE = 64;
constexpr int DIM_TILE = 32;
constexpr int PAD = 8;
constexpr int IN_LD = DIM_TILE + PAD;
constexpr int LOGITS_LD = VOCAB_TILE + 4;
constexpr int NTHREADS = 128;
constexpr int THREADS_PER_TOKEN = NTHREADS / TOKENS_PER_BLOCK;

struct RunningStats {
    float max_logit;   // of the columns seen so far
    float sum_exp;     // relative to max_logit
    float sum_logits;  // for label smoothing

    __device__ void add(float logit) {
        if (logit > max_logit) {
            sum_exp *= __expf(max_logit - logit);
            max_logit = logit;
        }
        sum_exp += __expf(logit - max_logit);
        sum_logits += logit;
    }

    __device__ void merge_with_lane(int lane_mask) {
        const float other_max = __shfl_xor_sync(0xffffffffu, max_logit, lane_mask);
        const float other_sum = __shfl_xor_sync(0xffffffffu, sum_exp, lane_mask);
        const float joint = fmaxf(max_logit, other_max);
        sum_exp = sum_exp * __expf(max_logit - joint) + other_sum * __expf(other_max - joint);
        max_logit = joint;
        sum_logits += __shfl_xor_sync(0xffffffffu, sum_logits, lane_mask);
    }
};

__device__ void stage(half *smem, const half *gmem, int rows, int row0, int row_count, int col0, int dim) {
    const int vecs = DIM_TILE / 8;
    for (int idx = threadIdx.x; idx < rows * vecs; idx += NTHREADS) {
        const int r = idx / vecs;
        const int c = idx % vecs * 8;
        uint4 value = {0, 0, 0, 0};
        if (row0 + r < row_count && col0 + c < dim)
            value = *reinterpret_cast<const uint4 *>(&gmem[(size_t)(row0 + r) * dim + col0 + c]);
        *reinterpret_cast<uint4 *>(&smem[r * IN_LD + c]) = value;
    }
}

__global__ void linear_cross_entropy_fwd(const half *hidden, const half *weight, const int *targets, float *loss,
                                         float *lse_out, int tokens, int vocab, int dim, float smoothing) {
    __shared__ __align__(32) half h_tile[TOKENS_PER_BLOCK * IN_LD];
    __shared__ __align__(32) half w_tile[VOCAB_TILE * IN_LD];
    __shared__ __align__(32) float logits[TOKENS_PER_BLOCK * LOGITS_LD];
    __shared__ float target_logit[TOKENS_PER_BLOCK];

    const int token0 = blockIdx.x * TOKENS_PER_BLOCK;
    const int warp = threadIdx.x / 32;
    const int warp_row = (warp & 1) * 16;
    const int warp_col = (warp >> 1) * 32;

    const int my_row = threadIdx.x / THREADS_PER_TOKEN;
    const int my_part = threadIdx.x % THREADS_PER_TOKEN;
    const int my_token = token0 + my_row;
    const int my_target = my_token < tokens ? targets[my_token] : IGNORE_INDEX;

    RunningStats stats = {-1e30f, 0.f, 0.f};
    if (threadIdx.x < TOKENS_PER_BLOCK) target_logit[threadIdx.x] = 0.f;

    for (int v0 = 0; v0 < vocab; v0 += VOCAB_TILE) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
        wmma::fill_fragment(acc[0], 0.f);
        wmma::fill_fragment(acc[1], 0.f);

        for (int d0 = 0; d0 < dim; d0 += DIM_TILE) {
            stage(h_tile, hidden, TOKENS_PER_BLOCK, token0, tokens, d0, dim);
            stage(w_tile, weight, VOCAB_TILE, v0, vocab, d0, dim);
            __syncthreads();
            for (int kk = 0; kk < DIM_TILE; kk += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fh;
                wmma::load_matrix_sync(fh, &h_tile[warp_row * IN_LD + kk], IN_LD);
                for (int j = 0; j < 2; ++j) {
                    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fw;
                    wmma::load_matrix_sync(fw, &w_tile[(warp_col + j * 16) * IN_LD + kk], IN_LD);
                    wmma::mma_sync(acc[j], fh, fw, acc[j]);
                }
            }
            __syncthreads();
        }

        wmma::store_matrix_sync(&logits[warp_row * LOGITS_LD + warp_col], acc[0], LOGITS_LD, wmma::mem_row_major);
        wmma::store_matrix_sync(&logits[warp_row * LOGITS_LD + warp_col + 16], acc[1], LOGITS_LD, wmma::mem_row_major);
        __syncthreads();

        for (int c = my_part; c < VOCAB_TILE; c += THREADS_PER_TOKEN) {
            if (v0 + c >= vocab) break;
            const float logit = logits[my_row * LOGITS_LD + c];
            stats.add(logit);
            if (v0 + c == my_target) target_logit[my_row] = logit;
        }
        // the barrier after the next tile's first loads comes before anybody stores logits again
    }

    stats.merge_with_lane(1);
    stats.merge_with_lane(2);
    __syncthreads();

    if (my_part == 0 && my_token < tokens) {
        const float lse = stats.max_logit + __logf(stats.sum_exp);
        const float mean = stats.sum_logits / vocab;
        float value = lse - (1.f - smoothing) * target_logit[my_row] - smoothing * mean;
        if (my_target == IGNORE_INDEX) value = 0.f;
        loss[my_token] = value;
        lse_out[my_token] = lse;
    }
}

extern "C" void linear_cross_entropy(const half *hidden, const half *weight, const int *targets, float *loss,
                                     float *lse, int tokens, int vocab, int dim, float smoothing) {
    int blocks = (tokens + TOKENS_PER_BLOCK - 1) / TOKENS_PER_BLOCK;
    linear_cross_entropy_fwd<<<blocks, NTHREADS>>>(hidden, weight, targets, loss, lse, tokens, vocab, dim, smoothing);
}
