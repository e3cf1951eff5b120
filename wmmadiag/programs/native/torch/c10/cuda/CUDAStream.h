// Streams as extensions see them: there is one device, and its tensors are those of the CPU.
#pragma once

#include <c10/core/Device.h>

#include "CUDAException.h"

namespace c10::cuda {

class CUDAStream {
public:
    CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
    operator cudaStream_t() const { return stream_; }
    cudaStream_t stream() const { return stream_; }
    DeviceIndex device_index() const { return 0; }
    Device device() const { return Device(DeviceType::CPU); }
    void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
    bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
    bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }

private:
    cudaStream_t stream_;
};

inline CUDAStream& current_stream() {
    static thread_local CUDAStream one;
    return one;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return current_stream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return {}; }
inline void setCurrentCUDAStream(CUDAStream stream) { current_stream() = stream; }
inline CUDAStream getStreamFromPool(bool = false, DeviceIndex = -1) {
    cudaStream_t stream = nullptr;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::setCurrentCUDAStream;
}  // namespace at::cuda
