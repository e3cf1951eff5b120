#include <cuda_runtime.h>
#define TILE 32

__global__ void transpose_kernel(float* odata, const float* idata, int width, int height) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += 8)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += 8)
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

void transpose(float* odata, const float* idata, int width, int height) {
  transpose_kernel<<<dim3((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), dim3(TILE, 8)>>>(odata, idata, width, height);
}
