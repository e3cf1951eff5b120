#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>

// LayerNorm, one warp per row, Welford's algorithm with the parallel combine of Chan et al.

constexpr int kWarpSize = 32;

template <typename T>
__inline__ __device__ void WelfordCombine(T val, T* mean, T* m2, T* count) {
  *count += 1;
  T delta1 = val - *mean;
  *mean += delta1 / *count;
  T delta2 = val - *mean;
  *m2 += delta1 * delta2;
}

template <typename T>
__inline__ __device__ void WelfordCombine(T b_mean, T b_m2, T b_count, T* mean, T* m2, T* count) {
  if (b_count == 0) return;
  T new_count = *count + b_count;
  T nb_over_n = b_count / new_count;
  T delta = b_mean - *mean;
  *mean += delta * nb_over_n;
  *m2 += b_m2 + delta * delta * (*count) * nb_over_n;
  *count = new_count;
}

template <typename T>
__inline__ __device__ void WelfordWarpAllReduce(T thread_mean, T thread_m2, T thread_count, T* mean, T* m2, T* count) {
  *mean = thread_mean;
  *m2 = thread_m2;
  *count = thread_count;
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    T b_mean = __shfl_down_sync(0xffffffff, *mean, mask, kWarpSize);
    T b_m2 = __shfl_down_sync(0xffffffff, *m2, mask, kWarpSize);
    T b_count = __shfl_down_sync(0xffffffff, *count, mask, kWarpSize);
    WelfordCombine(b_mean, b_m2, b_count, mean, m2, count);
  }
  *mean = __shfl_sync(0xffffffff, *mean, 0, kWarpSize);
  *m2 = __shfl_sync(0xffffffff, *m2, 0, kWarpSize);
  *count = __shfl_sync(0xffffffff, *count, 0, kWarpSize);
}

template <typename T, typename ComputeType>
__global__ void LayerNormWarpImpl(const T* x, const T* gamma, const T* beta, T* y, ComputeType* mean_out,
                                  ComputeType* inv_variance_out, const int64_t rows, const int64_t cols,
                                  const double epsilon) {
  const int64_t global_warp = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  const int64_t num_warps = (int64_t)gridDim.x * blockDim.y;
  const int lane = threadIdx.x;
  for (int64_t row = global_warp; row < rows; row += num_warps) {
    ComputeType thread_mean = 0, thread_m2 = 0, thread_count = 0;
    for (int64_t col = lane; col < cols; col += kWarpSize) {
      WelfordCombine(static_cast<ComputeType>(x[row * cols + col]), &thread_mean, &thread_m2, &thread_count);
    }
    ComputeType mean, m2, count;
    WelfordWarpAllReduce(thread_mean, thread_m2, thread_count, &mean, &m2, &count);
    ComputeType variance = max(m2 / count, static_cast<ComputeType>(0));
    ComputeType inv_std = rsqrtf(variance + static_cast<ComputeType>(epsilon));
    if (lane == 0) {
      mean_out[row] = mean;
      inv_variance_out[row] = inv_std;
    }
    for (int64_t col = lane; col < cols; col += kWarpSize) {
      ComputeType v = (static_cast<ComputeType>(x[row * cols + col]) - mean) * inv_std;
      y[row * cols + col] = static_cast<T>(v * static_cast<ComputeType>(gamma[col]) + static_cast<ComputeType>(beta[col]));
    }
  }
}

inline cudaError_t GetNumBlocks(int64_t max_blocks, int waves, int* num_blocks) {
  int dev;
  {
    cudaError_t err = cudaGetDevice(&dev);
    if (err != cudaSuccess) { return err; }
  }
  int sm_count;
  {
    cudaError_t err = cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, dev);
    if (err != cudaSuccess) { return err; }
  }
  *num_blocks = (int)(max_blocks < (int64_t)sm_count * waves ? max_blocks : (int64_t)sm_count * waves);
  return cudaSuccess;
}

template <typename T, typename ComputeType>
inline cudaError_t DispatchLayerNorm(cudaStream_t stream, const T* x, const T* gamma, const T* beta, T* y,
                                     ComputeType* mean, ComputeType* inv_variance, int64_t rows, int64_t cols,
                                     double epsilon) {
  constexpr int block_size = 128;
  dim3 block_dim(kWarpSize, block_size / kWarpSize);
  const int64_t num_blocks = (rows + block_dim.y - 1) / block_dim.y;
  int grid_dim_x;
  {
    cudaError_t err = GetNumBlocks(num_blocks, 32, &grid_dim_x);
    if (err != cudaSuccess) { return err; }
  }
  LayerNormWarpImpl<T, ComputeType><<<grid_dim_x, block_dim, 0, stream>>>(x, gamma, beta, y, mean, inv_variance, rows,
                                                                          cols, epsilon);
  return cudaPeekAtLastError();
}

cudaError_t LayerNormHalf(cudaStream_t stream, const half* x, const half* gamma, const half* beta, half* y, float* mean,
                          float* rstd, int64_t rows, int64_t cols) {
  return DispatchLayerNorm<half, float>(stream, x, gamma, beta, y, mean, rstd, rows, cols, 1e-5);
}
