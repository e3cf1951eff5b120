// Copies and fills as pieces of work: done at once, told to the checks, and the same for calls and for nodes of graphs. `what` names the
// call in messages.
#pragma once

#include "runtime.hpp"

namespace wmmadiag {

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, const char* what);
cudaError_t copy2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                   cudaMemcpyKind kind, const char* what);
cudaError_t copy3d(const cudaMemcpy3DParms& parameters, const char* what);
// A copy of rows as one of three dimensions.
cudaMemcpy3DParms rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width, std::size_t height,
                       cudaMemcpyKind kind);
cudaError_t copy_to_symbol(const void* shadow, const void* from, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind);
cudaError_t copy_from_symbol(void* to, const void* shadow, std::size_t bytes, std::size_t offset, cudaMemcpyKind kind);
cudaError_t fill(void* to, int value, std::size_t bytes, const char* what);
cudaError_t fill2d(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, const char* what);
// Rows of elements of one, two or four bytes.
cudaError_t fill_elements(const cudaMemsetParams& parameters, const char* what);

// A variable of the device, by the address of the host's shadow of it.
struct DeviceSymbol {
    char* address = nullptr;
    std::uint64_t size = 0;
};
cudaError_t symbol_at(const void* shadow, DeviceSymbol& to);

// Tells where a call takes as many bytes of an allocation as that has elements; `argument`: which one of the call's its size is, from 0.
void told_if_short(const void* pointer, std::size_t bytes, std::size_t argument, const char* what);

}  // namespace wmmadiag
