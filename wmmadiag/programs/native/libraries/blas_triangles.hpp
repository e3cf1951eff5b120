// Triangles of matrices, results that are added to, and the matrices of a batch.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "blas_operands.hpp"

namespace wmmadiag::blas {

/// Calls `body` with each column of a triangle: its number, its first row, where it lies. Nothing else of the matrix is touched.
template <class Body>
void each_column(Matrix a, size_t n, cublasFillMode_t fill, bool diagonal, const Body& body) {
    for (size_t j = 0; j < n; ++j) {
        const size_t first = fill == CUBLAS_FILL_MODE_UPPER ? 0 : j + !diagonal;
        const size_t count = fill == CUBLAS_FILL_MODE_UPPER ? j + diagonal : n - first;
        const size_t offset = (j * static_cast<size_t>(a.ld) + first) * element_size(a.type);
        if (count != 0) body(j, first, Lines{static_cast<const char*>(a.data) + offset, a.type, count, 1, count});
    }
}

template <class S>
std::vector<S> fetch_triangle(const Call& call, Matrix a, size_t n, cublasFillMode_t fill, bool diagonal = true) {
    std::vector<S> out(n * n);
    each_column(a, n, fill, diagonal, [&](size_t j, size_t first, const Lines& part) {
        const std::vector<S> values = fetch<S>(call.name, part);
        std::copy(values.begin(), values.end(), out.begin() + static_cast<std::ptrdiff_t>(j * n + first));
    });
    return out;
}

/// The triangle named by `fill` mirrored, or completed with zeros and a unit diagonal.
template <class S>
void mirror(std::vector<S>& a, size_t n, cublasFillMode_t fill) {
    for (size_t j = 0; j < n; ++j)
        for (size_t i = 0; i < j; ++i) {
            S &upper = a[j * n + i], &lower = a[i * n + j];
            (fill == CUBLAS_FILL_MODE_UPPER ? lower : upper) = fill == CUBLAS_FILL_MODE_UPPER ? upper : lower;
        }
}

template <class S>
void triangle(std::vector<S>& a, size_t n, cublasFillMode_t fill, cublasDiagType_t diag) {
    for (size_t j = 0; j < n; ++j) {
        for (size_t i = 0; i < n; ++i)
            if (fill == CUBLAS_FILL_MODE_UPPER ? i > j : i < j) a[j * n + i] = S(0);
        if (diag == CUBLAS_DIAG_UNIT) a[j * n + j] = S(1);
    }
}

template <class S>
std::vector<S> scaled_output(const Call& call, S beta, const Lines& c) {
    // beta zero: C is not read, so that it may hold anything.
    if (beta == S(0)) return std::vector<S>(c.length * c.lines);
    std::vector<S> values = fetch<S>(call.name, c);
    for (S& value : values) value *= beta;
    return values;
}

/// c (by columns) += alpha · row-major product.
template <class S>
void add_product(std::vector<S>& c, size_t m, size_t n, S alpha, const std::vector<S>& product) {
    for (size_t j = 0; j < n; ++j)
        for (size_t i = 0; i < m; ++i) c[j * m + i] += alpha * product[i * n + j];
}

/// Where the matrices of a batch are: at a stride, or where an array of the device says.
inline std::vector<const void*> operands(const Call& call, Matrix a, int batch) {
    std::vector<const void*> out(static_cast<size_t>(batch));
    if (a.pointers) {
        std::memcpy(out.data(), reach(call.name, {a.data, CUDA_R_64F, out.size(), 1, out.size()}, Access::read), out.size() * sizeof(void*));
    } else {
        const long long step = a.stride * static_cast<long long>(element_size(a.type));
        for (int i = 0; i < batch; ++i) out[static_cast<size_t>(i)] = static_cast<const char*>(a.data) + i * step;
    }
    return out;
}

}  // namespace wmmadiag::blas
