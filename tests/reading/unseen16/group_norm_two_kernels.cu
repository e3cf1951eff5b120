// GroupNorm in two kernels for large images, NCHW float: statistics by (n, g), then normalise element by element.
#include <cuda_runtime.h>

__global__ void gn_stats_kernel(const float* __restrict__ x, float* __restrict__ mean, float* __restrict__ rstd,
                                int channels_per_group, int hw, float eps) {
  __shared__ float s1[256], s2[256];
  const long long count = (long long)channels_per_group * hw;
  const float* base = x + blockIdx.x * count;
  float a = 0.f, b = 0.f;
  for (long long i = threadIdx.x; i < count; i += blockDim.x) {
    float v = base[i];
    a += v;
    b += v * v;
  }
  s1[threadIdx.x] = a;
  s2[threadIdx.x] = b;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) {
      s1[threadIdx.x] += s1[threadIdx.x + s];
      s2[threadIdx.x] += s2[threadIdx.x + s];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    float m = s1[0] / count;
    mean[blockIdx.x] = m;
    rstd[blockIdx.x] = rsqrtf(fmaxf(s2[0] / count - m * m, 0.f) + eps);
  }
}

__global__ void gn_apply_kernel(const float* __restrict__ x, const float* __restrict__ mean,
                                const float* __restrict__ rstd, const float* __restrict__ gamma,
                                const float* __restrict__ beta, float* __restrict__ y, int C, int hw,
                                int channels_per_group, long long total) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < total; i += (long long)gridDim.x * blockDim.x) {
    const int c = (i / hw) % C;
    const long long ng = i / hw / channels_per_group;
    y[i] = (x[i] - mean[ng]) * rstd[ng] * gamma[c] + beta[c];
  }
}

void group_norm_forward(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd, int N,
                        int C, int H, int W, int num_groups, float eps, cudaStream_t stream) {
  const int cpg = C / num_groups, hw = H * W;
  gn_stats_kernel<<<N * num_groups, 256, 0, stream>>>(x, mean, rstd, cpg, hw, eps);
  const long long total = (long long)N * C * hw;
  gn_apply_kernel<<<(int)((total + 1023) / 1024), 256, 0, stream>>>(x, mean, rstd, gamma, beta, y, C, hw, cpg, total);
}
