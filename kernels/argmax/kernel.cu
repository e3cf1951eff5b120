// The place of the largest element of each row, the first of several alike, as greedy decoding takes it.
__global__ void argmax(const float* x, int* index, int n) {
    __shared__ float values[8];
    __shared__ int places[8];
    const float* row = x + (size_t)blockIdx.x * n;
    float best = -3.4e38f;
    int place = n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (row[i] > best) best = row[i], place = i;
    for (int step = 16; step; step /= 2) {
        const float other = __shfl_xor_sync(~0u, best, step);
        const int at = __shfl_xor_sync(~0u, place, step);
        if (other > best || (other == best && at < place)) best = other, place = at;
    }
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = best, places[threadIdx.x / 32] = place;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < 8; ++i)
        if (values[i] > best || (values[i] == best && places[i] < place)) best = values[i], place = places[i];
    index[blockIdx.x] = place;
}
