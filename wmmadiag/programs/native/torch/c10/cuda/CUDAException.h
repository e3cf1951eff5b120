// Checks of CUDA calls: an error is a C++ exception, a RuntimeError in Python.
#pragma once

#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

namespace c10 {
class CUDAError : public Error {
    using Error::Error;
};
}  // namespace c10

#define C10_CUDA_CHECK(...)                                                                                            \
    do {                                                                                                               \
        const cudaError_t wmmadiag_error = (__VA_ARGS__);                                                              \
        TORCH_CHECK_WITH(CUDAError, wmmadiag_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(wmmadiag_error)); \
    } while (0)
#define C10_CUDA_CHECK_WARN(...) C10_CUDA_CHECK(__VA_ARGS__)
#define C10_CUDA_ERROR_HANDLED(...) (__VA_ARGS__)
#define C10_CUDA_IGNORE_ERROR(...) static_cast<void>(__VA_ARGS__)
#define C10_CUDA_CLEAR_ERROR() static_cast<void>(cudaGetLastError())
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK(...) C10_CUDA_CHECK(__VA_ARGS__)
