// The driver's own header, and calls that CUDA 13 gave other parameters.
#pragma once
#include_next <cuda.h>
inline CUresult wmmadiag_create_context(CUcontext* context, unsigned flags, CUdevice device) { return cuCtxCreate(context, nullptr, flags, device); }
inline CUresult wmmadiag_create_context(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
    return cuCtxCreate(context, parameters, flags, device);
}
#undef cuCtxCreate
#define cuCtxCreate wmmadiag_create_context

// The calls whose place messages name, by the names that the header gives them.
#ifdef WMMADIAG_HERE
#define cuMemAlloc_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemAlloc_v2(__VA_ARGS__))
#define cuMemAllocPitch_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemAllocPitch_v2(__VA_ARGS__))
#define cuMemAllocManaged(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemAllocManaged(__VA_ARGS__))
#define cuMemAllocHost_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemAllocHost_v2(__VA_ARGS__))
#define cuMemHostAlloc(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemHostAlloc(__VA_ARGS__))
#define cuMemAllocAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemAllocAsync(__VA_ARGS__))
#define cuMemFree_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemFree_v2(__VA_ARGS__))
#define cuMemFreeAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemFreeAsync(__VA_ARGS__))
#define cuMemcpy(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpy(__VA_ARGS__))
#define cuMemcpyAsync(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyAsync(__VA_ARGS__))
#define cuMemcpyHtoD_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyHtoD_v2(__VA_ARGS__))
#define cuMemcpyDtoH_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyDtoH_v2(__VA_ARGS__))
#define cuMemcpyDtoD_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyDtoD_v2(__VA_ARGS__))
#define cuMemcpyHtoDAsync_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyHtoDAsync_v2(__VA_ARGS__))
#define cuMemcpyDtoHAsync_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyDtoHAsync_v2(__VA_ARGS__))
#define cuMemcpyDtoDAsync_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemcpyDtoDAsync_v2(__VA_ARGS__))
#define cuMemsetD8_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD8_v2(__VA_ARGS__))
#define cuMemsetD16_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD16_v2(__VA_ARGS__))
#define cuMemsetD32_v2(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD32_v2(__VA_ARGS__))
#define cuMemsetD8Async(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD8Async(__VA_ARGS__))
#define cuMemsetD32Async(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD32Async(__VA_ARGS__))
#define cuMemsetD16Async(...) (WMMADIAG_HERE(__VA_ARGS__), cuMemsetD16Async(__VA_ARGS__))
#define cuModuleLoadData(...) (WMMADIAG_HERE(__VA_ARGS__), cuModuleLoadData(__VA_ARGS__))
#define cuModuleLoadDataEx(...) (WMMADIAG_HERE(__VA_ARGS__), cuModuleLoadDataEx(__VA_ARGS__))
#define cuLaunchKernel(...) (WMMADIAG_HERE(__VA_ARGS__), cuLaunchKernel(__VA_ARGS__))
#define cuLaunchKernelEx(...) (WMMADIAG_HERE(__VA_ARGS__), cuLaunchKernelEx(__VA_ARGS__))
#define cuLaunchCooperativeKernel(...) (WMMADIAG_HERE(__VA_ARGS__), cuLaunchCooperativeKernel(__VA_ARGS__))
#define cuGraphLaunch(...) (WMMADIAG_HERE(__VA_ARGS__), cuGraphLaunch(__VA_ARGS__))
#endif
