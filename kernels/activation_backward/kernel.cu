// The backward pass of GELU by tanh, element by element, in halves.
#include <cuda_fp16.h>

__global__ void gelu_backward(const half* dout, const half* inp, half* dinp, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = __half2float(inp[i]);
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    float slope = 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
    dinp[i] = __float2half(__half2float(dout[i]) * slope);
}
