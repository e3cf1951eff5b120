// What of CUDA 13 only its later headers declare, for those of an earlier release: another package, such as torch, may hold them there.
// Numbers are those of the later headers.
#pragma once

#include <cuda.h>

#if CUDA_VERSION < 13040
inline constexpr CUresult CUDA_ERROR_INSUFFICIENT_LOADER_VERSION = static_cast<CUresult>(227);
#endif
