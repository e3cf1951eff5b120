// The driver's interface, further: arrays and textures, copies in three dimensions and of arrays, as calls and as nodes of graphs.
#include <cuda.h>

#include <algorithm>

#include "arrays.hpp"
#include "copies.hpp"
#include "driver.hpp"
#include "graph_calls.hpp"

using namespace wmmadiag;

namespace {

cudaArray_t runtime_array(CUarray array) { return reinterpret_cast<cudaArray_t>(array); }

// Bits of a channel, and what they are.
bool described(CUarray_format format, unsigned channels, cudaChannelFormatDesc& to) {
    int bits = 0;
    auto kind = cudaChannelFormatKindNone;
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8: bits = 8, kind = cudaChannelFormatKindUnsigned; break;
        case CU_AD_FORMAT_UNSIGNED_INT16: bits = 16, kind = cudaChannelFormatKindUnsigned; break;
        case CU_AD_FORMAT_UNSIGNED_INT32: bits = 32, kind = cudaChannelFormatKindUnsigned; break;
        case CU_AD_FORMAT_SIGNED_INT8: bits = 8, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_SIGNED_INT16: bits = 16, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_SIGNED_INT32: bits = 32, kind = cudaChannelFormatKindSigned; break;
        case CU_AD_FORMAT_HALF: bits = 16, kind = cudaChannelFormatKindFloat; break;
        case CU_AD_FORMAT_FLOAT: bits = 32, kind = cudaChannelFormatKindFloat; break;
        default: report("launch", "unsupported", "error", "arrays of this format are not emulated", "take integers, half or float"); return false;
    }
    if (channels != 1 && channels != 2 && channels != 4) return false;
    to = {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
    return true;
}
CUarray_format format_of(const cudaChannelFormatDesc& one) {
    if (one.f == cudaChannelFormatKindFloat) return one.x == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    if (one.f == cudaChannelFormatKindSigned)
        return one.x == 8 ? CU_AD_FORMAT_SIGNED_INT8 : one.x == 16 ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_SIGNED_INT32;
    return one.x == 8 ? CU_AD_FORMAT_UNSIGNED_INT8 : one.x == 16 ? CU_AD_FORMAT_UNSIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT32;
}
unsigned channels_of(const cudaChannelFormatDesc& one) { return one.w != 0 ? 4 : one.y != 0 ? 2 : 1; }

struct End {
    CUmemorytype type;
    const void* host_memory;
    CUdeviceptr device_memory;
    CUarray array;
    std::size_t x, y, z, pitch, height;
};

// An end of a copy, as `cudaMemcpy3DParms` has it: places in an array count elements, others bytes.
bool set_end(const End& from, const CUDA_MEMCPY3D& p, cudaPitchedPtr& memory, cudaArray_t& array, cudaPos& at) {
    if (from.type == CU_MEMORYTYPE_ARRAY) {
        const auto* known = array_at(runtime_array(from.array));
        if (known == nullptr || from.x % known->element != 0) return false;
        array = runtime_array(from.array);
        at = {from.x / known->element, from.y, from.z};
        return true;
    }
    auto* base = from.type == CU_MEMORYTYPE_HOST ? const_cast<void*>(from.host_memory) : pointer(from.device_memory);
    const auto pitch = from.pitch != 0 ? from.pitch : p.WidthInBytes, height = from.height != 0 ? from.height : p.Height;
    memory = {static_cast<char*>(base) + (from.z * height + from.y) * pitch + from.x, pitch, p.WidthInBytes, height};
    return true;
}

cudaMemcpyKind kind_of(const CUDA_MEMCPY3D& p) {
    if (p.srcMemoryType == CU_MEMORYTYPE_UNIFIED || p.dstMemoryType == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
    const bool from_host = p.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p.dstMemoryType == CU_MEMORYTYPE_HOST;
    if (to_host) return from_host ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
    return from_host ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

bool parameters_of(const CUDA_MEMCPY3D& p, cudaMemcpy3DParms& to) {
    to = {};
    const End from{p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch, p.srcHeight};
    const End into{p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight};
    if (!set_end(from, p, to.srcPtr, to.srcArray, to.srcPos) || !set_end(into, p, to.dstPtr, to.dstArray, to.dstPos)) return false;
    const auto* array = array_at(to.srcArray != nullptr ? to.srcArray : to.dstArray);
    const auto element = array != nullptr ? array->element : 1;
    if (p.WidthInBytes % element != 0) return false;
    to.extent = {p.WidthInBytes / element, p.Height, std::max<std::size_t>(p.Depth, 1)};
    to.kind = kind_of(p);
    return true;
}

// A copy between a row of an array and other memory, which bytes count.
CUDA_MEMCPY3D row(CUmemorytype from, CUmemorytype to, std::size_t bytes) {
    CUDA_MEMCPY3D p{};
    p.srcMemoryType = from, p.dstMemoryType = to;
    p.WidthInBytes = bytes, p.Height = p.Depth = 1;
    return p;
}

CUresult copied_now(const CUDA_MEMCPY3D& p) {
    cudaMemcpy3DParms found;
    return parameters_of(p, found) ? result(cudaMemcpy3D(&found)) : CUDA_ERROR_INVALID_VALUE;
}

constexpr unsigned as_they_are = CU_TRSF_READ_AS_INTEGER;

}  // namespace

CUresult wmmadiag::copy_with_arrays(const CUDA_MEMCPY2D& p, bool waits, CUstream stream) {
    CUDA_MEMCPY3D whole{};
    whole.srcXInBytes = p.srcXInBytes, whole.srcY = p.srcY, whole.srcMemoryType = p.srcMemoryType, whole.srcHost = p.srcHost;
    whole.srcDevice = p.srcDevice, whole.srcArray = p.srcArray, whole.srcPitch = p.srcPitch;
    whole.dstXInBytes = p.dstXInBytes, whole.dstY = p.dstY, whole.dstMemoryType = p.dstMemoryType, whole.dstHost = p.dstHost;
    whole.dstDevice = p.dstDevice, whole.dstArray = p.dstArray, whole.dstPitch = p.dstPitch;
    whole.WidthInBytes = p.WidthInBytes, whole.Height = p.Height, whole.Depth = 1;
    return waits ? cuMemcpy3D_v2(&whole) : cuMemcpy3DAsync_v2(&whole, stream);
}

extern "C" {

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* p) { return p != nullptr ? copied_now(*p) : CUDA_ERROR_INVALID_VALUE; }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* p, CUstream stream) {
    cudaMemcpy3DParms found;
    if (p == nullptr || !parameters_of(*p, found)) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaMemcpy3DAsync(&found, stream));
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* to, CUgraph graph, const CUgraphNode* after, std::size_t count, const CUDA_MEMCPY3D* p, CUcontext) {
    cudaMemcpy3DParms found;
    if (p == nullptr || !parameters_of(*p, found)) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaGraphAddMemcpyNode(to, graph, after, count, &found));
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
    cudaMemcpy3DParms found;
    if (p == nullptr || !parameters_of(*p, found)) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaGraphMemcpyNodeSetParams(node, &found));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec graph, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext) {
    cudaMemcpy3DParms found;
    if (p == nullptr || !parameters_of(*p, found)) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaGraphExecMemcpyNodeSetParams(graph, node, &found));
}

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* what) {
    cudaChannelFormatDesc format;
    if (array == nullptr || what == nullptr || !described(what->Format, what->NumChannels, format)) return CUDA_ERROR_INVALID_VALUE;
    return result(cudaMallocArray(reinterpret_cast<cudaArray_t*>(array), &format, what->Width, what->Height, 0));
}
CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
    cudaChannelFormatDesc format;
    if (array == nullptr || what == nullptr || !described(what->Format, what->NumChannels, format)) return CUDA_ERROR_INVALID_VALUE;
    // The flags have one set of numbers: CUDA_ARRAY3D_LAYERED is cudaArrayLayered, and so on.
    return result(cudaMalloc3DArray(reinterpret_cast<cudaArray_t*>(array), &format, {what->Width, what->Height, what->Depth}, what->Flags));
}
CUresult cuArrayDestroy(CUarray array) { return result(cudaFreeArray(runtime_array(array))); }
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* to, CUarray array) {
    WMMADIAG_LOCKED;
    const auto* one = array_at(runtime_array(array));
    if (one == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *to = {one->extent.width, one->extent.height, one->extent.depth, format_of(one->format), channels_of(one->format), one->flags};
    return CUDA_SUCCESS;
}
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* to, CUarray array) {
    WMMADIAG_LOCKED;
    const auto* one = array_at(runtime_array(array));
    if (one == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *to = {one->extent.width, one->extent.height, format_of(one->format), channels_of(one->format)};
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoA_v2(CUarray to, std::size_t offset, const void* from, std::size_t bytes) {
    auto p = row(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_ARRAY, bytes);
    p.srcHost = from, p.dstArray = to, p.dstXInBytes = offset;
    return copied_now(p);
}
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, std::size_t offset, std::size_t bytes) {
    auto p = row(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_HOST, bytes);
    p.dstHost = to, p.srcArray = from, p.srcXInBytes = offset;
    return copied_now(p);
}
CUresult cuMemcpyDtoA_v2(CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes) {
    auto p = row(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, bytes);
    p.srcDevice = from, p.dstArray = to, p.dstXInBytes = offset;
    return copied_now(p);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes) {
    auto p = row(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, bytes);
    p.dstDevice = to, p.srcArray = from, p.srcXInBytes = offset;
    return copied_now(p);
}

CUresult cuTexObjectCreate(CUtexObject* to, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* how, const CUDA_RESOURCE_VIEW_DESC* view) {
    if (to == nullptr || resource == nullptr || how == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (view != nullptr || (how->flags & CU_TRSF_SRGB) != 0) {
        report("launch", "unsupported", "error", "cuTexObjectCreate: views of resources and sRGB are not emulated", "read the array as it is");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    cudaResourceDesc what{};
    cudaChannelFormatDesc format{};
    if (resource->resType == CU_RESOURCE_TYPE_ARRAY) {
        const auto* array = array_at(runtime_array(resource->res.array.hArray));
        if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        what.resType = cudaResourceTypeArray;
        what.res.array.array = runtime_array(resource->res.array.hArray);
        format = array->format;
    } else if (resource->resType == CU_RESOURCE_TYPE_LINEAR) {
        const auto& one = resource->res.linear;
        if (!described(one.format, one.numChannels, format)) return CUDA_ERROR_INVALID_VALUE;
        what.resType = cudaResourceTypeLinear;
        what.res.linear.devPtr = pointer(one.devPtr);
        what.res.linear.desc = format;
        what.res.linear.sizeInBytes = one.sizeInBytes;
    } else if (resource->resType == CU_RESOURCE_TYPE_PITCH2D) {
        const auto& one = resource->res.pitch2D;
        if (!described(one.format, one.numChannels, format)) return CUDA_ERROR_INVALID_VALUE;
        what.resType = cudaResourceTypePitch2D;
        what.res.pitch2D.devPtr = pointer(one.devPtr);
        what.res.pitch2D.desc = format;
        what.res.pitch2D.width = one.width, what.res.pitch2D.height = one.height, what.res.pitch2D.pitchInBytes = one.pitchInBytes;
    } else {
        report("launch", "unsupported", "error", "cuTexObjectCreate: mipmaps are not emulated", "take an array or plain memory");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    cudaTextureDesc texture{};
    for (int i = 0; i < 3; ++i) texture.addressMode[i] = static_cast<cudaTextureAddressMode>(how->addressMode[i]);
    texture.filterMode = static_cast<cudaTextureFilterMode>(how->filterMode);
    const bool narrow = format.f != cudaChannelFormatKindFloat && format.x < 32;  // wider integers are read as they are
    texture.readMode = narrow && (how->flags & as_they_are) == 0 ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    texture.normalizedCoords = (how->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    for (int i = 0; i < 4; ++i) texture.borderColor[i] = how->borderColor[i];
    return result(cudaCreateTextureObject(reinterpret_cast<cudaTextureObject_t*>(to), &what, &texture, nullptr));
}
CUresult cuTexObjectDestroy(CUtexObject object) { return result(cudaDestroyTextureObject(object)); }
CUresult cuSurfObjectCreate(CUsurfObject* to, const CUDA_RESOURCE_DESC* resource) {
    if (to == nullptr || resource == nullptr || resource->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    cudaResourceDesc what{};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = runtime_array(resource->res.array.hArray);
    return result(cudaCreateSurfaceObject(reinterpret_cast<cudaSurfaceObject_t*>(to), &what));
}
CUresult cuSurfObjectDestroy(CUsurfObject object) { return result(cudaDestroySurfaceObject(object)); }

}  // extern "C"
