// The gradient of images through GroupNorm, a block for each group of channels of each image.
#include <cuda_fp16.h>

__global__ void group_norm_backward(const half* dy, const half* x, const half* weight, const float* mean,
                                    const float* rstd, half* dx, int groups, int depth, int pixels) {
    __shared__ float sums[2][256], of_group[2];
    const int g = blockIdx.x % groups, count = depth * pixels;
    const size_t first = (size_t)blockIdx.x * count;
    const float mu = mean[blockIdx.x], r = rstd[blockIdx.x];
    float whole = 0, along = 0;
    for (int i = threadIdx.x; i < count; i += 256) {
        const int c = g * depth + i / pixels;
        const float each = __half2float(dy[first + i]) * __half2float(weight[c]);
        whole += each;
        along += each * (__half2float(x[first + i]) - mu) * r;
    }
    sums[0][threadIdx.x] = whole;
    sums[1][threadIdx.x] = along;
    __syncthreads();
    if (threadIdx.x < 2) {
        float sum = 0;
        for (int i = 0; i < 256; ++i) sum += sums[threadIdx.x][i];
        of_group[threadIdx.x] = sum / count;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += 256) {
        const int c = g * depth + i / pixels;
        const float normed = (__half2float(x[first + i]) - mu) * r;
        const float each = __half2float(dy[first + i]) * __half2float(weight[c]);
        dx[first + i] = __float2half(r * (each - of_group[0] - normed * of_group[1]));
    }
}
