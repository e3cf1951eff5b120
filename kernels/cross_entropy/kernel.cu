// The loss of each row of logits, a warp per row, its sum kept in step with the largest logit so far.
__global__ void losses_of_rows(const float* logits, const int* targets, float* losses, int rows, int classes) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    logits += static_cast<size_t>(row) * classes;
    float most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < classes; i += 32) {
        const float larger = fmaxf(most, logits[i]);
        sum = sum * expf(most - larger) + expf(logits[i] - larger);
        most = larger;
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(~0u, most, step);
        const float others = __shfl_xor_sync(~0u, sum, step);
        const float larger = fmaxf(most, other);
        sum = larger == -INFINITY ? 0.0f : sum * expf(most - larger) + others * expf(other - larger);
        most = larger;
    }
    if (lane == 0) losses[row] = logf(sum) + most - logits[targets[row]];
}
