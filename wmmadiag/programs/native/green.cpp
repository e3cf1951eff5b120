// Green contexts: streams that may use some multiprocessors of the device alone. Work runs as in other streams; the blocks of a launch
// take turns on so many, as %smid tells, and a cooperative launch must fit them.
#include <cuda.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "driver.hpp"

using namespace wmmadiag;

namespace {

// What a descriptor says, and a context is made of.
struct GreenDescriptor {
    unsigned multiprocessors;
};
struct GreenContext {
    unsigned multiprocessors;
    std::vector<CUstream> streams;
};
GreenContext* green_of(CUgreenCtx context) { return reinterpret_cast<GreenContext*>(context); }

unsigned whole_device() { return static_cast<unsigned>(host().property("multiProcessorCount")); }

CUdevResource resource_of(unsigned multiprocessors) {
    CUdevResource one{};
    one.type = CU_DEV_RESOURCE_TYPE_SM;
    one.sm.smCount = multiprocessors;
    return one;
}

// CUDA C++ Programming Guide, "Green Contexts": the least part of a compute capability, and what parts are multiples of.
struct Granularity {
    unsigned least, step;
};
Granularity parts_of_device(bool alone) {
    const auto major = host().property("major");
    if (alone) return major >= 9 ? Granularity{2, 2} : Granularity{1, 1};
    return major >= 9 ? Granularity{8, 8} : major == 8 ? Granularity{4, 2} : Granularity{2, 2};
}

template <class Context, class Type>
CUresult asked_for(const Context* context, CUdevResource* to, Type type) {
    if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) {
        report("launch", "unsupported", "error", "green contexts: resources other than multiprocessors are not emulated",
               "ask for CU_DEV_RESOURCE_TYPE_SM");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *to = resource_of(context != nullptr ? context->multiprocessors : whole_device());
    return CUDA_SUCCESS;
}

CUresult green_stream(CUstream* to, CUgreenCtx context, unsigned flags, int priority) {
    WMMADIAG_LOCKED;
    if (to == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const auto error = cudaStreamCreateWithPriority(to, flags, priority); error != cudaSuccess) return result(error);
    green_of(context)->streams.push_back(*to);
    return result(confine(*to, green_of(context)->multiprocessors));
}

}  // namespace

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* to, CUdevResourceType type) {
    WMMADIAG_LOCKED;
    return device == 0 ? asked_for<GreenContext>(nullptr, to, type) : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource* to, CUdevResourceType type) {
    WMMADIAG_LOCKED;
    return asked_for(green_of(context), to, type);
}
CUresult cuDevSmResourceSplitByCount(CUdevResource* parts, unsigned* count, const CUdevResource* whole, CUdevResource* rest, unsigned flags,
                                     unsigned least) {
    WMMADIAG_LOCKED;
    if (count == nullptr || whole == nullptr || least > whole->sm.smCount) return CUDA_ERROR_INVALID_VALUE;
    if (whole->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    const auto of = parts_of_device((flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0);
    // As an H200 answers; the groups of eight it makes are one fewer than fit.
    const auto each = std::min((std::max(least, of.least) + of.step - 1) / of.step * of.step, whole->sm.smCount);
    const auto fit = whole->sm.smCount / each;
    if (parts == nullptr) {
        *count = fit;
        return CUDA_SUCCESS;
    }
    if (fit == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    *count = std::min(*count, fit);
    const auto left = whole->sm.smCount - *count * each;
    for (unsigned i = 0; i < *count; ++i) parts[i] = resource_of(each);
    if (rest != nullptr) *rest = left != 0 ? resource_of(left) : CUdevResource{};
    return CUDA_SUCCESS;
}
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* to, CUdevResource* resources, unsigned count) {
    if (to == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    unsigned all = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        all += resources[i].sm.smCount;
    }
    *to = reinterpret_cast<CUdevResourceDesc>(new GreenDescriptor{all});
    return CUDA_SUCCESS;
}
CUresult cuGreenCtxCreate(CUgreenCtx* to, CUdevResourceDesc what, CUdevice device, unsigned flags) {
    if (to == nullptr || what == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *to = reinterpret_cast<CUgreenCtx>(new GreenContext{reinterpret_cast<GreenDescriptor*>(what)->multiprocessors, {}});
    return CUDA_SUCCESS;
}
CUresult cuGreenCtxDestroy(CUgreenCtx context) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    delete green_of(context);
    return CUDA_SUCCESS;
}
CUresult cuGreenCtxStreamCreate(CUstream* to, CUgreenCtx context, unsigned flags, int priority) {
    if ((flags & CU_STREAM_NON_BLOCKING) == 0) return CUDA_ERROR_INVALID_VALUE;
    return green_stream(to, context, flags, priority);
}
CUresult cuStreamGetDevResource(CUstream stream, CUdevResource* to, CUdevResourceType type) {
    WMMADIAG_LOCKED;
    const GreenContext one{multiprocessors_of(stream), {}};
    return asked_for(one.multiprocessors != 0 ? &one : nullptr, to, type);
}
// An event behind all that the context's streams were given; all that they are given from now on comes after an event.
CUresult cuGreenCtxRecordEvent(CUgreenCtx context, CUevent event) {
    WMMADIAG_LOCKED;
    CUstream joined = nullptr;
    if (context == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const auto error = cudaStreamCreateWithFlags(&joined, cudaStreamNonBlocking); error != cudaSuccess) return result(error);
    for (auto* one : green_of(context)->streams)
        if (multiprocessors_of(one) != 0 && cudaEventRecord(event, one) == cudaSuccess) cudaStreamWaitEvent(joined, event, 0);
    const auto error = cudaEventRecord(event, joined);
    cudaStreamDestroy(joined);
    return result(error);
}
CUresult cuGreenCtxWaitEvent(CUgreenCtx context, CUevent event) {
    WMMADIAG_LOCKED;
    if (context == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (auto* one : green_of(context)->streams)
        if (multiprocessors_of(one) != 0) cudaStreamWaitEvent(one, event, 0);  // it was not destroyed
    return CUDA_SUCCESS;
}

#if CUDART_VERSION >= 13010
// The runtime's names of the same.
static_assert(sizeof(cudaDevResource) == sizeof(CUdevResource) &&
              static_cast<int>(cudaDevResourceTypeSm) == static_cast<int>(CU_DEV_RESOURCE_TYPE_SM));

cudaError_t cudaDeviceGetDevResource(int device, cudaDevResource* to, cudaDevResourceType type) {
    return of_runtime(cuDeviceGetDevResource(device, reinterpret_cast<CUdevResource*>(to), static_cast<CUdevResourceType>(type)));
}
cudaError_t cudaDevSmResourceSplitByCount(cudaDevResource* parts, unsigned* count, const cudaDevResource* whole, cudaDevResource* rest,
                                          unsigned flags, unsigned least) {
    return of_runtime(cuDevSmResourceSplitByCount(reinterpret_cast<CUdevResource*>(parts), count, reinterpret_cast<const CUdevResource*>(whole),
                                                  reinterpret_cast<CUdevResource*>(rest), flags, least));
}
cudaError_t cudaDevResourceGenerateDesc(cudaDevResourceDesc_t* to, cudaDevResource* resources, unsigned count) {
    return of_runtime(cuDevResourceGenerateDesc(reinterpret_cast<CUdevResourceDesc*>(to), reinterpret_cast<CUdevResource*>(resources), count));
}
cudaError_t cudaGreenCtxCreate(cudaExecutionContext_t* to, cudaDevResourceDesc_t what, int device, unsigned flags) {
    if (flags != 0) return failed(cudaErrorInvalidValue);
    return of_runtime(
        cuGreenCtxCreate(reinterpret_cast<CUgreenCtx*>(to), reinterpret_cast<CUdevResourceDesc>(what), device, CU_GREEN_CTX_DEFAULT_STREAM));
}
cudaError_t cudaExecutionCtxDestroy(cudaExecutionContext_t context) { return of_runtime(cuGreenCtxDestroy(reinterpret_cast<CUgreenCtx>(context))); }
cudaError_t cudaExecutionCtxGetDevResource(cudaExecutionContext_t context, cudaDevResource* to, cudaDevResourceType type) {
    return of_runtime(
        cuGreenCtxGetDevResource(reinterpret_cast<CUgreenCtx>(context), reinterpret_cast<CUdevResource*>(to), static_cast<CUdevResourceType>(type)));
}
cudaError_t cudaExecutionCtxGetDevice(int* device, cudaExecutionContext_t) { return cudaGetDevice(device); }
cudaError_t cudaExecutionCtxStreamCreate(cudaStream_t* to, cudaExecutionContext_t context, unsigned flags, int priority) {
    return of_runtime(green_stream(to, reinterpret_cast<CUgreenCtx>(context), flags, priority));
}
cudaError_t cudaExecutionCtxSynchronize(cudaExecutionContext_t context) {
    WMMADIAG_LOCKED;
    for (auto* one : green_of(reinterpret_cast<CUgreenCtx>(context))->streams)
        if (multiprocessors_of(one) != 0)
            if (const auto error = cudaStreamSynchronize(one); error != cudaSuccess) return error;
    return status(true);
}
cudaError_t cudaExecutionCtxRecordEvent(cudaExecutionContext_t context, cudaEvent_t event) {
    return of_runtime(cuGreenCtxRecordEvent(reinterpret_cast<CUgreenCtx>(context), event));
}
cudaError_t cudaExecutionCtxWaitEvent(cudaExecutionContext_t context, cudaEvent_t event) {
    return of_runtime(cuGreenCtxWaitEvent(reinterpret_cast<CUgreenCtx>(context), event));
}
cudaError_t cudaStreamGetDevResource(cudaStream_t stream, cudaDevResource* to, cudaDevResourceType type) {
    return of_runtime(cuStreamGetDevResource(stream, reinterpret_cast<CUdevResource*>(to), static_cast<CUdevResourceType>(type)));
}
#endif

}  // extern "C"
