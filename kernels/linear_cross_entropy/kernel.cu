// Cross entropy of a language model's head: the logits X·Wᵀ of 16 tokens are made 16 classes at a time and never stored.
//
// One warp per 16 tokens. A lane below 16 keeps its token's running maximum, sum and the logit of its target.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void linear_cross_entropy(const half* __restrict__ x, const half* __restrict__ w, const int* __restrict__ targets,
                                     float* __restrict__ loss, int tokens, int vocab, int depth, int ignore_index) {
    __shared__ __align__(32) half rows[16][16], classes[16][16];
    __shared__ __align__(32) float logits[16][16];
    const int first = blockIdx.x * 16, token = first + threadIdx.x;
    const bool mine = threadIdx.x < 16 && token < tokens;
    const int target = mine ? targets[token] : 0;
    float most = -INFINITY, sum = 0.0f, chosen = 0.0f;

    for (int from = 0; from < vocab; from += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.0f);
        for (int k = 0; k < depth; k += 16) {
            for (int i = threadIdx.x; i < 256; i += 32) {
                const int row = i / 16, col = i % 16;
                rows[row][col] = first + row < tokens ? x[(first + row) * depth + k + col] : __float2half(0.0f);
                classes[row][col] = from + row < vocab ? w[(from + row) * depth + k + col] : __float2half(0.0f);
            }
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
            wmma::load_matrix_sync(left, &rows[0][0], 16);
            wmma::load_matrix_sync(right, &classes[0][0], 16);
            wmma::mma_sync(acc, left, right, acc);
            __syncwarp();
        }
        wmma::store_matrix_sync(&logits[0][0], acc, 16, wmma::mem_row_major);
        __syncwarp();
        for (int i = 0; mine && i < 16 && from + i < vocab; ++i) {
            const float logit = logits[threadIdx.x][i], larger = fmaxf(most, logit);
            sum = sum * __expf(most - larger) + __expf(logit - larger);
            most = larger;
            if (from + i == target) chosen = logit;
        }
        __syncwarp();
    }
    if (mine) loss[token] = target == ignore_index ? 0.0f : most + logf(sum) - chosen;
}
