#include <cuda_runtime.h>
#include <math.h>

// Rotary embedding, interleaved pairs, x [batch, seq, heads, dim], in place
__global__ void rope_interleaved(float* x, int seq, int heads, int dim, float theta) {
  int pair = threadIdx.x, s = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
  if (pair >= dim / 2) return;
  float freq = powf(theta, -2.0f * pair / dim);
  float sn, cs;
  sincosf(s * freq, &sn, &cs);
  float* p = x + (((size_t)b * seq + s) * heads + h) * dim + 2 * pair;
  float x0 = p[0], x1 = p[1];
  p[0] = x0 * cs - x1 * sn;
  p[1] = x1 * cs - x0 * sn;
}

void apply_rope(float* x, int batch, int seq, int heads, int dim, float theta, cudaStream_t stream) {
  rope_interleaved<<<dim3(seq, heads, batch), dim / 2, 0, stream>>>(x, seq, heads, dim, theta);
}
