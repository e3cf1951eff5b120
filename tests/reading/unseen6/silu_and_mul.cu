#include <cuda_fp16.h>
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

// out[t, j] = silu(in[t, j]) * in[t, d + j]
__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

template <int VEC>
__global__ void silu_and_mul_kernel(half* __restrict__ out, const half* __restrict__ in, int d) {
  const int64_t t = blockIdx.x;
  const half* gate = in + t * 2 * d;
  const half* up = gate + d;
  half* o = out + t * d;
  for (int j = threadIdx.x * VEC; j < d; j += blockDim.x * VEC) {
    uint4 g4 = *reinterpret_cast<const uint4*>(gate + j);
    uint4 u4 = *reinterpret_cast<const uint4*>(up + j);
    uint4 o4;
    const half2* g = reinterpret_cast<const half2*>(&g4);
    const half2* u = reinterpret_cast<const half2*>(&u4);
    half2* r = reinterpret_cast<half2*>(&o4);
#pragma unroll
    for (int k = 0; k < VEC / 2; ++k) {
      float2 a = __half22float2(g[k]);
      float2 b = __half22float2(u[k]);
      r[k] = __floats2half2_rn(silu(a.x) * b.x, silu(a.y) * b.y);
    }
    *reinterpret_cast<uint4*>(o + j) = o4;
  }
}

torch::Tensor silu_and_mul(torch::Tensor input) {
  TORCH_CHECK(input.scalar_type() == torch::kHalf, "half only");
  const int d = input.size(-1) / 2;
  TORCH_CHECK(d % 8 == 0, "d must be a multiple of 8");
  const int tokens = input.numel() / (2 * d);
  auto sizes = input.sizes().vec();
  sizes.back() = d;
  auto out = torch::empty(sizes, input.options());
  const int threads = std::min(d / 8, 256);
  auto stream = c10::cuda::getCurrentCUDAStream().stream();
  silu_and_mul_kernel<8><<<tokens, threads, 0, stream>>>(reinterpret_cast<half*>(out.data_ptr<at::Half>()),
                                                         reinterpret_cast<const half*>(input.data_ptr<at::Half>()), d);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu_and_mul", &silu_and_mul); }
