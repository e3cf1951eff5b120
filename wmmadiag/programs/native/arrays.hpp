// Arrays for textures and surfaces: elements in plain rows, in an allocation of the device's.
#pragma once

#include "runtime.hpp"

namespace wmmadiag {

struct Array {
    cudaChannelFormatDesc format{};
    cudaExtent extent{};  // as it was asked for: 0 where there is no such axis
    unsigned flags = 0;
    char* base = nullptr;
    std::size_t element = 0, pitch = 0, slice = 0;  // bytes of an element, a row, a plane
    [[nodiscard]] std::size_t rows() const { return extent.height == 0 ? 1 : extent.height; }
    [[nodiscard]] std::size_t planes() const { return extent.depth == 0 ? 1 : extent.depth; }
};

// The array behind a handle, or nullptr.
Array* array_at(cudaArray_const_t handle);
// A copy between arrays or of one as a copy of plain memory: sizes in bytes. An error where it leaves the array.
cudaError_t without_arrays(cudaMemcpy3DParms& parameters, const char* what);

}  // namespace wmmadiag
