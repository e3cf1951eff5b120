// kernel: scale
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call)                                                       \
  do {                                                                    \
    cudaError_t e = (call);                                               \
    if (e != cudaSuccess) { fprintf(stderr, "%s", cudaGetErrorString(e)); exit(1); } \
  } while (0)

__global__ void scale(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3.0f;  // HERE
}

static int parse(int argc, char **argv) { return argc > 1 ? atoi(argv[1]) : 1024; }

int main(int argc, char **argv) {
  int n = parse(argc, argv);
  std::vector<float> host(n, 1.0f);
  float *device;
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  scale<<<(n + 255) / 256, 256>>>(device, n);
  CHECK(cudaDeviceSynchronize());
  for (auto v : host) printf("%f\n", v);
  return 0;
}
