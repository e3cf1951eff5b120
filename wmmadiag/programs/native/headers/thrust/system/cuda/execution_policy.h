// Where a program names CUDA's own policies: in which stream matters nothing, for work is done when it is asked for.
#pragma once
#include <cuda_runtime_api.h>
#include <thrust/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace cuda {
struct par_t : thrust::detail::device_t {
    const par_t& on(cudaStream_t) const { return *this; }
};
inline constexpr par_t par{}, par_nosync{};
}  // namespace cuda
THRUST_NAMESPACE_END
