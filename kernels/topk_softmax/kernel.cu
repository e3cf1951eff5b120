// The experts of each token: the two with the largest logits of 32, by the softmax of all.
__global__ void route(const float* logits, float* weights, int* experts, int k) {
    const int lane = threadIdx.x;
    float own = logits[blockIdx.x * 32 + lane];
    float most = own, sum = 0.0f;
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    own = sum = expf(own - most);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    for (int taken = 0; taken < k; taken++) {
        float best = own;
        int which = lane;
        for (int step = 16; step > 0; step /= 2) {
            const float other = __shfl_xor_sync(~0u, best, step);
            const int where = __shfl_xor_sync(~0u, which, step);
            if (other > best || (other == best && where < which)) {
                best = other;
                which = where;
            }
        }
        if (lane == 0) {
            weights[blockIdx.x * k + taken] = best / sum;
            experts[blockIdx.x * k + taken] = which;
        }
        if (lane == which) own = -1.0f;
    }
}
