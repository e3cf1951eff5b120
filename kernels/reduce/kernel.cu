// The sum of each row, a block per row.
__global__ void sum_rows(const float* x, float* y, int cols) {
    __shared__ float sums[8];
    x += static_cast<size_t>(blockIdx.x) * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) sum += sums[i];
        y[blockIdx.x] = sum;
    }
}
