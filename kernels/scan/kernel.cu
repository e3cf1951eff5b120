// Prefix sums of rows of up to 256 elements, a block per row.
__global__ void inclusive_scan(const float* x, float* y, int cols) {
    __shared__ float sums[256];
    const int i = threadIdx.x;
    sums[i] = i < cols ? x[static_cast<size_t>(blockIdx.x) * cols + i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        const float before = i >= step ? sums[i - step] : 0.0f;
        __syncthreads();
        sums[i] += before;
        __syncthreads();
    }
    if (i < cols) y[static_cast<size_t>(blockIdx.x) * cols + i] = sums[i];
}
