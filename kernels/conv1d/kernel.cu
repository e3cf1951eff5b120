// A causal convolution of sequences in halves, each channel with a filter of its own, with bias and SiLU.
#include <cuda_fp16.h>

__global__ void causal_conv1d(const half* x, const half* weight, const half* bias, half* y, int channels, int length,
                              int width) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, d = blockIdx.y;
    if (t >= length) return;
    const size_t row = ((size_t)blockIdx.z * channels + d) * length;
    float sum = __half2float(bias[d]);
    for (int w = 0; w < width; ++w) {
        const int from = t + w - (width - 1);
        if (from >= 0) sum += __half2float(weight[d * width + w]) * __half2float(x[row + from]);
    }
    y[row + t] = __float2half(sum / (1.0f + __expf(-sum)));
}
