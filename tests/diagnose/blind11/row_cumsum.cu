// Inclusive prefix sums of the rows of a matrix, as for sampling; a block walks over its row in chunks.
#include <cuda_runtime.h>

template <int BLOCK>
__global__ void row_cumsum(const float *__restrict__ in, float *__restrict__ out, int cols) {
    constexpr int WARPS = BLOCK / 32;
    __shared__ float warp_total[WARPS];

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const float *src = in + (size_t)blockIdx.x * cols;
    float *dst = out + (size_t)blockIdx.x * cols;

    float carry = 0.0f;  // all that lies before this chunk
    for (int base = 0; base < cols; base += BLOCK) {
        int c = base + threadIdx.x;
        float v = c < cols ? src[c] : 0.0f;

        // within the warp
        for (int d = 1; d < 32; d *= 2) {
            float left = __shfl_up_sync(0xffffffff, v, d);
            if (lane >= d) v += left;
        }
        if (lane == 31) warp_total[warp] = v;
        __syncthreads();

        // what the warps before this one have, and what all have
        float before = 0.0f, total = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            if (w < warp) before += warp_total[w];
            total += warp_total[w];
        }
        if (c < cols) dst[c] = carry + before + v;
        carry += total;
        __syncthreads();
    }
}

template __global__ void row_cumsum<128>(const float *, float *, int);
