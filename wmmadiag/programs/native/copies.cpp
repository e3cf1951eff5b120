// Copies and fills: of one, two and three dimensions, by the calls of the runtime and by the nodes of graphs.
#include "copies.hpp"

#include <cstring>

#include "graph.hpp"
#include "ordering.hpp"

using namespace wmmadiag;

namespace {

// Whether an end of a copy lies where its kind says.
bool is_device(const void* pointer) {
    const auto* one = allocation_at(pointer);
    return (one != nullptr && one->kind != Kind::pinned) || device_address(pointer);
}

bool fits(const void* to, const void* from, cudaMemcpyKind kind, const char* what) {
    const auto both = [](const void* pointer) {
        const auto* one = allocation_at(pointer);
        return one != nullptr && (one->kind == Kind::managed || one->kind == Kind::pinned);
    };
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyDefault) return true;
    const auto wrong = [&](const void* pointer, bool device, const char* end) {
        if (both(pointer) || is_device(pointer) == device) return false;
        report("memory", "copy-direction", "error",
               std::string(what) + ": the " + end + " is " + (device ? "host" : "device") + " memory, and the kind of copy says otherwise",
               "compare the order of the arguments with the cudaMemcpyKind");
        return true;
    };
    return !wrong(to, to_device, "destination") && !wrong(from, from_device, "source");
}

}  // namespace

namespace wmmadiag {

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, const char* what) {
    if (bytes == 0) return cudaSuccess;
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return failed(cudaErrorInvalidMemcpyDirection);
    if (to == nullptr || from == nullptr || !fits(to, from, kind, what)) return failed(cudaErrorInvalidValue);
    auto* target = device_bytes(to, bytes, Access::write, what);
    const auto* source = device_bytes(from, bytes, Access::read, what);
    if (target == nullptr || source == nullptr) return failed(cudaErrorInvalidValue);
    called(what);
    touches(from, bytes, Touch::read);
    touches(to, bytes, Touch::write);
    std::memmove(target, source, bytes);
    wrote_copy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t copy2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                   cudaMemcpyKind kind, const char* what) {
    // As an H200 answers; of one row a pitch of 0 is none.
    if (width == 0 || height == 0) return cudaSuccess;
    const auto narrow = [&](std::size_t pitch) { return width > pitch && (height > 1 || pitch > 0); };
    if (narrow(to_pitch) || narrow(from_pitch)) return failed(height > 1 ? cudaErrorInvalidPitchValue : cudaErrorInvalidValue);
    if (width == to_pitch && width == from_pitch) return copy(to, from, width * height, kind, what);
    for (std::size_t row = 0; row < height; ++row) {
        const auto error = copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind, what);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

cudaError_t copy3d(const cudaMemcpy3DParms& p, const char* what) {
    if (p.srcArray != nullptr || p.dstArray != nullptr) return failed(cudaErrorInvalidResourceHandle);
    const auto at = [](const cudaPitchedPtr& memory, const cudaPos& pos, std::size_t z) {
        return static_cast<char*>(memory.ptr) + ((pos.z + z) * memory.ysize + pos.y) * memory.pitch + pos.x;
    };
    for (std::size_t z = 0; z < p.extent.depth; ++z) {
        const auto error = copy2d(at(p.dstPtr, p.dstPos, z), p.dstPtr.pitch, at(p.srcPtr, p.srcPos, z), p.srcPtr.pitch, p.extent.width,
                                  p.extent.height, p.kind, what);
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

cudaMemcpy3DParms rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                       cudaMemcpyKind kind) {
    cudaMemcpy3DParms p{};
    p.srcPtr = {const_cast<void*>(from), from_pitch, width, height};
    p.dstPtr = {to, to_pitch, width, height};
    p.extent = {width, height, 1};
    p.kind = kind;
    return p;
}

cudaError_t fill(void* to, int value, std::size_t bytes, const char* what) {
    if (bytes == 0) return cudaSuccess;
    auto* target = device_bytes(to, bytes, Access::write, what);
    auto* one = allocation_at(to);
    if (target == nullptr || one == nullptr) return failed(cudaErrorInvalidValue);
    called(what);
    touches(to, bytes, Touch::write);
    if (one->filled == (value & 255) && one->filled_version == one->version && one->kind == Kind::device) return cudaSuccess;
    std::memset(target, value, bytes);
    wrote(to, bytes);
    if (bytes == one->size) {
        one->filled = value & 255;
        one->filled_version = one->version;
    }
    return cudaSuccess;
}

cudaError_t fill2d(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, const char* what) {
    if (height > 1 && width > pitch) return failed(cudaErrorInvalidValue);
    if (width == pitch) return fill(to, value, width * height, what);
    for (std::size_t row = 0; row < height; ++row)
        if (const auto error = fill(static_cast<char*>(to) + row * pitch, value, width, what); error != cudaSuccess) return error;
    return cudaSuccess;
}

cudaError_t fill_elements(const cudaMemsetParams& p, const char* what) {
    if (p.elementSize == 1) return fill2d(p.dst, p.pitch, static_cast<int>(p.value), p.width, p.height, what);
    if ((p.elementSize != 2 && p.elementSize != 4) || (p.height > 1 && p.width * p.elementSize > p.pitch)) return failed(cudaErrorInvalidValue);
    called(what);
    for (std::size_t row = 0; row < p.height; ++row) {
        auto* begin = static_cast<char*>(p.dst) + row * p.pitch;
        const auto bytes = p.width * p.elementSize;
        auto* target = device_bytes(begin, bytes, Access::write, what);
        if (target == nullptr || allocation_at(begin) == nullptr) return failed(cudaErrorInvalidValue);
        touches(begin, bytes, Touch::write);
        for (std::size_t i = 0; i < p.width; ++i) std::memcpy(target + i * p.elementSize, &p.value, p.elementSize);
        wrote(begin, bytes);
    }
    return cudaSuccess;
}

cudaError_t symbol_at(const void* shadow, DeviceSymbol& to) {
    std::uint64_t device = 0;
    if (host().symbol(reinterpret_cast<std::uint64_t>(shadow), &device, &to.size) != 0) return failed(cudaErrorInvalidSymbol);
    to.address = reinterpret_cast<char*>(device);
    return cudaSuccess;
}

cudaError_t copy_to_symbol(const void* shadow, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
    DeviceSymbol one;
    const auto error = symbol_at(shadow, one);
    return error != cudaSuccess ? error : copy(one.address + offset, from, bytes, kind, "cudaMemcpyToSymbol");
}

cudaError_t copy_from_symbol(void* to, const void* shadow, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
    DeviceSymbol one;
    const auto error = symbol_at(shadow, one);
    return error != cudaSuccess ? error : copy(to, one.address + offset, bytes, kind, "cudaMemcpyFromSymbol");
}

}  // namespace wmmadiag

namespace {

template <class Work>
cudaError_t waiting(cudaStream_t stream, Work work) {
    WMMADIAG_LOCKED;
    if (const auto before = status(true); before != cudaSuccess) return before;
    flush_output();
    const auto error = submit(stream, work);
    waited(false);
    return error;
}

template <class Work>
cudaError_t queued(cudaStream_t stream, Work work, cudaGraphNodeType type = cudaGraphNodeTypeMemcpy) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    return submit(stream, work, type);
}

// A copy as a call asks for it.
std::function<cudaError_t()> copying(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, const char* what) {
    WMMADIAG_LOCKED;
    told_if_short(allocation_at(from) != nullptr ? from : to, bytes, 2, what);
    return [=] { return copy(to, from, bytes, kind, what); };
}

std::function<cudaError_t()> filling(void* to, int value, std::size_t bytes, const char* what) {
    WMMADIAG_LOCKED;
    told_if_short(to, bytes, 2, what);
    return [=] { return fill(to, value, bytes, what); };
}

// CUDA Runtime API, "API synchronization behavior": memory that the host sees is filled when the call returns.
cudaError_t filled(const void* to, cudaError_t error) {
    WMMADIAG_LOCKED;
    const auto* one = allocation_at(to);
    if (one != nullptr && (one->kind == Kind::pinned || one->kind == Kind::managed)) waited(false);
    return error;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return waiting(nullptr, copying(to, from, bytes, kind, "cudaMemcpy"));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return queued(stream, copying(to, from, bytes, kind, "cudaMemcpyAsync"));
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
    return waiting(nullptr, [=] { return copy(to, from, bytes, cudaMemcpyDefault, "cudaMemcpyPeer"); });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
    return queued(stream, [=] { return copy(to, from, bytes, cudaMemcpyDefault, "cudaMemcpyPeerAsync"); });
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                         cudaMemcpyKind kind) {
    return waiting(nullptr, [=] { return copy2d(to, to_pitch, from, from_pitch, width, height, kind, "cudaMemcpy2D"); });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
    return queued(stream, [=] { return copy2d(to, to_pitch, from, from_pitch, width, height, kind, "cudaMemcpy2DAsync"); });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
    return filled(to, queued(nullptr, filling(to, value, bytes, "cudaMemset"), cudaGraphNodeTypeMemset));
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    return queued(stream, filling(to, value, bytes, "cudaMemsetAsync"), cudaGraphNodeTypeMemset);
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, cudaStream_t stream) {
    return queued(stream, [=] { return fill2d(to, pitch, value, width, height, "cudaMemset2D"); }, cudaGraphNodeTypeMemset);
}
cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
    return filled(to, cudaMemset2DAsync(to, pitch, value, width, height, nullptr));
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
    return waiting(nullptr, [p = *p] { return copy3d(p, "cudaMemcpy3D"); });
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
    return queued(stream, [p = *p] { return copy3d(p, "cudaMemcpy3DAsync"); });
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
    return queued(stream, [=] {
        for (std::size_t z = 0; z < extent.depth; ++z) {
            auto* slice = static_cast<char*>(to.ptr) + z * to.ysize * to.pitch;
            if (const auto error = fill2d(slice, to.pitch, value, extent.width, extent.height, "cudaMemset3D"); error != cudaSuccess) return error;
        }
        return cudaSuccess;
    });
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) { return filled(to.ptr, cudaMemset3DAsync(to, value, extent, nullptr)); }

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }

cudaError_t cudaGetSymbolAddress(void** device, const void* shadow) {
    WMMADIAG_LOCKED;
    DeviceSymbol one;
    const auto error = symbol_at(shadow, one);
    *device = one.address;
    return error;
}
cudaError_t cudaGetSymbolSize(std::size_t* size, const void* shadow) {
    WMMADIAG_LOCKED;
    DeviceSymbol one;
    const auto error = symbol_at(shadow, one);
    *size = one.size;
    return error;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* shadow, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind,
                                    cudaStream_t stream) {
    return queued(stream, [=] { return copy_to_symbol(shadow, from, bytes, offset, kind); });
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* shadow, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    return queued(stream, [=] { return copy_from_symbol(to, shadow, bytes, offset, kind); });
}
cudaError_t cudaMemcpyToSymbol(const void* shadow, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
    return waiting(nullptr, [=] { return copy_to_symbol(shadow, from, bytes, offset, kind); });
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* shadow, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind) {
    return waiting(nullptr, [=] { return copy_from_symbol(to, shadow, bytes, offset, kind); });
}

}  // extern "C"
