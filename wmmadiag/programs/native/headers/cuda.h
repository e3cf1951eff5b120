// The driver's own header, and calls that CUDA 13 gave other parameters.
#pragma once
#include_next <cuda.h>
inline CUresult wmmadiag_create_context(CUcontext* context, unsigned flags, CUdevice device) { return cuCtxCreate(context, nullptr, flags, device); }
inline CUresult wmmadiag_create_context(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
    return cuCtxCreate(context, parameters, flags, device);
}
#undef cuCtxCreate
#define cuCtxCreate wmmadiag_create_context
