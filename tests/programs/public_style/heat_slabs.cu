// 3D heat equation in slabs, one stream per slab, halos exchanged by copies on the device.
// BUG on purpose: the halo copies of a step do not wait for the neighbour's stream.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK_CUDA(expr)                                                                     \
  {                                                                                          \
    cudaError_t status = (expr);                                                             \
    if (status != cudaSuccess) {                                                             \
      printf("CUDA API failed at line %d with error: %s (%d)\n", __LINE__,                   \
             cudaGetErrorString(status), status);                                            \
      return EXIT_FAILURE;                                                                   \
    }                                                                                        \
  }

constexpr int NX = 64, NY = 64;
constexpr int SLABS = 4;
#ifndef NZ
#define NZ 32
#endif
constexpr int DEPTH = NZ / SLABS;
constexpr size_t PLANE = size_t(NX) * NY;

__global__ void heat(const float *__restrict__ in, float *__restrict__ out, int nz, float c, bool first, bool last) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= NX || y >= NY) return;
  float below = in[0 * PLANE + y * NX + x], here = in[1 * PLANE + y * NX + x], above;
  for (int z = 1; z <= nz; ++z) {
    above = in[(z + 1) * PLANE + y * NX + x];
    const size_t i = z * PLANE + y * NX + x;
    if (x == 0 || y == 0 || x == NX - 1 || y == NY - 1 || (first && z == 1) || (last && z == nz)) out[i] = here;
    else out[i] = here + c * (in[i - 1] + in[i + 1] + in[i - NX] + in[i + NX] + below + above - 6.f * here);
    below = here;
    here = above;
  }
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 4;
  const float c = 0.1f;
  float *host;
  CHECK_CUDA(cudaMallocHost(&host, NZ * PLANE * sizeof(float)));
  for (int z = 0; z < NZ; ++z)
    for (int y = 0; y < NY; ++y)
      for (int x = 0; x < NX; ++x) host[z * PLANE + y * NX + x] = sinf(0.1f * x) * cosf(0.2f * y) + 0.05f * z;
  std::vector<float> ref(host, host + NZ * PLANE), tmp(ref);

  float *grid[2][SLABS];
  cudaStream_t streams[SLABS];
  cudaEvent_t done[SLABS];
  for (int s = 0; s < SLABS; ++s) {
    CHECK_CUDA(cudaStreamCreate(&streams[s]));
    CHECK_CUDA(cudaEventCreateWithFlags(&done[s], cudaEventDisableTiming));
    for (int b = 0; b < 2; ++b) {
      CHECK_CUDA(cudaMalloc(&grid[b][s], (DEPTH + 2) * PLANE * sizeof(float)));
      CHECK_CUDA(cudaMemsetAsync(grid[b][s], 0, (DEPTH + 2) * PLANE * sizeof(float), streams[s]));
    }
    CHECK_CUDA(cudaMemcpyAsync(grid[0][s] + PLANE, host + s * DEPTH * PLANE, DEPTH * PLANE * sizeof(float), cudaMemcpyHostToDevice, streams[s]));
    CHECK_CUDA(cudaEventRecord(done[s], streams[s]));
  }
  CHECK_CUDA(cudaDeviceSynchronize());

  dim3 block(32, 8), blocks((NX + 31) / 32, (NY + 7) / 8);
  int cur = 0;
  for (int t = 0; t < steps; ++t) {
    for (int s = 0; s < SLABS; ++s) {
      // the missing lines: cudaStreamWaitEvent(streams[s], done[s - 1]) and done[s + 1]
      if (s > 0)
        CHECK_CUDA(cudaMemcpyAsync(grid[cur][s], grid[cur][s - 1] + DEPTH * PLANE, PLANE * sizeof(float), cudaMemcpyDeviceToDevice, streams[s]));
      if (s < SLABS - 1)
        CHECK_CUDA(cudaMemcpyAsync(grid[cur][s] + (DEPTH + 1) * PLANE, grid[cur][s + 1] + PLANE, PLANE * sizeof(float), cudaMemcpyDeviceToDevice, streams[s]));
    }
    for (int s = 0; s < SLABS; ++s) {
      heat<<<blocks, block, 0, streams[s]>>>(grid[cur][s], grid[cur ^ 1][s], DEPTH, c, s == 0, s == SLABS - 1);
      CHECK_CUDA(cudaEventRecord(done[s], streams[s]));
    }
    cur ^= 1;
  }
  for (int s = 0; s < SLABS; ++s)
    CHECK_CUDA(cudaMemcpyAsync(host + s * DEPTH * PLANE, grid[cur][s] + PLANE, DEPTH * PLANE * sizeof(float), cudaMemcpyDeviceToHost, streams[s]));
  CHECK_CUDA(cudaDeviceSynchronize());

  for (int t = 0; t < steps; ++t) {
    tmp = ref;
    for (int z = 1; z < NZ - 1; ++z)
      for (int y = 1; y < NY - 1; ++y)
        for (int x = 1; x < NX - 1; ++x) {
          size_t i = z * PLANE + y * NX + x;
          tmp[i] = ref[i] + c * (ref[i - 1] + ref[i + 1] + ref[i - NX] + ref[i + NX] + ref[i - PLANE] + ref[i + PLANE] - 6.f * ref[i]);
        }
    std::swap(ref, tmp);
  }
  double err = 0;
  for (size_t i = 0; i < ref.size(); ++i) err = std::max(err, (double)fabsf(ref[i] - host[i]));
  printf("max difference after %d steps: %g\n", steps, err);
  for (int s = 0; s < SLABS; ++s) {
    cudaStreamDestroy(streams[s]);
    cudaEventDestroy(done[s]);
    cudaFree(grid[0][s]);
    cudaFree(grid[1][s]);
  }
  cudaFreeHost(host);
  printf("%s\n", err < 1e-4 ? "Result = PASS" : "Result = FAIL");
  return err < 1e-4 ? 0 : 1;
}
