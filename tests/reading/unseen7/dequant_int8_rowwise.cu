#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

// out[r, c] = q[r, c] * scale[r]
__global__ void dequantize_rowwise_kernel(const int8_t* __restrict__ q, const float* __restrict__ scale,
                                          half* __restrict__ out, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y;
  if (c < cols) out[(size_t)r * cols + c] = __float2half(q[(size_t)r * cols + c] * scale[r]);
}

void dequantize_rowwise(const int8_t* q, const float* scale, half* out, int rows, int cols, cudaStream_t stream) {
  dim3 grid((cols + 255) / 256, rows);
  dequantize_rowwise_kernel<<<grid, 256, 0, stream>>>(q, scale, out, rows, cols);
}
