// What cuSOLVER's calls share: how one is refused or runs, and its matrices, triangles, pivots and numbers.
#pragma once

#include <string>
#include <vector>

#include "cusolverDn.h"
#include "factors.hpp"

struct cusolverDnContext {
    cudaStream_t stream = nullptr;
};
struct cusolverDnParams {};
struct syevjInfo {
    int sweeps = 0;
    double residual = 0;
};

namespace wmmadiag::solver {

using namespace libraries;

struct Refused {
    cusolverStatus_t status;
};
[[noreturn]] inline void wrong(const Call& call, const std::string& why) {
    report("library", "invalid-value", "warning", std::string(call.name) + ": " + why,
           "the call returns CUSOLVER_STATUS_INVALID_VALUE and does nothing");
    throw Refused{CUSOLVER_STATUS_INVALID_VALUE};
}
[[noreturn]] inline void not_offered(const Call& call, const std::string& what) {
    report("library", "unsupported", "warning", std::string(call.name) + ": " + what + " is not offered",
           "the call returns CUSOLVER_STATUS_NOT_SUPPORTED and does nothing");
    throw Refused{CUSOLVER_STATUS_NOT_SUPPORTED};
}

constexpr int64_t room_for(int64_t rows, int64_t cols) { return 32 * std::max<int64_t>(1, std::max(rows, cols)); }
constexpr size_t widest = 16;  // bytes of an element

inline void checked(const Call& call, const Operand& a, const char* name) {
    if (a.rows < 0 || a.cols < 0) wrong(call, std::string(name) + " has a size less than 0");
    if (a.ld < std::max<int64_t>(1, a.rows))
        wrong(call, "the leading dimension of " + std::string(name) + " is " + std::to_string(a.ld) + ", and must be " +
                        std::to_string(std::max<int64_t>(1, a.rows)) + " or more");
}

/// Runs `body` on S = double or Complex, as the type asks; what it throws becomes the status.
template <class Body>
cusolverStatus_t guarded(Caller caller, cusolverDnHandle_t handle, const Operand& a, const Body& body) {
    if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    if (status() != cudaSuccess) return CUSOLVER_STATUS_EXECUTION_FAILED;
    const Call call{caller.function, handle->stream, false};
    try {
        checked(call, a, "A");
        if (a.type == CUDA_C_32F || a.type == CUDA_C_64F) body(call, Complex());
        else if (a.type == CUDA_R_32F || a.type == CUDA_R_64F) body(call, 0.0);
        else not_offered(call, "a matrix of cudaDataType " + std::to_string(a.type));
        return CUSOLVER_STATUS_SUCCESS;
    } catch (const Refused& refused) {
        return refused.status;
    } catch (cudaError_t) {
        return CUSOLVER_STATUS_EXECUTION_FAILED;
    }
}

inline Lines lines(const Operand& a) { return {a.data, a.type, static_cast<size_t>(a.rows), static_cast<size_t>(a.cols), static_cast<size_t>(a.ld)}; }
inline Lines row(const void* data, cudaDataType type, size_t count) { return {data, type, count, 1, count}; }
inline cudaDataType real_of(cudaDataType type) { return type == CUDA_C_32F ? CUDA_R_32F : type == CUDA_C_64F ? CUDA_R_64F : type; }
inline Operand columns(Operand a, int64_t count) { return {a.data, a.type, a.rows, count, a.ld}; }

/// Room on the device counts as written to, so that calls of two streams that share it are seen.
inline void use(const Call& call, const Room& work, int64_t needed) {
    const int64_t count = work.count < 0 ? needed : work.count;
    if (work.type != CUDA_R_8U && count < needed)
        wrong(call, "the room given is " + std::to_string(count) + " elements, where " + std::to_string(needed) + " were asked for");
    if (count > 0) reach(call.name, row(work.data, work.type, static_cast<size_t>(count)), Access::write);
}
inline void tell(const Call& call, const int* info, int value) {
    if (info != nullptr) put<double>(call.name, row(info, CUDA_R_32I, 1), {double(value)});
}
inline void put_real(const Call& call, const void* to, cudaDataType type, const std::vector<double>& values) {
    put<double>(call.name, row(to, real_of(type), values.size()), values);
}

inline void put_pivots(const Call& call, const Pivots& to, const std::vector<int>& values) {
    if (!to.wide) return put<double>(call.name, row(to.data, CUDA_R_32I, values.size()), {values.begin(), values.end()});
    const auto place = row(to.data, CUDA_R_64F, values.size());
    if (values.empty()) return;
    std::byte* at = reach(call.name, place, Access::write);
    for (const int64_t value : values) at = static_cast<std::byte*>(std::memcpy(at, &value, 8)) + 8;
    mark_written(place);
}
inline std::vector<int> pivots_of(const Call& call, const Pivots& from, size_t count) {
    std::vector<int> out(count);
    if (count == 0) return out;
    const auto place = row(from.data, from.wide ? CUDA_R_64F : CUDA_R_32I, count);
    const std::byte* at = reach(call.name, place, Access::read);
    expect_written(call.name, place);
    for (size_t i = 0; i < count; ++i) out[i] = from.wide ? static_cast<int>(read_as<int64_t>(at + 8 * i)) : read_as<int>(at + 4 * i);
    return out;
}

/// The lower triangle of a Hermitian matrix of which one triangle is stored; the upper one is its mirror.
template <class S>
std::vector<S> whole(const Call& call, const Operand& a, cublasFillMode_t fill) {
    auto out = fetch<S>(call.name, lines(a));
    const auto n = static_cast<size_t>(a.rows);
    for (size_t j = 0; j < n; ++j) {
        out[j * n + j] = S(std::real(out[j * n + j]));
        for (size_t i = j + 1; i < n; ++i)
            if (fill == CUBLAS_FILL_MODE_LOWER) out[i * n + j] = conjugate(out[j * n + i]);
            else out[j * n + i] = conjugate(out[i * n + j]);
    }
    return out;
}
/// Writes one triangle; the other stays as it is.
template <class S>
void put_triangle(const Call& call, const Operand& a, cublasFillMode_t fill, const std::vector<S>& lower) {
    auto out = fetch<S>(call.name, lines(a));
    const auto n = static_cast<size_t>(a.rows);
    for (size_t j = 0; j < n; ++j)
        for (size_t i = j; i < n; ++i)
            if (fill == CUBLAS_FILL_MODE_LOWER) out[j * n + i] = lower[j * n + i];
            else out[i * n + j] = conjugate(lower[j * n + i]);
    put<S>(call.name, lines(a), out);
}
/// L of a stored Cholesky factor.
template <class S>
std::vector<S> root_of(const Call& call, const Operand& a, cublasFillMode_t fill) {
    auto out = fetch<S>(call.name, lines(a));
    const auto n = static_cast<size_t>(a.rows);
    for (size_t j = 0; j < n; ++j)
        for (size_t i = j; i < n; ++i)
            if (fill != CUBLAS_FILL_MODE_LOWER) out[j * n + i] = conjugate(out[i * n + j]);
    return out;
}
/// L x = y, or Lᴴ x = y.
template <class S>
void substituted(const std::vector<S>& l, size_t n, bool adjoint, S* x) {
    for (size_t step = 0; step < n; ++step) {
        const size_t k = adjoint ? n - 1 - step : step;
        const S* column = l.data() + k * n;
        if (adjoint)
            for (size_t i = k + 1; i < n; ++i) x[k] -= conjugate(column[i]) * x[i];
        x[k] /= adjoint ? conjugate(column[k]) : column[k];
        if (!adjoint)
            for (size_t i = k + 1; i < n; ++i) x[i] -= column[i] * x[k];
    }
}

/// Addresses of a batch's matrices, which lie on the device.
inline std::vector<const void*> places(const Call& call, const void* array, int batch) {
    std::vector<const void*> out(static_cast<size_t>(batch));
    const auto all = row(array, CUDA_R_64F, out.size());
    if (out.empty()) return out;
    expect_written(call.name, all);
    std::memcpy(out.data(), reach(call.name, all, Access::read), out.size() * sizeof(void*));
    return out;
}
inline Operand at(const void* place, Operand a) {
    a.data = place;
    return a;
}
/// `count` elements behind.
inline const void* behind(const void* data, cudaDataType type, int64_t count) {
    return static_cast<const std::byte*>(data) + count * static_cast<int64_t>(element_size(type));
}
inline Operand behind(Operand a, int64_t count) { return at(behind(a.data, a.type, count), a); }

template <class S>
int potrf_one(const Call& call, const Operand& a, cublasFillMode_t fill) {
    auto all = whole<S>(call, a, fill);
    const int info = rooted(all, static_cast<size_t>(a.rows));
    put_triangle(call, a, fill, all);
    return info;
}
template <class S>
void potrs_one(const Call& call, const Operand& a, const Operand& b, cublasFillMode_t fill) {
    const auto l = root_of<S>(call, a, fill);
    auto x = fetch<S>(call.name, lines(b));
    const auto n = static_cast<size_t>(a.rows);
    for (size_t c = 0; c < static_cast<size_t>(b.cols); ++c)
        for (const bool adjoint : {false, true}) substituted(l, n, adjoint, x.data() + c * n);
    put<S>(call.name, lines(b), x);
}

template <class T>
cusolverStatus_t made(T** to) {
    if (to == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
    *to = new T;
    return CUSOLVER_STATUS_SUCCESS;
}
template <class T>
cusolverStatus_t gone(T* one) {
    if (one == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
    delete one;
    return CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t taken(const void* one) { return one == nullptr ? CUSOLVER_STATUS_NOT_INITIALIZED : CUSOLVER_STATUS_SUCCESS; }

}  // namespace wmmadiag::solver
