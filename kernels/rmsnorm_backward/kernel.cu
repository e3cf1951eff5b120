// The backward pass of RMSNorm in bfloat16: a block for each row, whose root it computes again, and the residual's
// gradient added.
#include <cuda_bf16.h>

__device__ float whole_block(float x, float* parts) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0] + parts[1] + parts[2] + parts[3];
    __syncthreads();
    return x;
}

__global__ void rmsnorm_backward(const __nv_bfloat16* dout, const __nv_bfloat16* inp, const __nv_bfloat16* weight,
                                 const __nv_bfloat16* dresidual, __nv_bfloat16* dinp, int n, float eps) {
    __shared__ float parts[4];
    const size_t row = (size_t)blockIdx.x * n;
    float squares = 0.0f, along = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float x = __bfloat162float(inp[row + i]);
        squares += x * x;
        along += __bfloat162float(dout[row + i]) * __bfloat162float(weight[i]) * x;
    }
    const float rstd = rsqrtf(whole_block(squares, parts) / n + eps);
    const float factor = whole_block(along, parts) * rstd * rstd * rstd / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float g = __bfloat162float(dout[row + i]) * __bfloat162float(weight[i]);
        const float own = g * rstd - __bfloat162float(inp[row + i]) * factor;
        dinp[row + i] = __float2bfloat16(own + __bfloat162float(dresidual[row + i]));
    }
}
