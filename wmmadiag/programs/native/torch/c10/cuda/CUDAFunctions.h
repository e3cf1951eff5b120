// The one device.
#pragma once

#include <c10/core/Device.h>

#include "CUDAException.h"

namespace c10::cuda {
inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex, bool = false) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
}  // namespace c10::cuda
