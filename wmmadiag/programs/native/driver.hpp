// What the parts of the driver's interface share: they are one translation unit in the wheel, several elsewhere.
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace wmmadiag {

// cuda.h and driver_types.h number their errors alike.
inline CUresult result(cudaError_t error) { return static_cast<CUresult>(error); }

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace wmmadiag
