// nn.Linear backward, weight part:  grad_w[o, i] += sum_t grad_out[t, o] * x[t, i],  grad_b[o] += sum_t grad_out[t, o]
// Tokens are divided among blockIdx.z; each block adds its share with atomics, so both gradients have to be zeroed first.
#include <cuda_fp16.h>
#include <mma.h>

namespace wm = nvcuda::wmma;

constexpr int TILE_O   = 32;   // rows of grad_w
constexpr int TILE_I   = 32;   // columns of grad_w
constexpr int TILE_T   = 32;   // tokens at once
constexpr int PAD      = 8;
constexpr int NTHREADS = 128;

struct Tiles {
    half go[TILE_T][TILE_O + PAD];
    half x[TILE_T][TILE_I + PAD];
    float dw[TILE_O][TILE_I + 4];
};

__global__ void linear_backward_weight(
    float* grad_w,             // [out_features, in_features]
    float* grad_b,             // [out_features]
    const half* grad_out,      // [tokens, out_features]
    const half* x,             // [tokens, in_features]
    int tokens, int in_features, int out_features, int tokens_per_split)
{
    __shared__ __align__(32) Tiles sh;

    const int tid  = threadIdx.x;
    const int warp = tid / 32;
    const int o0   = blockIdx.y * TILE_O;
    const int i0   = blockIdx.x * TILE_I;
    const int wo   = warp / 2 * 16;
    const int wi   = warp % 2 * 16;

    const int t_begin = blockIdx.z * tokens_per_split;
    const int t_end   = min(tokens, t_begin + tokens_per_split);

    wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
    wm::fill_fragment(acc, 0.0f);
    float bias_sum = 0.0f;     // of column tid, in the first warp

    for (int t0 = t_begin; t0 < t_end; t0 += TILE_T) {
        for (int j = tid; j < TILE_T * TILE_O; j += NTHREADS) {
            const int t = j / TILE_O, o = j % TILE_O;
            const bool in = t0 + t < t_end && o0 + o < out_features;
            sh.go[t][o] = in ? grad_out[(size_t)(t0 + t) * out_features + o0 + o] : __float2half(0.0f);
        }
        for (int j = tid; j < TILE_T * TILE_I; j += NTHREADS) {
            const int t = j / TILE_I, i = j % TILE_I;
            const bool in = t0 + t < t_end && i0 + i < in_features;
            sh.x[t][i] = in ? x[(size_t)(t0 + t) * in_features + i0 + i] : __float2half(0.0f);
        }
        __syncthreads();

        // grad_out^T: a tile of tokens x outputs read as columns
        for (int t = 0; t < TILE_T; t += 16) {
            wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::col_major> a;
            wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> b;
            wm::load_matrix_sync(a, &sh.go[t][wo], TILE_O + PAD);
            wm::load_matrix_sync(b, &sh.x[t][wi], TILE_I + PAD);
            wm::mma_sync(acc, a, b, acc);
        }
        if (tid < TILE_O) {
            for (int t = 0; t < TILE_T; t++)
                bias_sum += __half2float(sh.go[t][tid]);
        }
        __syncthreads();
    }

    wm::store_matrix_sync(&sh.dw[wo][wi], acc, TILE_I + 4, wm::mem_row_major);
    __syncthreads();

    for (int j = tid; j < TILE_O * TILE_I; j += NTHREADS) {
        const int o = j / TILE_I, i = j % TILE_I;
        if (o0 + o < out_features && i0 + i < in_features)
            atomicAdd(&grad_w[(size_t)(o0 + o) * in_features + i0 + i], sh.dw[o][i]);
    }
    // blocks side by side have the same rows: one of them adds the bias
    if (blockIdx.x == 0 && tid < TILE_O && o0 + tid < out_features)
        atomicAdd(&grad_b[o0 + tid], bias_sum);
}
