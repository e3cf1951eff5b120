// Launches whose kernel has not been reached yet: between `<<<…>>>` and the kernel's body.
#pragma once

#include "runtime.hpp"

namespace wmmadiag {

struct Configured {
    dim3 grid, block;
    std::size_t shared = 0;
    cudaStream_t stream = nullptr;
    const char* file = "";
    int line = 0;
    const char* callee = "";  // what is launched, as written
    bool taken = false;       // a kernel's body has met it
    Configured* around = nullptr;
};

// The innermost launch of this thread that no kernel has taken; nullptr: there is none.
Configured* awaited();

// Ends the program, by the process around this library: what is launched is not known as a kernel.
void no_kernel(const Configured& launch);

}  // namespace wmmadiag
