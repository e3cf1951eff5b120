// kernel: largest<64>
#include <cub/cub.cuh>
#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
template <int BLOCK> __global__ void largest(const float *x, float *y) {
  using Reduce = cub::BlockReduce<float, BLOCK>;
  __shared__ typename Reduce::TempStorage storage;
  float most = Reduce(storage).Reduce(x[threadIdx.x], cub::Max());
  if (threadIdx.x == 0) y[0] = most;  // HERE
}
int main() {
  thrust::device_vector<float> x(64), y(1);
  size_t bytes = 0;
  cub::DeviceReduce::Sum(nullptr, bytes, x.begin(), y.begin(), 64);
  largest<64><<<1, 64>>>(thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(y.data()));
}
