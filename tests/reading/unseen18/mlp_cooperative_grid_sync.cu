// Two layers in one cooperative launch: hidden = relu(X W1 + b1), out = hidden W2 + b2, a grid barrier between.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cassert>
#include <cmath>
#include <iostream>
#include <vector>

namespace cg = cooperative_groups;

template <bool Relu>
__device__ void layer(const half* in, const half* weights, const float* bias, half* out, int rows, int in_dim,
                      int out_dim, float (*scratch)[16]) {
  using namespace nvcuda::wmma;
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int tiles_n = out_dim / 16, tiles = rows / 16 * tiles_n;
  const int first = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  for (int tile = first; tile < tiles; tile += gridDim.x * warp.meta_group_size()) {
    const int r = tile / tiles_n * 16, c = tile % tiles_n * 16;
    fragment<accumulator, 16, 16, 16, float> acc;
    fill_fragment(acc, 0.0f);
    for (int k = 0; k < in_dim; k += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a;
      fragment<matrix_b, 16, 16, 16, half, row_major> b;
      load_matrix_sync(a, in + r * in_dim + k, in_dim);
      load_matrix_sync(b, weights + k * out_dim + c, out_dim);
      mma_sync(acc, a, b, acc);
    }
    store_matrix_sync(&scratch[0][0], acc, 16, mem_row_major);
    warp.sync();
    for (int i = warp.thread_rank(); i < 256; i += warp.size()) {
      float v = scratch[i / 16][i % 16] + bias[c + i % 16];
      if (Relu) v = fmaxf(v, 0.0f);
      out[(r + i / 16) * out_dim + c + i % 16] = __float2half(v);
    }
    warp.sync();
  }
}

__global__ void mlp_kernel(const half* x, const half* w1, const float* b1, half* hidden, const half* w2,
                           const float* b2, half* y, int rows, int d_in, int d_hidden, int d_out) {
  __shared__ __align__(32) float scratch[4][16][16];
  cg::grid_group grid = cg::this_grid();
  layer<true>(x, w1, b1, hidden, rows, d_in, d_hidden, scratch[threadIdx.x / 32]);
  grid.sync();
  layer<false>(hidden, w2, b2, y, rows, d_hidden, d_out, scratch[threadIdx.x / 32]);
}

template <typename T>
T* upload(const std::vector<T>& v) {
  T* p;
  cudaMalloc(&p, v.size() * sizeof(T));
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int main() {
  int rows = 32, d_in = 48, d_hidden = 64, d_out = 32;
  std::vector<half> x(rows * d_in), w1(d_in * d_hidden), w2(d_hidden * d_out), y(rows * d_out);
  std::vector<float> b1(d_hidden), b2(d_out);
  unsigned state = 1;
  auto next = [&state] { state = state * 1664525u + 1013904223u; return (state >> 8) / 8388608.0f - 1.0f; };
  for (auto* v : {&x, &w1, &w2})
    for (half& e : *v) e = __float2half(0.25f * next());
  for (auto* v : {&b1, &b2})
    for (float& e : *v) e = next();
  half *dx = upload(x), *dw1 = upload(w1), *dw2 = upload(w2), *dy = upload(y), *dh;
  float *db1 = upload(b1), *db2 = upload(b2);
  cudaMalloc(&dh, rows * d_hidden * sizeof(half));
  void* args[] = {&dx, &dw1, &db1, &dh, &dw2, &db2, &dy, &rows, &d_in, &d_hidden, &d_out};
  cudaLaunchCooperativeKernel((void*)mlp_kernel, dim3(2), dim3(128), args, 0, 0);
  assert(cudaDeviceSynchronize() == cudaSuccess);
  cudaMemcpy(y.data(), dy, y.size() * sizeof(half), cudaMemcpyDeviceToHost);

  float worst = 0.0f;
  std::vector<float> h(d_hidden);
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < d_hidden; ++j) {
      h[j] = b1[j];
      for (int k = 0; k < d_in; ++k) h[j] += __half2float(x[r * d_in + k]) * __half2float(w1[k * d_hidden + j]);
      h[j] = std::max(h[j], 0.0f);
    }
    for (int j = 0; j < d_out; ++j) {
      float s = b2[j];
      for (int k = 0; k < d_hidden; ++k) s += h[k] * __half2float(w2[k * d_out + j]);
      worst = std::max(worst, std::fabs(s - __half2float(y[r * d_out + j])));
    }
  }
  std::cout << (worst < 5e-3f ? "OK " : "MISMATCH ") << worst << std::endl;
  return worst < 5e-3f ? 0 : 1;
}
