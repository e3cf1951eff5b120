// kernel: kernel
#include <cassert>
#include <cstdio>
__global__ void kernel(float *x, int n) {
  assert(n > 0);  // HERE
  if (threadIdx.x == 0) printf("n = %d\n", n);  // HERE
  x[threadIdx.x] = n;
}
int main() { printf("host\n"); std::fprintf(stderr, "x"); assert(true); }
