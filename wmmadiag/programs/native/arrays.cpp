// Arrays: given, freed, asked, and copied as the memory that they are.
#include "arrays.hpp"

#include <algorithm>
#include <map>

#include "copies.hpp"
#include "graph.hpp"

using namespace wmmadiag;

namespace {

std::map<const void*, std::unique_ptr<Array>>& arrays() {
    static auto* all = new std::map<const void*, std::unique_ptr<Array>>;  // never destroyed, as all memory
    return *all;
}

// Bytes of an element; 0: no format of textures.
std::size_t element_bytes(const cudaChannelFormatDesc& format) {
    const int bits = format.x, all[4]{format.x, format.y, format.z, format.w};
    if (bits != 8 && bits != 16 && bits != 32) return 0;
    std::size_t count = 0;
    while (count < 4 && all[count] == bits) ++count;
    for (auto i = count; i < 4; ++i)
        if (all[i] != 0) return 0;
    const bool known = format.f == cudaChannelFormatKindSigned || format.f == cudaChannelFormatKindUnsigned ||
                       (format.f == cudaChannelFormatKindFloat && bits >= 16);
    return known && count != 3 ? count * static_cast<std::size_t>(bits) / 8 : 0;
}

cudaError_t made(cudaArray_t* to, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags, const char* call) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    if (to == nullptr || format == nullptr || extent.width == 0) return failed(cudaErrorInvalidValue);
    auto one = std::make_unique<Array>();
    one->format = *format;
    one->extent = extent;
    one->flags = flags;
    one->element = element_bytes(*format);
    if (one->element == 0) return failed(cudaErrorInvalidChannelDescriptor);
    if ((flags & ~static_cast<unsigned>(cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather)) != 0) {
        report("launch", "unsupported", "error", std::string(call) + ": sparse arrays and those for other APIs are not emulated",
               "cube maps, layered, 1D, 2D and 3D arrays are");
        return failed(cudaErrorNotSupported);
    }
    if ((flags & cudaArrayCubemap) != 0) {
        const bool layers = (flags & cudaArrayLayered) != 0;
        if (extent.width != extent.height || (layers ? extent.depth % 6 != 0 : extent.depth != 6)) return failed(cudaErrorInvalidValue);
    }
    one->pitch = extent.width * one->element;
    one->slice = one->pitch * one->rows();
    here().item = one->element;
    one->base = static_cast<char*>(allocate(one->slice * one->planes(), Kind::device, call));
    if (one->base == nullptr) return failed(cudaErrorMemoryAllocation);
    *to = reinterpret_cast<cudaArray_t>(one.get());
    arrays().emplace(one.get(), std::move(one));
    return cudaSuccess;
}

// One end of a copy as plain memory; `position`, `width`: in elements of an array, else in bytes.
cudaError_t plain(cudaArray_t& handle, cudaPos& position, cudaPitchedPtr& memory, const cudaExtent& extent, std::size_t element, const char* what) {
    if (handle == nullptr) return cudaSuccess;
    const auto* one = array_at(handle);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    position.x *= one->element;
    if (position.x + extent.width > one->pitch || position.y + extent.height > one->rows() || position.z + extent.depth > one->planes() ||
        one->element != element) {
        report("memory", "out-of-bounds", "error",
               std::string(what) + " leaves the array, of " + std::to_string(one->extent.width) + " × " + std::to_string(one->rows()) + " × " +
                   std::to_string(one->planes()) + " elements of " + std::to_string(one->element) + " bytes",
               "widths and offsets of cudaMemcpy2DToArray are in bytes, those of cudaMemcpy3D in elements");
        return failed(cudaErrorInvalidValue);
    }
    memory = {one->base, one->pitch, one->pitch, one->rows()};
    handle = nullptr;
    return cudaSuccess;
}

cudaMemcpy3DParms rows_of(std::size_t width, std::size_t height, cudaMemcpyKind kind) {
    cudaMemcpy3DParms p{};
    p.extent = {width, height, 1};
    p.kind = kind;
    return p;
}

// Rows of bytes to or from an array, `x` in bytes: the call's own units.
cudaError_t set_array(cudaMemcpy3DParms& p, bool source, cudaArray_const_t handle, std::size_t x, std::size_t y) {
    const auto* one = array_at(handle);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (x % one->element != 0 || p.extent.width % one->element != 0) return failed(cudaErrorInvalidValue);
    (source ? p.srcArray : p.dstArray) = const_cast<cudaArray_t>(handle);
    (source ? p.srcPos : p.dstPos) = {x / one->element, y, 0};
    return cudaSuccess;
}

// Such a copy; `count`: bytes that follow each other over rows, where it is not 0.
cudaError_t copied(cudaMemcpy3DParms p, const char* what, cudaStream_t stream, bool waits) {
    WMMADIAG_LOCKED;
    const auto* one = array_at(p.dstArray != nullptr ? p.dstArray : p.srcArray);
    p.extent.width /= one->element;
    if (const auto before = status(waits); before != cudaSuccess) return before;
    if (waits) flush_output();
    const auto error = submit(stream, [=] { return copy3d(p, what); }, cudaGraphNodeTypeMemcpy);
    if (waits) waited(false);
    return error;
}

cudaError_t to_array(cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width, std::size_t height,
                     cudaMemcpyKind kind, const char* what, cudaStream_t stream, bool waits) {
    WMMADIAG_LOCKED;
    auto p = rows_of(width, height, kind);
    p.srcPtr = {const_cast<void*>(from), pitch, width, height};
    const auto error = set_array(p, false, to, x, y);
    return error != cudaSuccess ? error : copied(p, what, stream, waits);
}

cudaError_t from_array(void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t width, std::size_t height,
                       cudaMemcpyKind kind, const char* what, cudaStream_t stream, bool waits) {
    WMMADIAG_LOCKED;
    auto p = rows_of(width, height, kind);
    p.dstPtr = {to, pitch, width, height};
    const auto error = set_array(p, true, from, x, y);
    return error != cudaSuccess ? error : copied(p, what, stream, waits);
}

// As cudaMemcpyToArray has it: bytes over whole rows. The part of a row at its end is a copy of its own.
template <class Rows>
cudaError_t in_rows(cudaArray_const_t handle, std::size_t x, std::size_t y, std::size_t count, Rows&& copy) {
    const auto* one = array_at(handle);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    for (std::size_t done = 0; done < count;) {
        const auto width = std::min(one->pitch - std::min(x, one->pitch - 1), count - done);
        const auto height = x == 0 ? std::max<std::size_t>((count - done) / one->pitch, 1) : 1;
        if (const auto error = copy(x, y, done, width, height); error != cudaSuccess) return error;
        done += width * height;
        x = 0;
        y += height;
    }
    return cudaSuccess;
}

}  // namespace

namespace wmmadiag {

Array* array_at(cudaArray_const_t handle) {
    const auto found = arrays().find(handle);
    return found == arrays().end() ? nullptr : found->second.get();
}

cudaError_t without_arrays(cudaMemcpy3DParms& p, const char* what) {
    const auto* one = array_at(p.dstArray != nullptr ? p.dstArray : p.srcArray);
    if (p.dstArray == nullptr && p.srcArray == nullptr) return cudaSuccess;
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    const auto element = one->element;
    p.extent.width *= element;
    if (p.extent.height == 0) p.extent.height = 1;
    if (p.extent.depth == 0) p.extent.depth = 1;
    // Beside an array, offsets in plain memory are in elements of it, too.
    if (p.srcArray == nullptr) p.srcPos.x *= element;
    if (p.dstArray == nullptr) p.dstPos.x *= element;
    if (const auto error = plain(p.srcArray, p.srcPos, p.srcPtr, p.extent, element, what); error != cudaSuccess) return error;
    return plain(p.dstArray, p.dstPos, p.dstPtr, p.extent, element, what);
}

}  // namespace wmmadiag

extern "C" {

cudaError_t cudaMallocArray(cudaArray_t* to, const cudaChannelFormatDesc* format, std::size_t width, std::size_t height, unsigned flags) {
    return made(to, format, {width, height, 0}, flags, "cudaMallocArray");
}
cudaError_t cudaMalloc3DArray(cudaArray_t* to, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags) {
    return made(to, format, extent, flags, "cudaMalloc3DArray");
}
cudaError_t cudaFreeArray(cudaArray_t handle) {
    WMMADIAG_LOCKED;
    if (handle == nullptr) return status(true);
    auto* one = array_at(handle);
    if (one == nullptr) return failed(cudaErrorInvalidValue);
    flush_output();
    waited();
    release(one->base, Kind::device);
    arrays().erase(handle);
    return status(true);
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags, cudaArray_t handle) {
    WMMADIAG_LOCKED;
    const auto* one = array_at(handle);
    if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if (format != nullptr) *format = one->format;
    if (extent != nullptr) *extent = one->extent;
    if (flags != nullptr) *flags = one->flags;
    return status();
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t handle) {
    return cudaArrayGetInfo(format, nullptr, nullptr, const_cast<cudaArray_t>(handle));
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width,
                                std::size_t height, cudaMemcpyKind kind) {
    return to_array(to, x, y, from, pitch, width, height, kind, "cudaMemcpy2DToArray", nullptr, true);
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width,
                                     std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return to_array(to, x, y, from, pitch, width, height, kind, "cudaMemcpy2DToArrayAsync", stream, false);
}
cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t width,
                                  std::size_t height, cudaMemcpyKind kind) {
    return from_array(to, pitch, from, x, y, width, height, kind, "cudaMemcpy2DFromArray", nullptr, true);
}
cudaError_t cudaMemcpy2DFromArrayAsync(void* to, std::size_t pitch, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t width,
                                       std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return from_array(to, pitch, from, x, y, width, height, kind, "cudaMemcpy2DFromArrayAsync", stream, false);
}
cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, std::size_t to_x, std::size_t to_y, cudaArray_const_t from, std::size_t x, std::size_t y,
                                     std::size_t width, std::size_t height, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    auto p = rows_of(width, height, kind);
    if (const auto error = set_array(p, true, from, x, y); error != cudaSuccess) return error;
    const auto error = set_array(p, false, to, to_x, to_y);
    return error != cudaSuccess ? error : copied(p, "cudaMemcpy2DArrayToArray", nullptr, true);
}
cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t count, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return in_rows(to, x, y, count, [&](std::size_t x, std::size_t y, std::size_t done, std::size_t width, std::size_t height) {
        return to_array(to, x, y, static_cast<const char*>(from) + done, width, width, height, kind, "cudaMemcpyToArray", nullptr, true);
    });
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y, const void* from, std::size_t count, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    WMMADIAG_LOCKED;
    return in_rows(to, x, y, count, [&](std::size_t x, std::size_t y, std::size_t done, std::size_t width, std::size_t height) {
        return to_array(to, x, y, static_cast<const char*>(from) + done, width, width, height, kind, "cudaMemcpyToArrayAsync", stream, false);
    });
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t count, cudaMemcpyKind kind) {
    WMMADIAG_LOCKED;
    return in_rows(from, x, y, count, [&](std::size_t x, std::size_t y, std::size_t done, std::size_t width, std::size_t height) {
        return from_array(static_cast<char*>(to) + done, width, from, x, y, width, height, kind, "cudaMemcpyFromArray", nullptr, true);
    });
}
cudaError_t cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, std::size_t x, std::size_t y, std::size_t count, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
    WMMADIAG_LOCKED;
    return in_rows(from, x, y, count, [&](std::size_t x, std::size_t y, std::size_t done, std::size_t width, std::size_t height) {
        return from_array(static_cast<char*>(to) + done, width, from, x, y, width, height, kind, "cudaMemcpyFromArrayAsync", stream, false);
    });
}

}  // extern "C"
