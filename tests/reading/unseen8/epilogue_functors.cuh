#pragma once
#include <cuda_fp16.h>

struct Identity {
  __device__ float operator()(float x) const { return x; }
};
struct ReLU {
  __device__ float operator()(float x) const { return x > 0.f ? x : 0.f; }
};
struct GELU {  // the tanh form
  __device__ float operator()(float x) const {
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.f + tanhf(inner));
  }
};
