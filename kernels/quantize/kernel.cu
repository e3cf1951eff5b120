// Rows as bytes, each by a scale of its largest magnitude.
__global__ void quantize(const float* x, signed char* y, float* scales, int width) {
    x += static_cast<size_t>(blockIdx.x) * width;
    y += static_cast<size_t>(blockIdx.x) * width;
    float most = 0.0f;
    for (int i = threadIdx.x; i < width; i += 32) most = fmaxf(most, fabsf(x[i]));
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    const float scale = most / 127.0f;
    for (int i = threadIdx.x; i < width; i += 32) y[i] = rintf(scale > 0.0f ? x[i] / scale : 0.0f);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}
