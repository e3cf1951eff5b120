// CUDA's resources by their names: memory that kernels and the host's algorithms reach.
#pragma once
#include <thrust/execution_policy.h>
#include <thrust/system/cpp/memory_resource.h>

THRUST_NAMESPACE_BEGIN
namespace system::cuda {
using cpp::memory_resource;
using cpp::universal_host_pinned_memory_resource;
using cpp::universal_memory_resource;
}  // namespace system::cuda
namespace cuda {
using thrust::system::cuda::memory_resource;
using thrust::system::cuda::universal_host_pinned_memory_resource;
using thrust::system::cuda::universal_memory_resource;
}  // namespace cuda
THRUST_NAMESPACE_END
