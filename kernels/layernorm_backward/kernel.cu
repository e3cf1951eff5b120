// The backward pass of LayerNorm: a warp for each row, and atomics for the gradients of weight and bias.

__device__ float whole_warp(float x) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

__global__ void layernorm_backward(const float* dout, const float* inp, const float* weight, const float* mean,
                                   const float* rstd, float* dinp, float* dweight, float* dbias, int rows, int n) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    dout += (size_t)row * n;
    inp += (size_t)row * n;
    dinp += (size_t)row * n;
    float whole = 0.0f, along = 0.0f;
    for (int i = lane; i < n; i += 32) {
        const float g = dout[i] * weight[i];
        whole += g;
        along += g * (inp[i] - mean[row]) * rstd[row];
    }
    whole = whole_warp(whole) / n;
    along = whole_warp(along) / n;
    for (int i = lane; i < n; i += 32) {
        const float normed = (inp[i] - mean[row]) * rstd[row];
        dinp[i] = rstd[row] * (dout[i] * weight[i] - whole - normed * along);
        atomicAdd(&dweight[i], dout[i] * normed);
        atomicAdd(&dbias[i], dout[i]);
    }
}
