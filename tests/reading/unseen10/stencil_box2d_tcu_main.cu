// 2D box stencil (radius 1, 3x3) on FP16 tensor cores:  out = sum_r  In[row + r] * Band_r
// Every 16x16 output tile is three WMMA products: a 16 x 32 slab of input rows times a banded 32 x 16 weight matrix.
#include <mma.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <chrono>

#define CUDA_SAFE_CALL(call)                                                       \
  do {                                                                             \
    cudaError_t err = call;                                                        \
    if (cudaSuccess != err) {                                                      \
      fprintf(stderr, "[%s:%d] CUDA error: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
      std::exit(EXIT_FAILURE);                                                     \
    }                                                                              \
  } while (0)

constexpr int RADIUS = 1;
constexpr int TAPS = 2 * RADIUS + 1;
constexpr int TILE = 16;
constexpr int SLAB = 32;
constexpr int WARPS = 4;

__constant__ half c_band[TAPS * SLAB * TILE];

// in: (h + 2) x pitch with a halo of RADIUS on top/left, zero filled; out: h x w
__global__ void stencil_tcu(const half* __restrict__ in, float* __restrict__ out, int h, int w, int pitch) {
  using namespace nvcuda;
  __shared__ __align__(32) half band[TAPS * SLAB * TILE];
  for (int i = threadIdx.x; i < TAPS * SLAB * TILE; i += blockDim.x) band[i] = c_band[i];
  __syncthreads();

  const int warp = threadIdx.x / 32;
  const int ty = blockIdx.y * TILE;
  const int tx = (blockIdx.x * WARPS + warp) * TILE;
  if (tx >= w || ty >= h) return;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
#pragma unroll
  for (int r = 0; r < TAPS; ++r) {
#pragma unroll
    for (int kk = 0; kk < SLAB; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, in + (size_t)(ty + r) * pitch + tx + kk, pitch);
      wmma::load_matrix_sync(b, band + (r * SLAB + kk) * TILE, TILE);
      wmma::mma_sync(acc, a, b, acc);
    }
  }
  wmma::store_matrix_sync(out + (size_t)ty * w + tx, acc, w, wmma::mem_row_major);
}

static void build_band(const float (&weights)[TAPS][TAPS], std::vector<half>& band) {
  band.assign(TAPS * SLAB * TILE, __float2half(0.f));
  for (int r = 0; r < TAPS; ++r)
    for (int col = 0; col < TILE; ++col)
      for (int t = 0; t < TAPS; ++t) band[(r * SLAB + col + t) * TILE + col] = __float2half(weights[r][t]);
}

int main(int argc, char** argv) {
  const int h = argc > 1 ? std::atoi(argv[1]) : 64;
  const int w = argc > 2 ? std::atoi(argv[2]) : 128;
  const int pitch = w + 32;
  const float weights[TAPS][TAPS] = {{0.0625f, 0.125f, 0.0625f}, {0.125f, 0.25f, 0.125f}, {0.0625f, 0.125f, 0.0625f}};

  std::vector<half> in((h + 2 * RADIUS) * pitch, __float2half(0.f));
  std::srand(7);
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x)
      in[(y + RADIUS) * pitch + x + RADIUS] = __float2half(std::rand() / (float)RAND_MAX * 2.f - 1.f);
  std::vector<half> band;
  build_band(weights, band);

  half* d_in;
  float* d_out;
  CUDA_SAFE_CALL(cudaMalloc(&d_in, in.size() * sizeof(half)));
  CUDA_SAFE_CALL(cudaMalloc(&d_out, (size_t)h * w * sizeof(float)));
  CUDA_SAFE_CALL(cudaMemcpy(d_in, in.data(), in.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_SAFE_CALL(cudaMemcpyToSymbol(c_band, band.data(), band.size() * sizeof(half)));

  dim3 grid((w / TILE + WARPS - 1) / WARPS, h / TILE);
  auto t0 = std::chrono::steady_clock::now();
  stencil_tcu<<<grid, WARPS * 32>>>(d_in, d_out, h, w, pitch);
  CUDA_SAFE_CALL(cudaGetLastError());
  CUDA_SAFE_CALL(cudaDeviceSynchronize());
  auto t1 = std::chrono::steady_clock::now();

  std::vector<float> out((size_t)h * w);
  CUDA_SAFE_CALL(cudaMemcpy(out.data(), d_out, out.size() * sizeof(float), cudaMemcpyDeviceToHost));

  int bad = 0;
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      float ref = 0.f;
      for (int r = 0; r < TAPS; ++r)
        for (int t = 0; t < TAPS; ++t) ref += weights[r][t] * __half2float(in[(y + r) * pitch + x + t]);
      if (std::fabs(ref - out[(size_t)y * w + x]) > 1e-4f && bad++ < 5)
        printf("mismatch at (%d,%d): got %f expected %f\n", y, x, out[(size_t)y * w + x], ref);
    }
  printf("%s  %.3f ms\n", bad ? "FAILED" : "PASSED", std::chrono::duration<double, std::milli>(t1 - t0).count());
  cudaFree(d_in);
  cudaFree(d_out);
  return bad != 0;
}
