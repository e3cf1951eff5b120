#include <cstdint>
#include <cuda_runtime.h>

constexpr int kTile = 32;
constexpr int kRows = 8;

/// Batched out-of-place transpose, `dst[b][c][r] = src[b][r][c]`.
template <typename T>
__global__ void batched_transpose(T* __restrict__ dst, const T* __restrict__ src, int rows, int cols) {
  __shared__ T tile[kTile][kTile + 1];
  src += (size_t)blockIdx.z * rows * cols;
  dst += (size_t)blockIdx.z * rows * cols;
  int c = blockIdx.x * kTile + threadIdx.x;
  int r = blockIdx.y * kTile + threadIdx.y;
#pragma unroll
  for (int j = 0; j < kTile; j += kRows)
    if (c < cols && r + j < rows) tile[threadIdx.y + j][threadIdx.x] = src[(size_t)(r + j) * cols + c];
  __syncthreads();
  int rt = blockIdx.y * kTile + threadIdx.x;
  int ct = blockIdx.x * kTile + threadIdx.y;
#pragma unroll
  for (int j = 0; j < kTile; j += kRows)
    if (rt < rows && ct + j < cols) dst[(size_t)(ct + j) * rows + rt] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename T>
cudaError_t transpose(T* dst, const T* src, int batch, int rows, int cols, cudaStream_t stream = nullptr) {
  dim3 block(kTile, kRows);
  dim3 grid((cols + kTile - 1) / kTile, (rows + kTile - 1) / kTile, batch);
  batched_transpose<T><<<grid, block, 0, stream>>>(dst, src, rows, cols);
  return cudaPeekAtLastError();
}

template cudaError_t transpose<float>(float*, const float*, int, int, int, cudaStream_t);
template cudaError_t transpose<uint16_t>(uint16_t*, const uint16_t*, int, int, int, cudaStream_t);
