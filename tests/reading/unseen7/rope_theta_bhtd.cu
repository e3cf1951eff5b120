#include <cuda_fp16.h>
#include <cuda_runtime.h>

// q: [B, H, T, D], rotate pairs (2i, 2i+1). Out of place.
__global__ void apply_rotary_kernel(const half* __restrict__ q, half* __restrict__ out, int B, int H, int T, int D,
                                    float theta_base) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  int total = B * H * T * (D / 2);
  if (idx >= total) return;
  int i = idx % (D / 2);
  int t = (idx / (D / 2)) % T;
  float inv_freq = 1.0f / powf(theta_base, (2.0f * i) / D);
  float angle = t * inv_freq;
  float c = cosf(angle), s = sinf(angle);
  size_t base = (size_t)(idx / (D / 2)) * D + 2 * i;
  float x0 = __half2float(q[base]), x1 = __half2float(q[base + 1]);
  out[base] = __float2half(x0 * c - x1 * s);
  out[base + 1] = __float2half(x0 * s + x1 * c);
}

void apply_rotary(const half* q, half* out, int B, int H, int T, int D, float theta_base, cudaStream_t stream) {
  int total = B * H * T * (D / 2);
  apply_rotary_kernel<<<(total + 255) / 256, 256, 0, stream>>>(q, out, B, H, T, D, theta_base);
}
