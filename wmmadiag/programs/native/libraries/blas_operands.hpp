// Operands of cuBLAS's functions: scalars of host and device, vectors with a step, matrices by columns.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "blas.hpp"

namespace wmmadiag::blas {

using namespace libraries;

/// alpha or beta: read at the call from the host, or in the stream's order from the device.
template <class S>
struct Factor {
    Call call;
    Scalar from;
    S value;

    S operator()() const { return call.device_scalars ? fetch<S>(call.name, {from.data, from.type, 1, 1, 1})[0] : value; }
};

template <class S>
Factor<S> factor(const Call& call, Scalar from) {
    return {call, from, call.device_scalars ? S(0) : load<S>(from.type, from.data)};
}

template <class S>
void answer(const Call& call, Scalar to, S value) {
    if (!call.device_scalars) return store<S>(to.type, const_cast<void*>(to.data), value);
    put<S>(call.name, {to.data, to.type, 1, 1, 1}, {value});
}

/// A result of the host is there when the call returns.
inline void answered(const Call& call) {
    if (!call.device_scalars) waited_for(call.stream);
}

inline void at_least(const Call& call, const char* format, long long value, long long least) {
    if (value < least) throw invalid(call.name, format, value, least);
}

/// Runs `body` on S = double or Complex, as the type asks; what it throws becomes the status.
template <class Body>
cublasStatus_t guarded(Caller caller, cublasHandle_t handle, cudaDataType type, const Body& body) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    return refused(caller, [&] {
        const Call call{caller.function, handle->stream, handle->pointers == CUBLAS_POINTER_MODE_DEVICE};
        known_type(call.name, "a matrix or vector", type);
        if (is_complex(type)) body(call, Complex());
        else body(call, 0.0);
    });
}

inline Lines columns(Matrix a, size_t rows, size_t cols) { return {a.data, a.type, rows, cols, static_cast<size_t>(a.ld)}; }

/// Vectors with a negative step start at their last element, as in BLAS.
template <class S>
std::vector<S> fetch_vector(const Call& call, Vector x, size_t n) {
    const size_t step = static_cast<size_t>(std::abs(x.inc));
    std::vector<S> values = step == 1 ? fetch<S>(call.name, {x.data, x.type, n, 1, n}) : fetch<S>(call.name, {x.data, x.type, 1, n, step});
    if (x.inc < 0) std::reverse(values.begin(), values.end());
    return values;
}

template <class S>
void put_vector(const Call& call, Vector x, std::vector<S> values) {
    const size_t step = static_cast<size_t>(std::abs(x.inc)), n = values.size();
    if (x.inc < 0) std::reverse(values.begin(), values.end());
    put<S>(call.name, step == 1 ? Lines{x.data, x.type, n, 1, n} : Lines{x.data, x.type, 1, n, step}, values);
}

/// op(a) as a dense row-major matrix; `a` is stored by columns, rows × cols.
template <class S>
std::vector<S> rows_of(const std::vector<S>& a, size_t rows, size_t cols, cublasOperation_t op) {
    std::vector<S> out(a.size());
    for (size_t j = 0; j < cols; ++j)
        for (size_t i = 0; i < rows; ++i) {
            const S value = a[j * rows + i];
            if (op == CUBLAS_OP_N) out[i * cols + j] = value;
            else out[j * rows + i] = op == CUBLAS_OP_C ? conjugate(value) : value;
        }
    return out;
}

}  // namespace wmmadiag::blas
