// kernel: fill<float, 4>
// instantiate: fill<float, 4>
#include <torch/extension.h>
template <typename T, int N>
__global__ void fill(T *o) {
  o[threadIdx.x] = T(N);  // HERE
}
void run(torch::Tensor t) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(t.scalar_type(), "fill", ([&] {
    fill<scalar_t, 4><<<1, 32>>>(t.data_ptr<scalar_t>());
  }));
}
