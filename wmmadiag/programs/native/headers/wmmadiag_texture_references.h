// Texture references, which CUDA 12 took out, as host code has them: what is bound becomes a texture object, which the device's variable
// of the same name holds.
#pragma once
#include <climits>

extern "C" size_t wmmadiag_bytes_from(const void* pointer);  // to the end of its allocation

struct textureReference {
    cudaTextureObject_t object = 0;
    int normalized = 0;
    cudaTextureFilterMode filterMode = cudaFilterModePoint;
    cudaTextureAddressMode addressMode[3] = {cudaAddressModeClamp, cudaAddressModeClamp, cudaAddressModeClamp};
    cudaChannelFormatDesc channelDesc{};
    cudaTextureReadMode readMode = cudaReadModeElementType;
    int sRGB = 0;
    unsigned maxAnisotropy = 0;
    unsigned unused[17] = {};
};
static_assert(sizeof(textureReference) == 128, "the device's variable has that size");

template <class T, int type = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture : textureReference {
    texture(int coordinates = 0, cudaTextureFilterMode filter = cudaFilterModePoint, cudaTextureAddressMode outside = cudaAddressModeClamp,
            cudaChannelFormatDesc format = cudaCreateChannelDesc<T>()) {
        normalized = coordinates;
        filterMode = filter;
        for (auto& one : addressMode) one = outside;
        channelDesc = format;
        readMode = mode;
    }
};

inline cudaError_t cudaUnbindTexture(const textureReference& reference) {
    auto& one = const_cast<textureReference&>(reference);
    if (one.object != 0) (::cudaDestroyTextureObject)(one.object);
    one.object = 0;
    return cudaSuccess;
}
inline cudaError_t wmmadiag_bind(const textureReference& reference, const cudaResourceDesc& resource) {
    auto& one = const_cast<textureReference&>(reference);
    cudaUnbindTexture(one);
    cudaTextureDesc how{};
    for (int i = 0; i < 3; ++i) how.addressMode[i] = one.addressMode[i];
    how.filterMode = one.filterMode;
    how.readMode = one.channelDesc.f == cudaChannelFormatKindFloat ? cudaReadModeElementType : one.readMode;
    how.sRGB = one.sRGB;
    how.normalizedCoords = one.normalized;
    if (const auto error = (::cudaCreateTextureObject)(&one.object, &resource, &how, nullptr); error != cudaSuccess) return error;
    return (::cudaMemcpyToSymbol)(one, &one.object, sizeof one.object, 0, cudaMemcpyHostToDevice);
}
inline cudaError_t cudaBindTextureToArray(const textureReference& reference, cudaArray_const_t array, const cudaChannelFormatDesc& format) {
    const_cast<textureReference&>(reference).channelDesc = format;
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = const_cast<cudaArray_t>(array);
    return wmmadiag_bind(reference, resource);
}
inline cudaError_t cudaBindTextureToArray(const textureReference& reference, cudaArray_const_t array) {
    cudaChannelFormatDesc format;
    const auto error = cudaGetChannelDesc(&format, array);
    return error != cudaSuccess ? error : cudaBindTextureToArray(reference, array, format);
}
inline cudaError_t cudaBindTexture(size_t* offset, const textureReference& reference, const void* pointer, const cudaChannelFormatDesc& format,
                                   size_t bytes = UINT_MAX) {
    if (offset != nullptr) *offset = 0;
    const_cast<textureReference&>(reference).channelDesc = format;
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = const_cast<void*>(pointer);
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = bytes == UINT_MAX ? wmmadiag_bytes_from(pointer) : bytes;
    return wmmadiag_bind(reference, resource);
}
inline cudaError_t cudaBindTexture(size_t* offset, const textureReference& reference, const void* pointer, size_t bytes = UINT_MAX) {
    return cudaBindTexture(offset, reference, pointer, reference.channelDesc, bytes);
}
inline cudaError_t cudaBindTexture2D(size_t* offset, const textureReference& reference, const void* pointer, const cudaChannelFormatDesc& format,
                                     size_t width, size_t height, size_t pitch) {
    if (offset != nullptr) *offset = 0;
    const_cast<textureReference&>(reference).channelDesc = format;
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {const_cast<void*>(pointer), format, width, height, pitch};
    return wmmadiag_bind(reference, resource);
}
inline cudaError_t cudaBindTexture2D(size_t* offset, const textureReference& reference, const void* pointer, size_t width, size_t height, size_t pitch) {
    return cudaBindTexture2D(offset, reference, pointer, reference.channelDesc, width, height, pitch);
}
// By pointers, as C has them.
inline cudaError_t cudaUnbindTexture(const textureReference* one) { return cudaUnbindTexture(*one); }
inline cudaError_t cudaBindTexture(size_t* offset, const textureReference* one, const void* pointer, const cudaChannelFormatDesc* format,
                                   size_t bytes = UINT_MAX) {
    return cudaBindTexture(offset, *one, pointer, *format, bytes);
}
inline cudaError_t cudaBindTextureToArray(const textureReference* one, cudaArray_const_t array, const cudaChannelFormatDesc* format) {
    return cudaBindTextureToArray(*one, array, *format);
}
inline cudaError_t cudaGetTextureReference(const textureReference** to, const void* symbol) {
    *to = static_cast<const textureReference*>(symbol);
    return cudaSuccess;
}
