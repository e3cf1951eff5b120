// The backward pass of the softmax of rows, a block for each, in halves.
#include <cuda_fp16.h>

__global__ void softmax_backward(const half* dout, const half* probs, half* dinp, int n, float scale) {
    __shared__ float parts[4];
    const size_t row = (size_t)blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __half2float(dout[row + i]) * __half2float(probs[row + i]);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = parts[0] + parts[1] + parts[2] + parts[3];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float own = __half2float(dout[row + i]) - sum;
        dinp[row + i] = __float2half(scale * own * __half2float(probs[row + i]));
    }
}
