// Texture and surface objects: records in the device's memory that kernels read (texture.hpp).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "arrays.hpp"
#include "memory.hpp"
#include "texture.hpp"

using namespace wmmadiag;

namespace {

struct Made {
    cudaResourceDesc resource{};
    cudaTextureDesc texture{};
    bool surface = false;
};
std::map<std::uint64_t, Made>& objects() {
    static auto* all = new std::map<std::uint64_t, Made>;
    return *all;
}

cudaError_t refused(const char* call, const std::string& what, const char* next) {
    report("launch", "unsupported", "error", std::string(call) + ": " + what, next);
    return failed(cudaErrorNotSupported);
}

bool has_format(Texture& to, const cudaChannelFormatDesc& format) {
    const int all[4]{format.x, format.y, format.z, format.w};
    to.bits = static_cast<unsigned>(format.x);
    to.channels = 0;
    while (to.channels < 4 && all[to.channels] == format.x) ++to.channels;
    to.format = format.f == cudaChannelFormatKindFloat    ? Texture::is_float
                : format.f == cudaChannelFormatKindSigned ? Texture::is_signed
                                                          : Texture::is_unsigned;
    return format.f == cudaChannelFormatKindFloat || format.f == cudaChannelFormatKindSigned || format.f == cudaChannelFormatKindUnsigned;
}

// What an object reads or writes.
cudaError_t resource_of(Texture& to, const cudaResourceDesc& from, const char* call) {
    switch (from.resType) {
        case cudaResourceTypeArray: {
            const auto* one = array_at(from.res.array.array);
            if (one == nullptr) return failed(cudaErrorInvalidResourceHandle);
            if (!has_format(to, one->format)) return refused(call, "this format of elements is not emulated", "signed, unsigned and float are");
            to.resource = Texture::array;
            to.base = reinterpret_cast<std::uint64_t>(one->base);
            to.pitch = one->pitch;
            to.slice = one->slice;
            to.size[0] = static_cast<unsigned>(one->extent.width);
            to.size[1] = static_cast<unsigned>(one->rows());
            to.size[2] = static_cast<unsigned>(one->planes());
            return cudaSuccess;
        }
        case cudaResourceTypeLinear: {
            const auto& linear = from.res.linear;
            if (!has_format(to, linear.desc) || to.bits == 0) return failed(cudaErrorInvalidChannelDescriptor);
            const auto element = to.channels * to.bits / 8;
            if (device_bytes(linear.devPtr, linear.sizeInBytes, Access::read, call) == nullptr) return failed(cudaErrorInvalidValue);
            to.resource = Texture::linear;
            to.base = reinterpret_cast<std::uint64_t>(linear.devPtr);
            to.pitch = to.slice = linear.sizeInBytes;
            to.size[0] = static_cast<unsigned>(linear.sizeInBytes / element);
            to.size[1] = to.size[2] = 1;
            return cudaSuccess;
        }
        case cudaResourceTypePitch2D: {
            const auto& rows = from.res.pitch2D;
            if (!has_format(to, rows.desc) || to.bits == 0) return failed(cudaErrorInvalidChannelDescriptor);
            const auto width = rows.width * to.channels * to.bits / 8;
            if (rows.pitchInBytes % 32 != 0 || rows.pitchInBytes < width) return failed(cudaErrorInvalidValue);  // texturePitchAlignment
            if (device_bytes(rows.devPtr, rows.pitchInBytes * (rows.height - 1) + width, Access::read, call) == nullptr)
                return failed(cudaErrorInvalidValue);
            to.resource = Texture::array;
            to.base = reinterpret_cast<std::uint64_t>(rows.devPtr);
            to.pitch = rows.pitchInBytes;
            to.slice = rows.pitchInBytes * rows.height;
            to.size[0] = static_cast<unsigned>(rows.width);
            to.size[1] = static_cast<unsigned>(rows.height);
            to.size[2] = 1;
            return cudaSuccess;
        }
        default: return refused(call, "mipmaps are not emulated", "arrays, plain memory and rows with a pitch are");
    }
}

// A border's colour in the texture's own steps.
float edge(const Texture& to, float colour) {
    if (!to.as_float) return colour;
    const auto one = static_cast<float>((1u << (to.bits - (to.format == Texture::is_signed ? 1 : 0))) - 1);
    return std::rint(std::min(std::max(colour, to.format == Texture::is_signed ? -1.0f : 0.0f), 1.0f) * one) / one;
}

// Gives the record its place on the device; its address is the handle.
cudaError_t placed(unsigned long long* to, const Texture& record, const Made& made, const char* what) {
    const Here before = here();
    here() = {before.file, before.line, "", 1};
    auto* pointer = allocate(sizeof record, Kind::symbol, what);
    here() = before;
    if (pointer == nullptr) return failed(cudaErrorMemoryAllocation);
    std::memcpy(allocation_at(pointer)->view, &record, sizeof record);
    *to = reinterpret_cast<std::uint64_t>(pointer);
    objects()[*to] = made;
    return cudaSuccess;
}

cudaError_t destroyed(unsigned long long handle, bool surface) {
    WMMADIAG_LOCKED;
    const auto found = objects().find(handle);
    if (found == objects().end() || found->second.surface != surface) return failed(cudaErrorInvalidValue);
    objects().erase(found);
    release(reinterpret_cast<void*>(handle), Kind::symbol);
    return status();
}

const Made* object_at(unsigned long long handle, bool surface) {
    const auto found = objects().find(handle);
    return found == objects().end() || found->second.surface != surface ? nullptr : &found->second;
}

}  // namespace

extern "C" {

std::size_t wmmadiag_bytes_from(const void* pointer) {
    WMMADIAG_LOCKED;
    const auto* one = allocation_at(pointer);
    return one == nullptr ? 0 : one->size - (reinterpret_cast<std::uint64_t>(pointer) - one->address);
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* to, const cudaResourceDesc* resource, const cudaTextureDesc* texture,
                                    const cudaResourceViewDesc* view) {
    WMMADIAG_LOCKED;
    const char* call = "cudaCreateTextureObject";
    if (const auto before = status(); before != cudaSuccess) return before;
    if (to == nullptr || resource == nullptr || texture == nullptr) return failed(cudaErrorInvalidValue);
    if (view != nullptr) return refused(call, "views of resources are not emulated", "give no cudaResourceViewDesc");
    if (texture->sRGB != 0) return refused(call, "sRGB is not emulated", "convert the numbers in the kernel");
    Texture one{};
    one.mark = Texture::marked;
    if (const auto error = resource_of(one, *resource, call); error != cudaSuccess) return error;
    one.normalized = texture->normalizedCoords != 0;
    one.filtered = texture->filterMode == cudaFilterModeLinear && one.resource == Texture::array;
    one.as_float = texture->readMode == cudaReadModeNormalizedFloat && one.format != Texture::is_float;
    if (one.as_float && one.bits == 32) return failed(cudaErrorInvalidNormSetting);
    if (one.filtered && one.format != Texture::is_float && !one.as_float) return failed(cudaErrorInvalidFilterSetting);
    for (int k = 0; k < 3; ++k) one.address[k] = static_cast<Texture::Address>(texture->addressMode[k]);
    const bool outside = texture->addressMode[0] == cudaAddressModeBorder || texture->addressMode[1] == cudaAddressModeBorder ||
                         texture->addressMode[2] == cudaAddressModeBorder;
    for (unsigned i = 0; i < 4; ++i) one.edge[i] = edge(one, texture->borderColor[i]);
    if (outside && one.format != Texture::is_float && !one.as_float && (one.edge[0] != 0 || one.edge[1] != 0 || one.edge[2] != 0 || one.edge[3] != 0))
        return refused(call, "a border colour of whole numbers is not emulated", "leave it 0");
    return placed(to, one, {*resource, *texture, false}, "a texture object");
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t handle) { return destroyed(handle, false); }
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* to, cudaTextureObject_t handle) {
    WMMADIAG_LOCKED;
    const auto* one = object_at(handle, false);
    if (one == nullptr) return failed(cudaErrorInvalidValue);
    *to = one->resource;
    return status();
}
cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* to, cudaTextureObject_t handle) {
    WMMADIAG_LOCKED;
    const auto* one = object_at(handle, false);
    if (one == nullptr) return failed(cudaErrorInvalidValue);
    *to = one->texture;
    return status();
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* to, const cudaResourceDesc* resource) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    if (to == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray) return failed(cudaErrorInvalidValue);
    const auto* array = array_at(resource->res.array.array);
    if (array == nullptr) return failed(cudaErrorInvalidResourceHandle);
    if ((array->flags & cudaArraySurfaceLoadStore) == 0) return failed(cudaErrorInvalidValue);
    Texture one{};
    one.mark = Texture::marked;
    if (const auto error = resource_of(one, *resource, "cudaCreateSurfaceObject"); error != cudaSuccess) return error;
    one.resource = Texture::surface;
    return placed(to, one, {*resource, {}, true}, "a surface object");
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t handle) { return destroyed(handle, true); }
cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* to, cudaSurfaceObject_t handle) {
    WMMADIAG_LOCKED;
    const auto* one = object_at(handle, true);
    if (one == nullptr) return failed(cudaErrorInvalidValue);
    *to = one->resource;
    return status();
}

}  // extern "C"
