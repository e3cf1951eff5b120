// Kernels of a small transformer; no launches here.
#pragma once
#include <cuda_fp16.h>
#include <mma.h>

__device__ inline float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
