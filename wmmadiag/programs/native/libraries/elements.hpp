// Elements of device memory as the libraries compute with them, widened to float64. Every access is checked as a copy's is:
// bounds, freed memory, memory of the host, what nothing has written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <library_types.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "runtime.hpp"

namespace wmmadiag::libraries {

using Complex = std::complex<double>;

/// Bytes of one element, or 0 for a type that is not offered.
inline size_t element_size(cudaDataType type) {
    switch (type) {
        case CUDA_R_8I:
        case CUDA_R_8U:
        case CUDA_R_8F_E4M3:
        case CUDA_R_8F_E5M2: return 1;
        case CUDA_R_16F:
        case CUDA_R_16BF: return 2;
        case CUDA_R_32F:
        case CUDA_R_32I: return 4;
        case CUDA_R_64F:
        case CUDA_C_32F: return 8;
        case CUDA_C_64F: return 16;
        default: return 0;
    }
}

inline bool is_complex(cudaDataType type) { return type == CUDA_C_32F || type == CUDA_C_64F; }

template <class T>
T read_as(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

inline double load_real(cudaDataType type, const void* at) {
    switch (type) {
        case CUDA_R_8I: return read_as<int8_t>(at);
        case CUDA_R_8U: return read_as<uint8_t>(at);
        case CUDA_R_32I: return read_as<int32_t>(at);
        case CUDA_R_16F: return __half2float(read_as<__half>(at));
        case CUDA_R_16BF: return __bfloat162float(read_as<__nv_bfloat16>(at));
        case CUDA_R_8F_E4M3: return __half2float(__half(__nv_cvt_fp8_to_halfraw(read_as<uint8_t>(at), __NV_E4M3)));
        case CUDA_R_8F_E5M2: return __half2float(__half(__nv_cvt_fp8_to_halfraw(read_as<uint8_t>(at), __NV_E5M2)));
        case CUDA_R_32F: return read_as<float>(at);
        case CUDA_R_64F: return read_as<double>(at);
        default: return std::numeric_limits<double>::quiet_NaN();
    }
}

/// Rounded once, to nearest even; fp8 saturates as cuBLAS's conversions do; 32-bit integers wrap, 8-bit ones saturate.
inline void store_real(cudaDataType type, void* at, double value) {
    const auto put = [at](auto bits) { std::memcpy(at, &bits, sizeof bits); };
    const auto clamp = [value](double low, double high) { return value < low ? low : value > high ? high : value == value ? value : 0; };
    switch (type) {
        case CUDA_R_8I: return put(static_cast<int8_t>(__builtin_rint(clamp(-128, 127))));
        case CUDA_R_8U: return put(static_cast<uint8_t>(__builtin_rint(clamp(0, 255))));
        case CUDA_R_32I: return put(static_cast<uint32_t>(static_cast<int64_t>(clamp(-0x1p62, 0x1p62))));
        case CUDA_R_16F: return put(__double2half(value));
        case CUDA_R_16BF: return put(__double2bfloat16(value));
        case CUDA_R_8F_E4M3: return put(__nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E4M3));
        case CUDA_R_8F_E5M2: return put(__nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E5M2));
        case CUDA_R_32F: return put(static_cast<float>(value));
        case CUDA_R_64F: return put(value);
        default: return;
    }
}

/// One element as S (double, or Complex for complex types).
template <class S>
S load(cudaDataType type, const void* at) {
    if constexpr (std::is_same_v<S, Complex>) {
        if (type == CUDA_C_32F) return Complex(read_as<float>(at), read_as<float>(static_cast<const char*>(at) + 4));
        if (type == CUDA_C_64F) return Complex(read_as<double>(at), read_as<double>(static_cast<const char*>(at) + 8));
    }
    return S(load_real(type, at));
}

template <class S>
void store(cudaDataType type, void* at, S value) {
    if constexpr (std::is_same_v<S, Complex>) {
        const cudaDataType part = type == CUDA_C_32F ? CUDA_R_32F : CUDA_R_64F;
        store_real(part, at, value.real());
        store_real(part, static_cast<char*>(at) + element_size(part), value.imag());
    } else {
        store_real(type, at, value);
    }
}

template <class S>
S conjugate(S value) {
    if constexpr (std::is_same_v<S, Complex>) return std::conj(value);
    return value;
}

/// A stored array: `lines` runs of `length` elements, `pitch` elements from one to the next (columns of a column-major matrix).
struct Lines {
    const void* data;
    cudaDataType type;
    size_t length, lines, pitch;

    size_t bytes() const { return lines == 0 ? 0 : ((lines - 1) * pitch + length) * element_size(type); }
};

/// The bytes of device memory that a call named `what` reads or writes. Throws after a report where that is not allowed.
std::byte* reach(const char* what, const Lines& lines, Access access);
/// Reports what nothing has written yet.
void expect_written(const char* what, const Lines& lines);
void mark_written(const Lines& lines);

/// The elements of device memory, line after line.
template <class S>
std::vector<S> fetch(const char* what, const Lines& from) {
    std::vector<S> values(from.length * from.lines);
    if (values.empty()) return values;
    const size_t size = element_size(from.type);
    const std::byte* at = reach(what, from, Access::read);
    expect_written(what, from);
    for (size_t line = 0; line < from.lines; ++line)
        for (size_t i = 0; i < from.length; ++i) values[line * from.length + i] = load<S>(from.type, at + (line * from.pitch + i) * size);
    return values;
}

template <class S>
void put(const char* what, const Lines& to, const std::vector<S>& values) {
    if (values.empty()) return;
    const size_t size = element_size(to.type);
    std::byte* at = reach(what, to, Access::write);
    for (size_t line = 0; line < to.lines; ++line)
        for (size_t i = 0; i < to.length; ++i) store<S>(to.type, at + (line * to.pitch + i) * size, values[line * to.length + i]);
    mark_written(to);
}

/// One library call on its way: checked at once, done in its stream's order.
struct Call {
    const char* name;
    cudaStream_t stream;
    bool device_scalars;

    template <class Work>
    void submit(Work work) const {
        const cudaError_t error = wmmadiag::submit(stream, [work]() -> cudaError_t {
            try {
                work();
                return cudaSuccess;
            } catch (cudaError_t fault_error) {
                fault(fault_error);
                return fault_error;
            }
        });
        if (error != cudaSuccess) throw error;
    }
};

/// C[m, n] += A[m, k] · B[k, n] in float64, all row-major and dense; every sum runs over k upwards, whatever the machine.
template <class S>
void multiply(size_t m, size_t n, size_t k, const S* a, const S* b, S* c);

}  // namespace wmmadiag::libraries
