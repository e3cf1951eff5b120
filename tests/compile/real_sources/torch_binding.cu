// kernel: add_kernel<float>
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <vector>
#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " bad")
namespace {
template <typename scalar_t>
__global__ void add_kernel(const scalar_t *__restrict__ a, scalar_t *__restrict__ o, size_t n) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) o[i] = a[i] + scalar_t(1);  // HERE
}
}  // namespace
std::vector<torch::Tensor> forward(torch::Tensor a) {
  CHECK_INPUT(a);
  const at::cuda::OptionalCUDAGuard guard(device_of(a));
  auto out = torch::empty_like(a);
  add_kernel<float><<<1, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      a.data_ptr<float>(), out.data_ptr<float>(), a.numel());
  return {out};
}
TORCH_LIBRARY(demo, m) {
  m.def("forward(Tensor a) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(demo, CUDA, m) { m.impl("forward", &forward); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "forward", py::arg("a"));
}
