// What the parts of the driver's interface share: they are one translation unit in the wheel, several elsewhere.
#pragma once

#include <cuda.h>
#include <driver_types.h>

#include <cstdio>
#include <optional>
#include <string>

#include "newer_names.hpp"
#include "runtime.hpp"

namespace wmmadiag {

// What a CUfunction is.
struct Function {
    KernelInfo info;
};

// Launches a kernel by the addresses of its arguments, or by a buffer with them.
CUresult launch_function(CUfunction function, dim3 grid, dim3 block, unsigned shared, CUstream stream, void** arguments, void** extra, LaunchWay way);

// cuda.h and driver_types.h number their errors alike.
inline CUresult result(cudaError_t error) { return static_cast<CUresult>(error); }

inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// A file's bytes; nothing where it cannot be opened.
inline std::optional<std::string> content(const char* name) {
    std::FILE* file = std::fopen(name, "rb");
    if (file == nullptr) return std::nullopt;
    std::string text;
    char part[65536];
    while (const auto read = std::fread(part, 1, sizeof part, file)) text.append(part, read);
    std::fclose(file);
    return text;
}

}  // namespace wmmadiag
