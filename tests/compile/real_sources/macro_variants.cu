// kernel: kernel
// macro: USE_WMMA=1
// macro: FLAG
#ifndef USE_WMMA
#define USE_WMMA 0
#endif
__global__ void kernel(float *x) {
#if USE_WMMA
  x[0] = 1.0f;  // HERE
#else
  x[0] = not_defined;
#endif
}
