// Softmax of the rows of attention scores, scaled, with an additive mask and causal: one warp per row.
//
// Scores stay in f32 between the passes over a row; what the causal mask hides is written as zero.
#include <cuda_fp16.h>

__global__ void masked_softmax(const float* __restrict__ scores, const half* __restrict__ mask, half* __restrict__ y,
                               int rows, int cols, float scale) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    const size_t start = (static_cast<size_t>(blockIdx.y) * rows + row) * cols;
    scores += start;
    y += start;
    mask += static_cast<size_t>(row) * cols;
    const int seen = min(row + 1, cols);

    float largest = -INFINITY;
    for (int i = lane; i < seen; i += 32) largest = fmaxf(largest, scores[i] * scale + __half2float(mask[i]));
    for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));

    float sum = 0.0f;
    for (int i = lane; i < seen; i += 32) sum += __expf(scores[i] * scale + __half2float(mask[i]) - largest);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);

    for (int i = lane; i < cols; i += 32) {
        const float e = i < seen ? __expf(scores[i] * scale + __half2float(mask[i]) - largest) : 0.0f;
        y[i] = __float2half(e / sum);
    }
}
