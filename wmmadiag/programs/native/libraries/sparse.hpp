// cuSPARSE: every matrix is read as its elements, (row, column, value); what a call does is done on those.
#pragma once

#include "cusparse.h"

#include <algorithm>
#include <map>
#include <string>

#include "elements.hpp"

struct cusparseContext {
    cudaStream_t stream = nullptr;
    cusparsePointerMode_t pointers = CUSPARSE_POINTER_MODE_HOST;
};
struct cusparseMatDescr {
    cusparseMatrixType_t type = CUSPARSE_MATRIX_TYPE_GENERAL;
    cusparseIndexBase_t base = CUSPARSE_INDEX_BASE_ZERO;
    cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diag = CUSPARSE_DIAG_TYPE_NON_UNIT;
};
struct cusparseSpVecDescr {
    int64_t size, nnz;
    const void *indices, *values;
    cusparseIndexType_t index;
    cusparseIndexBase_t base;
    cudaDataType type;
};
struct cusparseDnVecDescr {
    int64_t size;
    const void* values;
    cudaDataType type;
};
struct cusparseDnMatDescr {
    int64_t rows, cols, ld;
    const void* values;
    cudaDataType type;
    cusparseOrder_t order;
};
struct cusparseSpMatDescr {
    cusparseFormat_t format;
    int64_t rows, cols, nnz;
    const void *lines, *minor, *values;  // offsets (CSR, CSC) or rows (COO); columns, of CSC rows
    cusparseIndexType_t line_index, minor_index;
    cusparseIndexBase_t base;
    cudaDataType type;
    cusparseFillMode_t fill = CUSPARSE_FILL_MODE_LOWER;
    cusparseDiagType_t diag = CUSPARSE_DIAG_TYPE_NON_UNIT;
};
struct cusparseSpSVDescr {
    bool analysed = false;
};

namespace wmmadiag::sparse {

using namespace libraries;

struct Element {
    int64_t row, column;
    Complex value;
};

}  // namespace wmmadiag::sparse

struct cusparseSpGEMMDescr {
    std::vector<wmmadiag::sparse::Element> product;  // of the last computation, row by row
};

namespace wmmadiag::sparse {

using Elements = std::vector<Element>;
constexpr size_t buffer_bytes = 256;  // what a program is told that a buffer takes: none is used

struct Refused {
    cusparseStatus_t status;
};
[[noreturn]] inline void wrong(const char* name, const std::string& why) {
    report("library", "invalid-value", "warning", std::string(name) + ": " + why, "the call returns CUSPARSE_STATUS_INVALID_VALUE and does nothing");
    throw Refused{CUSPARSE_STATUS_INVALID_VALUE};
}
[[noreturn]] inline void not_offered(const char* name, const std::string& what) {
    report("library", "unsupported", "warning", std::string(name) + ": " + what, "the call returns CUSPARSE_STATUS_NOT_SUPPORTED and does nothing");
    throw Refused{CUSPARSE_STATUS_NOT_SUPPORTED};
}

template <class Body>
cusparseStatus_t guarded(Caller caller, cusparseHandle_t handle, const Body& body) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    if (status() != cudaSuccess) return CUSPARSE_STATUS_EXECUTION_FAILED;
    try {
        body(Call{caller.function, handle->stream, handle->pointers == CUSPARSE_POINTER_MODE_DEVICE});
        return CUSPARSE_STATUS_SUCCESS;
    } catch (const Refused& refused) {
        return refused.status;
    } catch (cudaError_t) {
        return CUSPARSE_STATUS_EXECUTION_FAILED;
    }
}

inline void known(const Call& call, cudaDataType type) {
    if (element_size(type) == 0) not_offered(call.name, "elements of cudaDataType " + std::to_string(type) + " are not offered");
}

inline std::vector<int64_t> indices(const char* name, const void* data, cusparseIndexType_t type, int64_t count, int64_t base) {
    std::vector<int64_t> out(static_cast<size_t>(count));
    if (out.empty()) return out;
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, out.size(), 1, out.size()};
    const std::byte* at = reach(name, lines, Access::read);
    expect_written(name, lines);
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = (type == CUSPARSE_INDEX_64I ? read_as<int64_t>(at + 8 * i) : read_as<int32_t>(at + 4 * i)) - base;
    return out;
}
inline void put_indices(const char* name, const void* data, cusparseIndexType_t type, const std::vector<int64_t>& values, int64_t base) {
    if (values.empty()) return;
    const Lines lines{data, type == CUSPARSE_INDEX_64I ? CUDA_R_64F : CUDA_R_32I, values.size(), 1, values.size()};
    std::byte* at = reach(name, lines, Access::write);
    for (size_t i = 0; i < values.size(); ++i) {
        const int64_t wide = values[i] + base;
        const auto narrow = static_cast<int32_t>(wide);
        if (type == CUSPARSE_INDEX_64I) std::memcpy(at + 8 * i, &wide, 8);
        else std::memcpy(at + 4 * i, &narrow, 4);
    }
    mark_written(lines);
}

inline std::vector<Complex> numbers(const char* name, const void* data, cudaDataType type, int64_t count) {
    const auto n = static_cast<size_t>(count);
    return fetch<Complex>(name, {data, type, n, 1, n});
}
inline void put_lines(const char* name, const Lines& to, const std::vector<Complex>& values) {
    if (is_complex(to.type)) return put<Complex>(name, to, values);
    std::vector<double> real(values.size());
    std::transform(values.begin(), values.end(), real.begin(), [](Complex one) { return one.real(); });
    put<double>(name, to, real);
}
inline void put_numbers(const char* name, const void* data, cudaDataType type, const std::vector<Complex>& values) {
    put_lines(name, {data, type, values.size(), 1, values.size()}, values);
}

/// An index outside its matrix is a bug that the chip reads beyond an array with.
inline void inside(const char* name, const char* what, int64_t index, int64_t size, size_t element) {
    if (index >= 0 && index < size) return;
    report("memory", "sparse-index", "error",
           std::string(name) + ": the " + what + " of element " + std::to_string(element) + " is " + std::to_string(index) + ", not within 0 to " +
               std::to_string(size - 1),
           "check the matrix's indices, their base and its sizes");
    throw cudaErrorIllegalAddress;
}
/// Offsets rise from 0 to the number of elements. Elements behind the last offset are no part of the matrix, and told: the chip's library takes it so.
inline void offsets_hold(const char* name, const std::vector<int64_t>& offsets, int64_t nnz) {
    if (!offsets.empty() && offsets.back() >= 0 && offsets.back() < nnz)
        report("library", "sparse-size", "warning",
               std::string(name) + ": the matrix has " + std::to_string(offsets.back()) + " elements by its offsets, and was made with " +
                   std::to_string(nnz),
               "check its number of elements");
    for (size_t i = 0; i < offsets.size(); ++i) {
        const int64_t least = i == 0 ? 0 : offsets[i - 1];
        if (offsets[i] >= least && offsets[i] <= nnz && (i != 0 || offsets[i] == 0)) continue;
        report("memory", "sparse-index", "error",
               std::string(name) + ": offset " + std::to_string(i) + " is " + std::to_string(offsets[i]) + ", where they rise from 0 to " +
                   std::to_string(nnz) + ", the number of elements",
               "check the matrix's offsets, their base and its number of elements");
        throw cudaErrorIllegalAddress;
    }
}

inline Elements places(const char* name, const cusparseSpMatDescr& a) {
    Elements out(static_cast<size_t>(a.nnz));
    const auto minor = indices(name, a.minor, a.minor_index, a.nnz, a.base);
    const bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
    if (a.format == CUSPARSE_FORMAT_COO) {
        const auto major = indices(name, a.lines, a.line_index, a.nnz, a.base);
        for (size_t i = 0; i < out.size(); ++i) out[i].row = major[i];
    } else {
        const int64_t lines = by_columns ? a.cols : a.rows;
        const auto offsets = indices(name, a.lines, a.line_index, lines + 1, a.base);
        offsets_hold(name, offsets, a.nnz);
        out.resize(static_cast<size_t>(lines == 0 ? 0 : offsets.back()));
        for (int64_t line = 0; line < lines; ++line)
            for (int64_t i = offsets[static_cast<size_t>(line)]; i < offsets[static_cast<size_t>(line) + 1]; ++i)
                out[static_cast<size_t>(i)].row = line;
    }
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].column = minor[i];
        if (by_columns) std::swap(out[i].row, out[i].column);
        inside(name, "row", out[i].row, a.rows, i);
        inside(name, "column", out[i].column, a.cols, i);
    }
    return out;
}

inline Elements elements(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op) {
    auto out = places(name, a);
    const auto values = numbers(name, a.values, a.type, static_cast<int64_t>(out.size()));
    for (size_t i = 0; i < out.size(); ++i) {
        out[i].value = op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE ? std::conj(values[i]) : values[i];
        if (op != CUSPARSE_OPERATION_NON_TRANSPOSE) std::swap(out[i].row, out[i].column);
    }
    return out;
}

/// Row after row, columns rising; the order among equals is kept.
inline void sort(Elements& all) {
    std::stable_sort(all.begin(), all.end(), [](const Element& a, const Element& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
}

/// Writes places and values in the matrix's format; `all` is sorted by rows.
inline void put_elements(const char* name, const cusparseSpMatDescr& a, Elements all) {
    const bool by_columns = a.format == CUSPARSE_FORMAT_CSC;
    if (by_columns)
        for (auto& one : all) std::swap(one.row, one.column);
    if (by_columns) sort(all);
    std::vector<int64_t> major(all.size()), minor(all.size());
    std::vector<Complex> values(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        major[i] = all[i].row;
        minor[i] = all[i].column;
        values[i] = all[i].value;
    }
    if (a.format != CUSPARSE_FORMAT_COO) {
        std::vector<int64_t> offsets(static_cast<size_t>(by_columns ? a.cols : a.rows) + 1);
        for (const auto line : major) ++offsets[static_cast<size_t>(line) + 1];
        for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
        major = offsets;
    }
    put_indices(name, a.lines, a.line_index, major, a.base);
    put_indices(name, a.minor, a.minor_index, minor, a.base);
    put_numbers(name, a.values, a.type, values);
}

/// A dense matrix, row by row.
struct Dense {
    size_t rows, cols;
    std::vector<Complex> values;
    Complex& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
    Complex at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i) * cols + static_cast<size_t>(j)]; }
};
inline Lines stored(const cusparseDnMatDescr& a) {
    const bool rows = a.order == CUSPARSE_ORDER_ROW;
    return {a.values, a.type, static_cast<size_t>(rows ? a.cols : a.rows), static_cast<size_t>(rows ? a.rows : a.cols), static_cast<size_t>(a.ld)};
}
inline Dense turned(const Dense& a, bool conjugates) {
    Dense out{a.cols, a.rows, std::vector<Complex>(a.values.size())};
    for (size_t i = 0; i < a.rows; ++i)
        for (size_t j = 0; j < a.cols; ++j) out.values[j * a.rows + i] = conjugates ? std::conj(a.values[i * a.cols + j]) : a.values[i * a.cols + j];
    return out;
}
inline Dense dense(const char* name, const cusparseDnMatDescr& a, cusparseOperation_t op = CUSPARSE_OPERATION_NON_TRANSPOSE) {
    Dense out{static_cast<size_t>(a.rows), static_cast<size_t>(a.cols), fetch<Complex>(name, stored(a))};
    if (a.order == CUSPARSE_ORDER_COL) {
        std::swap(out.rows, out.cols);
        out = turned(out, false);
    }
    return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? out : turned(out, op == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE);
}
inline void put_dense(const char* name, const cusparseDnMatDescr& to, const Dense& a) {
    put_lines(name, stored(to), to.order == CUSPARSE_ORDER_ROW ? a.values : turned(a, false).values);
}

/// alpha or beta: read at the call from the host, or in the stream's order from the device.
struct Factor {
    Call call;
    const void* from;
    cudaDataType type;
    Complex value;
    Complex operator()() const { return call.device_scalars ? numbers(call.name, from, type, 1)[0] : value; }
};
inline Factor factor(const Call& call, const void* from, cudaDataType type) {
    known(call, type);
    if (from == nullptr) wrong(call.name, "alpha or beta is a null pointer");
    return {call, from, type, call.device_scalars ? Complex() : load<Complex>(type, from)};
}

inline void agree(const Call& call, const char* what, int64_t left, int64_t right) {
    if (left != right) wrong(call.name, std::string(what) + ": " + std::to_string(left) + " and " + std::to_string(right));
}
inline int64_t rows_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
inline int64_t rows_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.rows : a.cols; }
inline int64_t cols_of(const cusparseSpMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }
inline int64_t cols_of(const cusparseDnMatDescr& a, cusparseOperation_t op) { return op == CUSPARSE_OPERATION_NON_TRANSPOSE ? a.cols : a.rows; }

/// What the program is told of a buffer, or CUSPARSE_STATUS_INVALID_VALUE where an operand is missing.
template <class... Operands>
cusparseStatus_t sized(cusparseHandle_t handle, size_t* bytes, const Operands*... operands) {
    if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (bytes == nullptr || (... || (operands == nullptr))) return CUSPARSE_STATUS_INVALID_VALUE;
    *bytes = buffer_bytes;
    return CUSPARSE_STATUS_SUCCESS;
}
template <class... Operands>
cusparseStatus_t prepared(cusparseHandle_t handle, const Operands*... operands) {
    size_t bytes;
    return sized(handle, &bytes, operands...);
}
template <class... Operands>
void present(const Call& call, const Operands*... operands) {
    if ((... || (operands == nullptr))) wrong(call.name, "an operand is a null pointer");
    (known(call, operands->type), ...);
}

/// op(A) x = alpha b for every column of b, A's triangle alone.
inline Dense solved(const char* name, const cusparseSpMatDescr& a, cusparseOperation_t op, Dense x) {
    auto all = elements(name, a, op);
    const bool lower = (a.fill == CUSPARSE_FILL_MODE_LOWER) == (op == CUSPARSE_OPERATION_NON_TRANSPOSE);
    std::vector<std::vector<Element>> rows(x.rows);
    for (const auto& one : all) rows[static_cast<size_t>(one.row)].push_back(one);
    for (size_t step = 0; step < x.rows; ++step) {
        const size_t i = lower ? step : x.rows - 1 - step;
        Complex diagonal = a.diag == CUSPARSE_DIAG_TYPE_UNIT ? 1 : 0;
        for (const auto& one : rows[i]) {
            const auto j = static_cast<size_t>(one.column);
            if (j == i && a.diag == CUSPARSE_DIAG_TYPE_NON_UNIT) diagonal += one.value;
            if (lower ? j < i : j > i)
                for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] -= one.value * x.values[j * x.cols + c];
        }
        for (size_t c = 0; c < x.cols; ++c) x.values[i * x.cols + c] /= diagonal;
    }
    return x;
}

template <class To, class From>
cusparseStatus_t made(To* to, const From& from) {
    if (to == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *to = new From(from);
    return CUSPARSE_STATUS_SUCCESS;
}
template <class T>
cusparseStatus_t gone(const T* descriptor) {
    delete descriptor;
    return CUSPARSE_STATUS_SUCCESS;
}
template <class T, class Value>
cusparseStatus_t given(Value* to, const T* from, Value value) {
    if (from == nullptr || to == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
    *to = value;
    return CUSPARSE_STATUS_SUCCESS;
}
inline bool indexed(cusparseIndexType_t type) { return type == CUSPARSE_INDEX_32I || type == CUSPARSE_INDEX_64I; }

template <class To>
cusparseStatus_t matrix(To* to, cusparseFormat_t format, int64_t rows, int64_t cols, int64_t nnz, const void* lines, const void* minor,
                        const void* values, cusparseIndexType_t line_index, cusparseIndexType_t minor_index, cusparseIndexBase_t base,
                        cudaDataType type) {
    if (rows < 0 || cols < 0 || nnz < 0) return CUSPARSE_STATUS_INVALID_VALUE;
    if (!indexed(line_index) || !indexed(minor_index)) return CUSPARSE_STATUS_NOT_SUPPORTED;
    return made(to, cusparseSpMatDescr{format, rows, cols, nnz, lines, minor, values, line_index, minor_index, base, type});
}
inline cusparseStatus_t pointed(cusparseSpMatDescr_t mat, cusparseFormat_t format, void* lines, void* minor, void* values) {
    if (mat == nullptr || mat->format != format) return CUSPARSE_STATUS_INVALID_VALUE;
    mat->lines = lines;
    mat->minor = minor;
    mat->values = values;
    return CUSPARSE_STATUS_SUCCESS;
}

inline Elements nonzeros(const char* name, const cusparseDnMatDescr& a) {
    const auto full = dense(name, a);
    Elements out;
    for (size_t i = 0; i < full.rows; ++i)
        for (size_t j = 0; j < full.cols; ++j)
            if (const auto value = full.values[i * full.cols + j]; value != Complex()) out.push_back({int64_t(i), int64_t(j), value});
    return out;
}

inline cusparseSpMatDescr csr(int rows, int cols, int nnz, const int* offsets, const int* columns, const void* values, cusparseIndexBase_t base,
                              cudaDataType type) {
    return {CUSPARSE_FORMAT_CSR, rows, cols, nnz, offsets, columns, values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, base, type};
}

}  // namespace wmmadiag::sparse
