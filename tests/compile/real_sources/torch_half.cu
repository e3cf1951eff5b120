// kernel: widen
#include <torch/extension.h>
__global__ void widen(const at::Half *a, float *o) {
  o[threadIdx.x] = static_cast<float>(a[threadIdx.x]) * 2.0f;  // HERE
}
