// What CUB offers host code besides: checks of errors. As in CUB, an error is printed where CUB_STDERR is defined before its header, or a
// debug build is made.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#if (defined(DEBUG) || defined(_DEBUG) || defined(CUB_DEBUG_LOG)) && !defined(CUB_STDERR)
#define CUB_STDERR
#endif
#ifndef CUB_NS_QUALIFIER
#define CUB_NS_PREFIX
#define CUB_NS_POSTFIX
#define CUB_NS_QUALIFIER ::cub
#endif

namespace cub {

inline cudaError_t Debug(cudaError_t error, const char* file, int line) {
    const cudaError_t last = (::cudaGetLastError)();
    if (error == cudaSuccess) error = last;
#ifdef CUB_STDERR
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", error, file, line, (::cudaGetErrorString)(error));
        std::fflush(stderr);
    }
#else
    (void)file, (void)line;
#endif
    return error;
}

}  // namespace cub

#ifndef CubDebug
#define CubDebug(e) CUB_NS_QUALIFIER::Debug((cudaError_t)(e), __FILE__, __LINE__)
#endif
#ifndef CubDebugExit
#define CubDebugExit(e) \
    if (CUB_NS_QUALIFIER::Debug((cudaError_t)(e), __FILE__, __LINE__)) std::exit(1)
#endif
#ifndef _CubLog
#define _CubLog(format, ...) std::printf(format, __VA_ARGS__)
#endif
