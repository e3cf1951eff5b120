// Exclusive prefix sum of any length: scan blocks, scan the block sums, add them back.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 256

__device__ int warp_inclusive(int v) {
  int lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d <<= 1) {
    int n = __shfl_up_sync(0xffffffff, v, d);
    if (lane >= d) v += n;
  }
  return v;
}

__global__ void scan_blocks(const int* in, int* out, int* sums, int n) {
  __shared__ int warp_totals[BLOCK / 32];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  int x = i < n ? in[i] : 0;
  int inc = warp_inclusive(x);
  if (lane == 31) warp_totals[w] = inc;
  __syncthreads();
  if (w == 0) {
    int t = lane < BLOCK / 32 ? warp_totals[lane] : 0;
    t = warp_inclusive(t);
    if (lane < BLOCK / 32) warp_totals[lane] = t;
  }
  __syncthreads();
  int before = w ? warp_totals[w - 1] : 0;
  if (i < n) out[i] = before + inc - x;
  if (threadIdx.x == BLOCK - 1 && sums) sums[blockIdx.x] = before + inc;
}

__global__ void add_offsets(int* out, const int* offsets, int n) {
  int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) out[i] += offsets[blockIdx.x];
}

void exclusive_scan(const int* d_in, int* d_out, int n) {
  int blocks = (n + BLOCK - 1) / BLOCK;
  if (blocks == 1) {
    scan_blocks<<<1, BLOCK>>>(d_in, d_out, nullptr, n);
    return;
  }
  int* d_sums;
  cudaMalloc(&d_sums, blocks * sizeof(int));
  scan_blocks<<<blocks, BLOCK>>>(d_in, d_out, d_sums, n);
  exclusive_scan(d_sums, d_sums, blocks);
  add_offsets<<<blocks, BLOCK>>>(d_out, d_sums, n);
  cudaFree(d_sums);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 5000;
  std::vector<int> h(n), got(n);
  for (int& v : h) v = std::rand() % 10;
  int *d_in, *d_out;
  cudaMalloc(&d_in, n * sizeof(int));
  cudaMalloc(&d_out, n * sizeof(int));
  cudaMemcpy(d_in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  exclusive_scan(d_in, d_out, n);
  cudaMemcpy(got.data(), d_out, n * sizeof(int), cudaMemcpyDeviceToHost);
  int acc = 0;
  for (int i = 0; i < n; i++) {
    if (got[i] != acc) {
      std::printf("mismatch at %d: %d != %d\n", i, got[i], acc);
      return 1;
    }
    acc += h[i];
  }
  std::puts("scan ok");
  return 0;
}
