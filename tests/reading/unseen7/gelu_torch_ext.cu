#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__global__ void gelu_forward_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, size_t n) {
  const size_t stride = blockDim.x * gridDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float v = static_cast<float>(x[i]);
    out[i] = static_cast<scalar_t>(0.5f * v * (1.0f + erff(v * 0.70710678118654752f)));
  }
}

torch::Tensor gelu_forward(torch::Tensor x) {
  CHECK_INPUT(x);
  auto out = torch::empty_like(x);
  const size_t n = x.numel();
  const int threads = 256;
  const int blocks = std::min<size_t>((n + threads - 1) / threads, 1024);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "gelu_forward", ([&] {
    gelu_forward_kernel<scalar_t><<<blocks, threads>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n);
  }));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &gelu_forward, "GELU forward"); }
