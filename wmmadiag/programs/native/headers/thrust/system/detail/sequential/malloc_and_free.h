// Thrust's device system here is the host's own, one element after another, on memory that kernels reach, too.
#pragma once
#include <cuda_runtime_api.h>
#include <thrust/detail/config.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/system/detail/sequential/execution_policy.h>

THRUST_NAMESPACE_BEGIN
namespace system::detail::sequential {
template <class Policy>
inline void* malloc(execution_policy<Policy>&, std::size_t bytes) {
    void* made = nullptr;
    if (bytes != 0) (::cudaMallocManaged)(&made, bytes, cudaMemAttachGlobal);
    return made;
}
template <class Policy, class Pointer>
inline void free(sequential::execution_policy<Policy>&, Pointer pointer) {
    (::cudaFree)(thrust::raw_pointer_cast(pointer));
}
}  // namespace system::detail::sequential
THRUST_NAMESPACE_END
