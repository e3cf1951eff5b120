// Names of streams and events for a profiler, of which there is none here.
#pragma once
#include <cuda_runtime_api.h>

#include "nvToolsExt.h"
NVTX_INLINE_STATIC void nvtxNameCudaDeviceA(int, const char*) {}
NVTX_INLINE_STATIC void nvtxNameCudaStreamA(cudaStream_t, const char*) {}
NVTX_INLINE_STATIC void nvtxNameCudaEventA(cudaEvent_t, const char*) {}
#define nvtxNameCudaDevice nvtxNameCudaDeviceA
#define nvtxNameCudaStream nvtxNameCudaStreamA
#define nvtxNameCudaEvent nvtxNameCudaEventA
