// Comparison of softmax kernels over the rows of a matrix  (rows x cols, float)
//
//   naive       one thread per row, three passes
//   block       one block per row, shared memory tree reductions
//   warp        one warp per row, shuffles
//   online      one warp per row, one pass for max and sum (Milakov & Gimelshein 2018)
//   vec4        one block per row, float4, row kept in registers (cols % 4 == 0, cols <= 4096)
//   logsoftmax  cross entropy loss per row
//
//   nvcc -O3 -std=c++14 softmax_bench.cu -o softmax_bench && ./softmax_bench 1024 2048

#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/host_vector.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#define CUDA_CHECK(e)                                                                    \
  {                                                                                      \
    cudaError_t _e = (e);                                                                \
    if (_e != cudaSuccess) {                                                             \
      std::printf("%s failed: %s (line %d)\n", #e, cudaGetErrorString(_e), __LINE__);    \
      std::exit(2);                                                                      \
    }                                                                                    \
  }

// ---------------------------------------------------------------------- naive
__global__ void softmax_naive(const float* in, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* x = in + (size_t)r * cols;
  float* y = out + (size_t)r * cols;
  float m = -FLT_MAX;
  for (int c = 0; c < cols; ++c) m = fmaxf(m, x[c]);
  float s = 0.f;
  for (int c = 0; c < cols; ++c) s += expf(x[c] - m);
  for (int c = 0; c < cols; ++c) y[c] = expf(x[c] - m) / s;
}

// ---------------------------------------------------------------------- block
template <int THREADS>
__global__ void softmax_block(const float* in, float* out, int cols) {
  __shared__ float red[THREADS];
  const int tid = threadIdx.x;
  const float* x = in + (size_t)blockIdx.x * cols;
  float* y = out + (size_t)blockIdx.x * cols;

  float m = -FLT_MAX;
  for (int c = tid; c < cols; c += THREADS) m = fmaxf(m, x[c]);
  red[tid] = m;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s >>= 1) {
    if (tid < s) red[tid] = fmaxf(red[tid], red[tid + s]);
    __syncthreads();
  }
  m = red[0];
  __syncthreads();  // before red is written again

  float sum = 0.f;
  for (int c = tid; c < cols; c += THREADS) {
    const float e = expf(x[c] - m);
    y[c] = e;
    sum += e;
  }
  red[tid] = sum;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s >>= 1) {
    if (tid < s) red[tid] += red[tid + s];
    __syncthreads();
  }
  const float inv = 1.f / red[0];
  for (int c = tid; c < cols; c += THREADS) y[c] *= inv;
}

// ----------------------------------------------------------------------- warp
template <typename Op>
__device__ __forceinline__ float warpAllReduce(float v, Op op) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v = op(v, __shfl_xor_sync(0xffffffff, v, mask));
  return v;
}

__global__ void softmax_warp(const float* in, float* out, int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;  // whole warps
  const float* x = in + (size_t)row * cols;
  float* y = out + (size_t)row * cols;

  float m = -FLT_MAX;
  for (int c = lane; c < cols; c += 32) m = fmaxf(m, x[c]);
  m = warpAllReduce(m, [](float a, float b) { return fmaxf(a, b); });
  float s = 0.f;
  for (int c = lane; c < cols; c += 32) s += expf(x[c] - m);
  s = warpAllReduce(s, [](float a, float b) { return a + b; });
  for (int c = lane; c < cols; c += 32) y[c] = expf(x[c] - m) / s;
}

// --------------------------------------------------------------------- online
struct __align__(8) MD {
  float m;
  float d;
};

__device__ __forceinline__ MD md_reduce(MD a, MD b) {
  const bool a_bigger = a.m > b.m;
  const MD big = a_bigger ? a : b;
  const MD small = a_bigger ? b : a;
  MD r;
  r.m = big.m;
  r.d = big.d + small.d * expf(small.m - big.m);
  return r;
}

__global__ void softmax_online(const float* in, float* out, int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = in + (size_t)row * cols;
  float* y = out + (size_t)row * cols;

  MD acc = {-FLT_MAX, 0.f};
  for (int c = lane; c < cols; c += 32) acc = md_reduce(acc, MD{x[c], 1.f});
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    MD other;
    other.m = __shfl_xor_sync(0xffffffff, acc.m, mask);
    other.d = __shfl_xor_sync(0xffffffff, acc.d, mask);
    acc = md_reduce(acc, other);
  }
  const float inv = 1.f / acc.d;
  for (int c = lane; c < cols; c += 32) y[c] = expf(x[c] - acc.m) * inv;
}

// ----------------------------------------------------------------------- vec4
__global__ void __launch_bounds__(256) softmax_vec4(const float* in, float* out, int cols) {
  constexpr int kThreads = 256;
  constexpr int kMaxVec = 4;  // 256 * 4 * 4 = 4096 columns
  __shared__ float warp_red[kThreads / 32];
  const int n4 = cols / 4;
  const float4* x = reinterpret_cast<const float4*>(in + (size_t)blockIdx.x * cols);
  float4* y = reinterpret_cast<float4*>(out + (size_t)blockIdx.x * cols);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;

  float4 v[kMaxVec];
  float m = -FLT_MAX;
#pragma unroll
  for (int i = 0; i < kMaxVec; ++i) {
    const int c = threadIdx.x + i * kThreads;
    if (c < n4) {
      v[i] = x[c];
      m = fmaxf(m, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
  }
  m = warpAllReduce(m, [](float a, float b) { return fmaxf(a, b); });
  if (lane == 0) warp_red[warp] = m;
  __syncthreads();
  m = warp_red[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) m = fmaxf(m, warp_red[w]);
  __syncthreads();

  float s = 0.f;
#pragma unroll
  for (int i = 0; i < kMaxVec; ++i) {
    if (threadIdx.x + i * kThreads < n4) {
      v[i].x = expf(v[i].x - m);
      v[i].y = expf(v[i].y - m);
      v[i].z = expf(v[i].z - m);
      v[i].w = expf(v[i].w - m);
      s += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
  }
  s = warpAllReduce(s, [](float a, float b) { return a + b; });
  if (lane == 0) warp_red[warp] = s;
  __syncthreads();
  s = 0.f;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) s += warp_red[w];
  const float inv = 1.f / s;

#pragma unroll
  for (int i = 0; i < kMaxVec; ++i) {
    const int c = threadIdx.x + i * kThreads;
    if (c < n4) y[c] = make_float4(v[i].x * inv, v[i].y * inv, v[i].z * inv, v[i].w * inv);
  }
}

// -------------------------------------------------------------- cross entropy
// loss[row] = log(sum exp(x)) - x[target]
__global__ void cross_entropy_rows(const float* in, const int* target, float* loss, int rows, int cols) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = in + (size_t)row * cols;
  MD acc = {-FLT_MAX, 0.f};
  for (int c = lane; c < cols; c += 32) acc = md_reduce(acc, MD{x[c], 1.f});
  for (int mask = 16; mask > 0; mask /= 2) {
    MD other;
    other.m = __shfl_xor_sync(0xffffffff, acc.m, mask);
    other.d = __shfl_xor_sync(0xffffffff, acc.d, mask);
    acc = md_reduce(acc, other);
  }
  if (lane == 0) loss[row] = acc.m + logf(acc.d) - x[target[row]];
}

// ----------------------------------------------------------------------- host
int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 1024;
  const int cols = argc > 2 ? std::atoi(argv[2]) : 2048;

  thrust::host_vector<float> h_in((size_t)rows * cols), h_ref((size_t)rows * cols), h_loss(rows);
  thrust::host_vector<int> h_target(rows);
  for (auto& v : h_in) v = 20.f * std::rand() / RAND_MAX - 10.f;
  for (int r = 0; r < rows; ++r) {
    h_target[r] = std::rand() % cols;
    const float* x = &h_in[(size_t)r * cols];
    double m = -DBL_MAX, s = 0;
    for (int c = 0; c < cols; ++c) m = std::fmax(m, x[c]);
    for (int c = 0; c < cols; ++c) s += std::exp(x[c] - m);
    for (int c = 0; c < cols; ++c) h_ref[(size_t)r * cols + c] = (float)(std::exp(x[c] - m) / s);
    h_loss[r] = (float)(m + std::log(s) - x[h_target[r]]);
  }

  thrust::device_vector<float> d_in = h_in, d_out(h_in.size()), d_loss(rows);
  thrust::device_vector<int> d_target = h_target;
  const float* in = thrust::raw_pointer_cast(d_in.data());
  float* out = thrust::raw_pointer_cast(d_out.data());

  auto bench = [&](const std::string& name, const std::function<void()>& launch) {
    thrust::fill(d_out.begin(), d_out.end(), 0.f);
    launch();
    CUDA_CHECK(cudaGetLastError());
    thrust::host_vector<float> h = d_out;
    float err = 0.f;
    for (size_t i = 0; i < h.size(); ++i) err = std::fmax(err, std::fabs(h[i] - h_ref[i]));
    cudaEvent_t e0, e1;
    CUDA_CHECK(cudaEventCreate(&e0));
    CUDA_CHECK(cudaEventCreate(&e1));
    CUDA_CHECK(cudaEventRecord(e0));
    for (int i = 0; i < 20; ++i) launch();
    CUDA_CHECK(cudaEventRecord(e1));
    CUDA_CHECK(cudaEventSynchronize(e1));
    float ms = 0.f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, e0, e1));
    ms /= 20;
    std::printf("%-10s %8.3f ms %8.1f GB/s  err %.2e\n", name.c_str(), ms,
                2.0 * h_in.size() * sizeof(float) / ms * 1e-6, err);
    CUDA_CHECK(cudaEventDestroy(e0));
    CUDA_CHECK(cudaEventDestroy(e1));
  };

  const int warp_blocks = (rows + 7) / 8;  // 8 warps of 32
  bench("naive", [&] { softmax_naive<<<(rows + 127) / 128, 128>>>(in, out, rows, cols); });
  bench("block", [&] { softmax_block<256><<<rows, 256>>>(in, out, cols); });
  bench("warp", [&] { softmax_warp<<<warp_blocks, 256>>>(in, out, rows, cols); });
  bench("online", [&] { softmax_online<<<warp_blocks, 256>>>(in, out, rows, cols); });
  if (cols % 4 == 0 && cols <= 4096) bench("vec4", [&] { softmax_vec4<<<rows, 256>>>(in, out, cols); });

  cross_entropy_rows<<<warp_blocks, 256>>>(in, thrust::raw_pointer_cast(d_target.data()),
                                           thrust::raw_pointer_cast(d_loss.data()), rows, cols);
  CUDA_CHECK(cudaGetLastError());
  thrust::host_vector<float> loss = d_loss;
  float err = 0.f;
  for (int r = 0; r < rows; ++r) err = std::fmax(err, std::fabs(loss[r] - h_loss[r]));
  std::printf("cross entropy err %.2e\n", err);
  return 0;
}
