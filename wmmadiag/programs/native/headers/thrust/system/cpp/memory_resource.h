// Memory of Thrust's vectors: the host's algorithms work on it here, and kernels reach it.
#pragma once
#include <cuda_runtime_api.h>
#include <thrust/detail/config.h>
#include <thrust/mr/fancy_pointer_resource.h>
#include <thrust/mr/new.h>
#include <thrust/system/cpp/pointer.h>
#include <thrust/system/detail/generic/select_system.h>

THRUST_NAMESPACE_BEGIN
namespace system::cpp {
namespace detail {
class device_resource final : public thrust::mr::memory_resource<> {
public:
    void* do_allocate(std::size_t bytes, std::size_t) override {
        void* made = nullptr;
        if (bytes != 0 && (::cudaMallocManaged)(&made, bytes, cudaMemAttachGlobal) != cudaSuccess) throw std::bad_alloc();
        return made;
    }
    void do_deallocate(void* pointer, std::size_t, std::size_t) override { (::cudaFree)(pointer); }
};
using native_resource = thrust::mr::fancy_pointer_resource<device_resource, thrust::cpp::pointer<void>>;
using universal_native_resource = thrust::mr::fancy_pointer_resource<device_resource, thrust::cpp::universal_pointer<void>>;
}  // namespace detail
using memory_resource = detail::native_resource;
using universal_memory_resource = detail::universal_native_resource;
using universal_host_pinned_memory_resource = universal_memory_resource;
}  // namespace system::cpp
THRUST_NAMESPACE_END
