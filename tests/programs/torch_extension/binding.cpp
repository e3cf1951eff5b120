// The C++ half of an extension, as tutorials write it.
#include <torch/extension.h>

torch::Tensor scale_add(torch::Tensor x, torch::Tensor y, double factor, int64_t threads);

#define CHECK_INPUT(x)                                              \
    TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor");        \
    TORCH_CHECK((x).device().is_cuda(), #x " must be on a GPU");    \
    TORCH_CHECK((x).device().type() == torch::kCUDA, #x " device"); \
    TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")

torch::Tensor forward(torch::Tensor x, torch::Tensor y, double factor, int64_t threads) {
    CHECK_INPUT(x);
    CHECK_INPUT(y);
    return scale_add(x, y, factor, threads);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "x * factor + y", py::arg("x"), py::arg("y"), py::arg("factor"), py::arg("threads") = 128);
}
