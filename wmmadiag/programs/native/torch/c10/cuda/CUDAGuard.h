// Guards of the current device: there is one, so that they do nothing; of the current stream: they set it back.
#pragma once

#include <c10/core/Device.h>

#include <optional>

#include "CUDAFunctions.h"
#include "CUDAStream.h"

namespace c10::cuda {

struct CUDAGuard {
    explicit CUDAGuard(DeviceIndex) {}
    explicit CUDAGuard(Device) {}
    CUDAGuard(const CUDAGuard&) = delete;
    CUDAGuard& operator=(const CUDAGuard&) = delete;
    void set_device(Device) {}
    void set_index(DeviceIndex) {}
    Device current_device() const { return Device(DeviceType::CPU); }
    Device original_device() const { return Device(DeviceType::CPU); }
};

struct OptionalCUDAGuard {
    OptionalCUDAGuard() = default;
    explicit OptionalCUDAGuard(std::optional<Device>) {}
    explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
    OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
    OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;
    void set_device(Device) {}
    void set_index(DeviceIndex) {}
    void reset() {}
};

struct CUDAStreamGuard {
    explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) { setCurrentCUDAStream(stream); }
    ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
    CUDAStreamGuard(const CUDAStreamGuard&) = delete;
    CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;

private:
    CUDAStream before_;
};

}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda
