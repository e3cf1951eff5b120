// kernel: kernel
// note: stub-header
#include <some/vendor/library.hpp>
#include "helper_cuda.h"
__global__ void kernel(float *x) { x[threadIdx.x] = 1.5f; }  // HERE
void host() { vendor::call(); checkCudaErrors(0); }
